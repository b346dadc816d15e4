"""OffsetDeleteResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import NEWEST, Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    partition_index: int = 0
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    name: str = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteResponse:
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()


_OFFSET_DELETE_RESPONSE_PARTITION: Final = Format(
    OffsetDeleteResponsePartition,
    version_min=0,
    version_max=0,
    flexible_from=NEWEST,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
    ),
)
_OFFSET_DELETE_RESPONSE_TOPIC: Final = Format(
    OffsetDeleteResponseTopic,
    version_min=0,
    version_max=0,
    flexible_from=NEWEST,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_OFFSET_DELETE_RESPONSE_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetDeleteResponse,
    version_min=0,
    version_max=0,
    flexible_from=NEWEST,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("throttle_time_ms", "int32"),
        FormatField("topics", entity=_OFFSET_DELETE_RESPONSE_TOPIC, is_array=True),
    ),
)
