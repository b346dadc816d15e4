"""ListOffsetsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsPartition:
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsTopic:
    name: str = ""
    partitions: Sequence[ListOffsetsPartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsRequest:
    replica_id: int = 0
    isolation_level: int = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: int = 0
