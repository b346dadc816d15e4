"""WriteTxnMarkersResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    partition_index: int = 0
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    name: str = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class WritableTxnMarkerResult:
    producer_id: int = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    markers: Sequence[WritableTxnMarkerResult] = ()


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
