"""ProduceRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionProduceData(Message):
    """A part of ProduceRequest."""

    index: int
    records: bytes | None

    def __init__(
        self,
        *,
        index: int = 0,
        records: bytes | None = None,
    ) -> None:
        self.index = index
        self.records = records


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicProduceData(Message):
    """A part of ProduceRequest."""

    topic_id: UUID | None
    partition_data: Sequence[PartitionProduceData]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partition_data: Sequence[PartitionProduceData] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partition_data = partition_data
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ProduceRequest(Message):
    """The message."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: Sequence[TopicProduceData]

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: Sequence[TopicProduceData] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data


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
