"""An index for tests: its definition, its topic in memory, and its files, which pyiceberg writes."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bmq.index.engine import EngineLimits, QueryEngine
from bmq.index.file_planning import IndexFiles
from bmq.index.row_decoder import TailRows
from bmq.spark.tables.table_offsets import OFFSETS_PROPERTY, TableOffsets
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.index_identity import INDEX_PROPERTY, index_identity
from bmq.table_definitions.index_layout import Every
from bmq.table_definitions.stored import StoredTable
from tests.fakes.indexed_topic import IndexedTopic
from tests.support.directory_catalog import DirectoryCatalog, set_properties

TOPIC_ID = uuid.UUID(int=7)
NOW_MS = 1_764_000_000_000
"""2025-11-24 16:00 UTC."""
HOUR_MS = 3_600_000
ROW_GROUP_ROWS = 8
FORM: dict[str, Any] = {
    "name": "orders_index",
    "topic": "orders",
    "format": "json",
    "fields": [
        {"name": "customer", "type": "string", "path": "customer.id"},
        {"name": "price", "type": "decimal(10,2)"},
        {"name": "city", "type": "string"},
        {"name": "paid_at", "type": "timestamp", "unit": "ms"},
        {"name": "is_gift", "type": "boolean"},
    ],
    "index": {
        "keys": [
            {"field": "customer"},
            {"field": "price", "by": "range"},
            {"field": "city", "by": "prefix"},
        ]
    },
}


def index_definition(**changes: Any) -> TableDefinition:
    """FORM with some keys replaced."""
    return TableDefinition.from_json(json.dumps({**FORM, **changes}))


def stored_index(definition: TableDefinition, *, table_id: int = 1) -> StoredTable:
    return StoredTable(
        table_id=uuid.UUID(int=table_id),
        topic_id=TOPIC_ID,
        version=1,
        created_at_ms=0,
        altered_at_ms=0,
        definition=definition,
    )


def order(number: int) -> bytes:
    """Ten customers, prices from 0 to 99.5, three cities; each seventh has no price, each eleventh is no order."""
    if number % 11 == 10:
        return b"no order"
    form: dict[str, Any] = {
        "customer": {"id": f"c{number % 10}"},
        "price": None if number % 7 == 6 else f"{number % 200 / 2:.2f}",
        "city": ("Berlin", "Bern", "Aachen")[number % 3],
        "paid_at": NOW_MS - number * 1_000,
        "is_gift": number % 2 == 0,
    }
    return json.dumps(form).encode()


def filled_topic(count: int, *, partitions: int = 2, ms_between: int = 60_000) -> IndexedTopic:
    """`count` orders, in turn over the partitions; the last one is at NOW_MS, each other one so much earlier."""
    topic = IndexedTopic("orders", TOPIC_ID, partitions)
    for number in range(count):
        timestamp_ms = NOW_MS - (count - 1 - number) * ms_between
        topic.append(number % partitions, [order(number)], timestamp_ms=timestamp_ms)
    return topic


class IndexWriter:
    """Does what the job does: appends rows, and moves the offsets."""

    def __init__(self, warehouse: Path, stored: StoredTable, topic: IndexedTopic) -> None:
        self._stored, self._topic = stored, topic
        self._offsets = dict.fromkeys(topic.logs, 0)
        layout = stored.definition.index
        assert layout is not None
        self._time_column = layout.time_column
        self._micros = (HOUR_MS if layout.every is Every.HOUR else 24 * HOUR_MS) * 1_000
        self._data = warehouse / "tables" / stored.definition.name / "data"
        self._data.mkdir(parents=True)
        self._files = 0
        self._sort = [(name, "ascending") for name in layout.sort_columns]
        schema = TailRows(stored.definition).table().schema
        self._table = DirectoryCatalog(warehouse).make(
            stored.definition.name, schema, layout.time_column, layout.every.value
        )

    def index_to(self, offsets: Mapping[int, int], *, topic_id: uuid.UUID = TOPIC_ID) -> None:
        rows = TailRows(self._stored.definition)
        for partition, end in offsets.items():
            for record in self._topic.logs[partition][self._offsets[partition] : end]:
                rows.take(record)
        self._offsets.update(offsets)
        self.append(rows.table())
        text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        committed = TableOffsets(self._topic.name, text, dict(self._offsets))
        definition = self._stored.definition
        moved = {OFFSETS_PROPERTY + definition.name: committed.to_json()}
        set_properties(self._table, {**moved, INDEX_PROPERTY: index_identity(definition)})

    def append(self, rows: pa.Table) -> None:
        """A sorted file for each partition by time."""
        micros = pc.cast(rows[self._time_column], pa.int64())
        parts = pc.divide(micros, pa.scalar(self._micros))
        files = []
        for part in pc.unique(parts):
            self._files += 1
            path = self._data / f"{self._files}.parquet"
            pq.write_table(rows.filter(pc.equal(parts, part)).sort_by(self._sort), path, row_group_size=ROW_GROUP_ROWS)
            files.append(f"file:{path}")
        self._table.add_files(files)


def engine_on(warehouse: Path, topic: IndexedTopic, **limits: Any) -> QueryEngine:
    files = IndexFiles(f"file:{warehouse}")
    return QueryEngine(files, topic, EngineLimits(threads=1, **limits), now_ms=lambda: NOW_MS)
