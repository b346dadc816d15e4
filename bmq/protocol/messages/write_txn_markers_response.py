"""WriteTxnMarkersResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class WritableTxnMarkerPartitionResult(Message):
    """A part of WriteTxnMarkersResponse."""

    partition_index: int
    error_code: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class WritableTxnMarkerTopicResult(Message):
    """A part of WriteTxnMarkersResponse."""

    name: str
    partitions: Sequence[WritableTxnMarkerPartitionResult]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[WritableTxnMarkerPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class WritableTxnMarkerResult(Message):
    """A part of WriteTxnMarkersResponse."""

    producer_id: int
    topics: Sequence[WritableTxnMarkerTopicResult]

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: Sequence[WritableTxnMarkerTopicResult] = (),
    ) -> None:
        self.producer_id = producer_id
        self.topics = topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class WriteTxnMarkersResponse(Message):
    """The message."""

    markers: Sequence[WritableTxnMarkerResult]

    def __init__(
        self,
        *,
        markers: Sequence[WritableTxnMarkerResult] = (),
    ) -> None:
        self.markers = markers


_WRITABLE_TXN_MARKER_PARTITION_RESULT: Final = Format(
    WritableTxnMarkerPartitionResult,
    version_min=1,
    version_max=2,
    flexible_from=1,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
    ),
)
_WRITABLE_TXN_MARKER_TOPIC_RESULT: Final = Format(
    WritableTxnMarkerTopicResult,
    version_min=1,
    version_max=2,
    flexible_from=1,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_WRITABLE_TXN_MARKER_PARTITION_RESULT, is_array=True),
    ),
)
_WRITABLE_TXN_MARKER_RESULT: Final = Format(
    WritableTxnMarkerResult,
    version_min=1,
    version_max=2,
    flexible_from=1,
    fields=(
        FormatField("producer_id", "int64"),
        FormatField("topics", entity=_WRITABLE_TXN_MARKER_TOPIC_RESULT, is_array=True),
    ),
)
FORMAT: Final = Format(
    WriteTxnMarkersResponse,
    version_min=1,
    version_max=2,
    flexible_from=1,
    fields=(FormatField("markers", entity=_WRITABLE_TXN_MARKER_RESULT, is_array=True),),
)
