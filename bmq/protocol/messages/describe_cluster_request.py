"""DescribeClusterRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False
