"""OffsetForLeaderEpochRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetForLeaderPartition:
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopic:
    topic: str = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    replica_id: int = -2
    topics: Sequence[OffsetForLeaderTopic] = ()
