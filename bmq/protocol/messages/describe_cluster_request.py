"""DescribeClusterRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeClusterRequest(Message):
    """The message."""

    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


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
