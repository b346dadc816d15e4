"""DescribeClusterRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


FORMAT: Final = Format(
    DescribeClusterRequest,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("include_cluster_authorized_operations", "bool"),
        FormatField("endpoint_type", "int8", since=1),
        FormatField("include_fenced_brokers", "bool", since=2),
    ),
)
