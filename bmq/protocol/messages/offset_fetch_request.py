"""OffsetFetchRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    topic_id: UUID | None = None
    partition_indexes: Sequence[int] = ()
    name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: Sequence[OffsetFetchRequestTopics] | None = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    name: str = ""
    partition_indexes: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchRequest:
    groups: Sequence[OffsetFetchRequestGroup] = ()
    require_stable: bool = False
    group_id: str = ""
    topics: Sequence[OffsetFetchRequestTopic] | None = ()
