"""DeleteRecordsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


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
