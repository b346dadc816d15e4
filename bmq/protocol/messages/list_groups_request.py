"""ListGroupsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ListGroupsRequest:
    states_filter: Sequence[str] = ()
    types_filter: Sequence[str] = ()


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
