"""ElectLeadersResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionResult(Message):
    """A part of ElectLeadersResponse."""

    partition_id: int
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReplicaElectionResult(Message):
    """A part of ElectLeadersResponse."""

    topic: str
    partition_result: Sequence[PartitionResult]

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: Sequence[PartitionResult] = (),
    ) -> None:
        self.topic = topic
        self.partition_result = partition_result


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ElectLeadersResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    replica_election_results: Sequence[ReplicaElectionResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: Sequence[ReplicaElectionResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = replica_election_results


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
