"""DeleteRecordsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteRecordsPartition(Message):
    """A part of DeleteRecordsRequest."""

    partition_index: int
    offset: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteRecordsTopic(Message):
    """A part of DeleteRecordsRequest."""

    name: str
    partitions: Sequence[DeleteRecordsPartition]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DeleteRecordsRequest(Message):
    """The message."""

    topics: Sequence[DeleteRecordsTopic]
    timeout_ms: int

    def __init__(
        self,
        *,
        topics: Sequence[DeleteRecordsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms


_DELETE_RECORDS_PARTITION: Final = Format(
    DeleteRecordsPartition,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("offset", "int64"),
    ),
)
_DELETE_RECORDS_TOPIC: Final = Format(
    DeleteRecordsTopic,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_DELETE_RECORDS_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    DeleteRecordsRequest,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("topics", entity=_DELETE_RECORDS_TOPIC, is_array=True),
        FormatField("timeout_ms", "int32"),
    ),
)
