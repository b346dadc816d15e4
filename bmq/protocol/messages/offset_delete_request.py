"""OffsetDeleteRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    partition_index: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    name: str = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteRequest:
    group_id: str = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()
