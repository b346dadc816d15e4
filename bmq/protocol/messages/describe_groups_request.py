"""DescribeGroupsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeGroupsRequest:
    groups: Sequence[str] = ()
    include_authorized_operations: bool = False
