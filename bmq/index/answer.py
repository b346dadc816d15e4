"""A query's answer: rows, how complete they are, what it cost. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from bmq.dataclass import dataclass
from bmq.index.completeness import PartitionAnswer
from bmq.index.pruning import Estimate
from bmq.index.topic_reader import LogRecord
from bmq.index.values import Value, from_micros, json_of


@dataclass(frozen=True, slots=True)
class Row:
    """One record that matches. `fields`: the definition's, by name. `record`: the whole one, where it was asked for."""

    partition: int
    offset: int
    timestamp_micros: int | None
    fields: dict[str, Value | None]
    record: LogRecord | None = None

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": json_of(from_micros(self.timestamp_micros)),
            "fields": {name: json_of(value) for name, value in self.fields.items()},
        }
        if self.record is not None:
            form["record"] = {
                "key": _base64(self.record.key),
                "value": _base64(self.record.value),
                "headers": [{"key": name, "value": _base64(value)} for name, value in self.record.headers],
            }
        return form


@dataclass(frozen=True, slots=True)
class Answer:
    """`gone`: records that matched and were compacted away, where whole records were asked for. `explanation`: of a query that
    was only explained; then there are no rows, and `partitions` tell what would be read.
    """

    index: str
    topic: str
    rows: Sequence[Row]
    partitions: Sequence[PartitionAnswer]
    continuation: str | None
    estimate: Estimate
    gone: int = 0
    tail_records: int = 0
    tail_bytes: int = 0
    tail_misfits: int = 0
    snapshot_id: int | None = None
    elapsed_ms: int = 0
    explanation: Sequence[str] = field(default_factory=tuple)

    @property
    def is_complete(self) -> bool:
        return all(each.is_complete for each in self.partitions)

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "topic": self.topic,
            "rows": [row.to_json() for row in self.rows],
            "is_complete": self.is_complete,
            "partitions": [
                {
                    "partition": each.partition,
                    "log_start": each.log_start,
                    "indexed_to": each.indexed_to,
                    "complete_to": each.complete_to,
                    "end": each.end,
                }
                for each in self.partitions
            ],
            "continuation": self.continuation,
            "gone": self.gone,
            "estimate": {
                "files": self.estimate.files,
                "files_total": self.estimate.files_total,
                "rows": self.estimate.rows,
                "bytes": self.estimate.bytes,
            },
            "tail": {"records": self.tail_records, "bytes": self.tail_bytes, "misfits": self.tail_misfits},
            "snapshot_id": self.snapshot_id,
            "elapsed_ms": self.elapsed_ms,
            "explanation": list(self.explanation),
        }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
