"""OffsetDeleteResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import NEWEST, Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetDeleteResponsePartition(Message):
    """A part of OffsetDeleteResponse."""

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
class OffsetDeleteResponseTopic(Message):
    """A part of OffsetDeleteResponse."""

    name: str
    partitions: Sequence[OffsetDeleteResponsePartition]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[OffsetDeleteResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetDeleteResponse(Message):
    """The message."""

    error_code: int
    throttle_time_ms: int
    topics: Sequence[OffsetDeleteResponseTopic]

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetDeleteResponseTopic] = (),
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


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
