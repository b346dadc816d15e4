"""CreateTopicsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableReplicaAssignment:
    partition_index: int = 0
    broker_ids: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableTopicConfig:
    name: str = ""
    value: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableTopic:
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CreateTopicsRequest:
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: int = 60000
    validate_only: bool = False
