"""AlterPartitionReassignmentsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ReassignablePartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class ReassignableTopicResponse:
    name: str = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = None
    responses: Sequence[ReassignableTopicResponse] = ()


_REASSIGNABLE_PARTITION_RESPONSE: Final = Format(
    ReassignablePartitionResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
_REASSIGNABLE_TOPIC_RESPONSE: Final = Format(
    ReassignableTopicResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_REASSIGNABLE_PARTITION_RESPONSE, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterPartitionReassignmentsResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("allow_replication_factor_change", "bool", since=1),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("responses", entity=_REASSIGNABLE_TOPIC_RESPONSE, is_array=True),
    ),
)
