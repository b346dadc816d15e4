"""ProduceRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


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


_PARTITION_PRODUCE_DATA: Final = Format(
    PartitionProduceData,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("index", "int32"),
        FormatField("records", "records", nullable_since=0),
    ),
)
_TOPIC_PRODUCE_DATA: Final = Format(
    TopicProduceData,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("topic_id", "uuid", since=13),
        FormatField("name", "string", until=12),
        FormatField("partition_data", entity=_PARTITION_PRODUCE_DATA, is_array=True),
    ),
)
FORMAT: Final = Format(
    ProduceRequest,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("transactional_id", "string", nullable_since=0),
        FormatField("acks", "int16"),
        FormatField("timeout_ms", "int32"),
        FormatField("topic_data", entity=_TOPIC_PRODUCE_DATA, is_array=True),
    ),
)
