"""ProduceRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class PartitionProduceData:
    index: int = 0
    records: bytes | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicProduceData:
    topic_id: UUID | None = None
    partition_data: Sequence[PartitionProduceData] = ()
    name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class ProduceRequest:
    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: Sequence[TopicProduceData] = ()
