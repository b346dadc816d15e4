"""DescribeProducersResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ProducerState:
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class PartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: Sequence[ProducerState] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicResponse:
    name: str = ""
    partitions: Sequence[PartitionResponse] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeProducersResponse:
    throttle_time_ms: int = 0
    topics: Sequence[TopicResponse] = ()


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
