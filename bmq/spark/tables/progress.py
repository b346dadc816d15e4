"""A job's work and its lag after each batch: a value that the caller may send anywhere. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgress:
    """`batch`: Spark's number. `rows`, `dead_letters`, `files`: written by this batch. `deletions`: keys that it deleted, of a table
    whose records change rows.

    `next_offsets`: each partition's first offset not in the table; `end_offsets`: the topic's ends, read after the
    batch. `table_rows`, `table_files`, `table_bytes`: totals of the table's snapshot; `dead_letter_rows`: of the other
    table's. `duration_ms`: of the batch. `is_replay`: the table already had all of it.
    """

    table: str
    topic: str
    topic_id: str
    batch: int
    rows: int
    dead_letters: int
    files: int
    table_rows: int
    table_files: int
    table_bytes: int
    dead_letter_rows: int
    next_offsets: Mapping[int, int]
    end_offsets: Mapping[int, int]
    snapshot_id: int | None
    at_ms: int
    duration_ms: int
    is_replay: bool
    deletions: int = 0

    @property
    def lag(self) -> int:
        """Offsets of the topic that the table has not reached, over all partitions."""
        return sum(max(0, end - self.next_offsets.get(p, 0)) for p, end in self.end_offsets.items())

    def to_json(self) -> str:
        form = {**asdict(self), "lag": self.lag}
        for name in ("next_offsets", "end_offsets"):
            form[name] = {str(partition): offset for partition, offset in sorted(form[name].items())}
        return json.dumps(form, separators=(",", ":"))
