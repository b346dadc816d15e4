"""AlterReplicaLogDirsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: int = 0
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirTopicResult:
    topic_name: str = ""
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = 0
    results: Sequence[AlterReplicaLogDirTopicResult] = ()


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
