"""DeleteRecordsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteRecordsPartitionResult(Message):
    """A part of DeleteRecordsResponse."""

    partition_index: int
    low_watermark: int
    error_code: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteRecordsTopicResult(Message):
    """A part of DeleteRecordsResponse."""

    name: str
    partitions: Sequence[DeleteRecordsPartitionResult]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteRecordsResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[DeleteRecordsTopicResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[DeleteRecordsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


_DELETE_RECORDS_PARTITION_RESULT: Final = Format(
    DeleteRecordsPartitionResult,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("low_watermark", "int64"),
        FormatField("error_code", "int16"),
    ),
)
_DELETE_RECORDS_TOPIC_RESULT: Final = Format(
    DeleteRecordsTopicResult,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_DELETE_RECORDS_PARTITION_RESULT, is_array=True),
    ),
)
FORMAT: Final = Format(
    DeleteRecordsResponse,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("topics", entity=_DELETE_RECORDS_TOPIC_RESULT, is_array=True),
    ),
)
