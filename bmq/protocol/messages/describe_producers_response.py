"""DescribeProducersResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ProducerState(Message):
    """A part of DescribeProducersResponse."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionResponse(Message):
    """A part of DescribeProducersResponse."""

    partition_index: int
    error_code: int
    error_message: str | None
    active_producers: Sequence[ProducerState]

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: Sequence[ProducerState] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = active_producers


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicResponse(Message):
    """A part of DescribeProducersResponse."""

    name: str
    partitions: Sequence[PartitionResponse]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[PartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeProducersResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[TopicResponse]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[TopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


_PRODUCER_STATE: Final = Format(
    ProducerState,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("producer_id", "int64"),
        FormatField("producer_epoch", "int32"),
        FormatField("last_sequence", "int32"),
        FormatField("last_timestamp", "int64"),
        FormatField("coordinator_epoch", "int32"),
        FormatField("current_txn_start_offset", "int64"),
    ),
)
_PARTITION_RESPONSE: Final = Format(
    PartitionResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("active_producers", entity=_PRODUCER_STATE, is_array=True),
    ),
)
_TOPIC_RESPONSE: Final = Format(
    TopicResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_PARTITION_RESPONSE, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeProducersResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("topics", entity=_TOPIC_RESPONSE, is_array=True),
    ),
)
