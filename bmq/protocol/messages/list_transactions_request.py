"""ListTransactionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListTransactionsRequest(Message):
    """The message."""

    state_filters: Sequence[str]
    producer_id_filters: Sequence[int]
    duration_filter: int
    transactional_id_pattern: str | None

    def __init__(
        self,
        *,
        state_filters: Sequence[str] = (),
        producer_id_filters: Sequence[int] = (),
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = state_filters
        self.producer_id_filters = producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


FORMAT: Final = Format(
    ListTransactionsRequest,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("state_filters", "string", is_array=True),
        FormatField("producer_id_filters", "int64", is_array=True),
        FormatField("duration_filter", "int64", since=1),
        FormatField("transactional_id_pattern", "string", since=2, nullable_since=0),
    ),
)
