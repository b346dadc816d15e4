"""DescribeGroupsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeGroupsRequest:
    groups: Sequence[str] = ()
    include_authorized_operations: bool = False


FORMAT: Final = Format(
    DescribeGroupsRequest,
    version_min=0,
    version_max=6,
    flexible_from=5,
    fields=(
        FormatField("groups", "string", is_array=True),
        FormatField("include_authorized_operations", "bool", since=3),
    ),
)
