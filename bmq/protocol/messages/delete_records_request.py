"""DeleteRecordsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteRecordsPartition:
    partition_index: int = 0
    offset: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteRecordsTopic:
    name: str = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteRecordsRequest:
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: int = 0


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
