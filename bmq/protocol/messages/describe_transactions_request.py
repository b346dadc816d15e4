"""DescribeTransactionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeTransactionsRequest(Message):
    """The message."""

    transactional_ids: Sequence[str]

    def __init__(
        self,
        *,
        transactional_ids: Sequence[str] = (),
    ) -> None:
        self.transactional_ids = transactional_ids


FORMAT: Final = Format(
    DescribeTransactionsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("transactional_ids", "string", is_array=True),),
)
