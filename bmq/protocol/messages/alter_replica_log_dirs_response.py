"""AlterReplicaLogDirsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterReplicaLogDirPartitionResult(Message):
    """A part of AlterReplicaLogDirsResponse."""

    partition_index: int
    error_code: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterReplicaLogDirTopicResult(Message):
    """A part of AlterReplicaLogDirsResponse."""

    topic_name: str
    partitions: Sequence[AlterReplicaLogDirPartitionResult]

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: Sequence[AlterReplicaLogDirPartitionResult] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterReplicaLogDirsResponse(Message):
    """The message."""

    throttle_time_ms: int
    results: Sequence[AlterReplicaLogDirTopicResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[AlterReplicaLogDirTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT: Final = Format(
    AlterReplicaLogDirPartitionResult,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
    ),
)
_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT: Final = Format(
    AlterReplicaLogDirTopicResult,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("partitions", entity=_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterReplicaLogDirsResponse,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("results", entity=_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT, is_array=True),
    ),
)
