"""ElectLeadersResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class PartitionResult:
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class ReplicaElectionResult:
    topic: str = ""
    partition_result: Sequence[PartitionResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ElectLeadersResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: Sequence[ReplicaElectionResult] = ()


_PARTITION_RESULT: Final = Format(
    PartitionResult,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("partition_id", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
_REPLICA_ELECTION_RESULT: Final = Format(
    ReplicaElectionResult,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("topic", "string"),
        FormatField("partition_result", entity=_PARTITION_RESULT, is_array=True),
    ),
)
FORMAT: Final = Format(
    ElectLeadersResponse,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16", since=1),
        FormatField("replica_election_results", entity=_REPLICA_ELECTION_RESULT, is_array=True),
    ),
)
