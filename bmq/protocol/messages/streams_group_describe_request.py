"""StreamsGroupDescribeRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class StreamsGroupDescribeRequest:
    group_ids: Sequence[str] = ()
    include_authorized_operations: bool = False
    include_topology_description: bool = False


FORMAT: Final = Format(
    StreamsGroupDescribeRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("group_ids", "string", is_array=True),
        FormatField("include_authorized_operations", "bool"),
        FormatField("include_topology_description", "bool", since=1),
    ),
)
