"""ListGroupsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListGroupsRequest(Message):
    """The message."""

    states_filter: Sequence[str]
    types_filter: Sequence[str]

    def __init__(
        self,
        *,
        states_filter: Sequence[str] = (),
        types_filter: Sequence[str] = (),
    ) -> None:
        self.states_filter = states_filter
        self.types_filter = types_filter


FORMAT: Final = Format(
    ListGroupsRequest,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("states_filter", "string", since=4, is_array=True),
        FormatField("types_filter", "string", since=5, is_array=True),
    ),
)
