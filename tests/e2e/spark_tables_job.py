"""Steps of test_spark_tables.py that share one Spark session, in a process of its own; prints one JSON line.

python -m tests.e2e.spark_tables_job DIRECTORY BOOTSTRAP TOPIC
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, Row, SparkSession

from bmq.spark.tables.columns import table_columns
from bmq.spark.tables.decoding import decoded, fitting_rows, misfit_rows
from bmq.spark.tables.errors import TableJobError
from bmq.spark.tables.iceberg import Catalog, IcebergTable
from bmq.spark.tables.job import TableJob, run_table, start_table
from bmq.spark.tables.maintenance_policy import MaintenancePolicy
from bmq.spark.tables.progress import TableProgress
from bmq.spark.tables.table_offsets import Writer
from bmq.table_definitions.definition import TableDefinition
from testing.processes import REPOSITORY, eventually
from testing.table_topics import SUBMIT_ARGUMENTS, order, orders_form, produce
from tests.unit.table_definitions.definitions import descriptor_set

RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
RECORDS_COLUMNS = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
WAIT_S = 180.0
MOMENT_MS = 1_700_000_000_123


class Steps:
    """One after the other; each gives what the test looks at."""

    def __init__(self, spark: SparkSession, directory: Path, bootstrap: str, topic: str) -> None:
        self.spark, self.directory, self.bootstrap, self.topic = spark, directory, bootstrap, topic
        self.progress: list[TableProgress] = []
        self.numbers = itertools.count(1_000_000)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.partitions = 2

    def all(self) -> dict[str, Any]:
        steps = [
            self.finish,
            self.replay,
            self.alter,
            self.add_columns_beside_commits,
            self.new_checkpoint,
            self.rivals,
            self.rolled_back,
            self.stop_at_misfits,
            self.refusals,
            self.examples,
            self.topic_made_again,
            self.formats,
            self.parses,
        ]
        return {step.__name__: step() for step in steps} | {"jvm": str(self.spark.version)}

    def finish(self) -> dict[str, Any]:
        self.run(self.definition())
        rows, dead = self.rows(), self.dead_letters()
        return {
            "rows": [[row["_bmq_partition"], row["_bmq_offset"]] for row in rows],
            "ids": sorted(row["id"] for row in rows),
            "dead": [[row["partition"], row["offset"], row["reason"]] for row in dead],
            "bytes": [None if row["value"] is None else bytes(row["value"]).decode() for row in dead],
            "lag": self.progress[-1].lag,
            "by_pyarrow": sum(pq.ParquetFile(path).metadata.num_rows for path in self.data_files()),
            "by_duckdb": self.by_duckdb(),
        }

    def replay(self) -> dict[str, Any]:
        """Spark forgets its last commit, Iceberg all snapshots but one, and the files are other ones."""
        before = self.counts()
        files_before = len(self.data_files())
        for table in ("orders", "orders_dead_letter"):
            self.spark.sql(
                f"CALL bmq.system.rewrite_data_files(table => 'bmq.tables.{table}', options => map('rewrite-all', 'true'))"
            )
            self.spark.sql(
                f"CALL bmq.system.expire_snapshots(table => 'bmq.tables.{table}', older_than => TIMESTAMP '2999-01-01 00:00:00', "
                "retain_last => 1)"
            )
        snapshots = self.spark.table("bmq.tables.orders.snapshots").count()
        files = len(self.data_files())
        commits = self.directory / "checkpoint" / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink()
        self.run(self.definition())
        replays = [progress.is_replay for progress in self.progress]
        return {
            "before": before,
            "after": self.counts(),
            "snapshots": snapshots,
            "files": [files_before, files],
            "replays": replays,
            "by_duckdb": self.by_duckdb(),
        }

    def alter(self) -> dict[str, Any]:
        """A column and a partition more while the job runs, and a type that it would refuse."""
        current = [self.definition()]
        job = self.start(lambda: current[0])
        self.produce_orders(10)
        self.reach(job)
        self.partitions += 1
        self.admin.create_partitions([NewPartitions(self.topic, self.partitions)])[self.topic].result(30)
        fields = [*orders_form(self.topic)["fields"], {"name": "note", "type": "int"}]
        current[0] = self.definition(fields=fields)
        self.produce_orders(10, note=7)
        self.produce_orders(1, note="seven")
        self.reach(job)
        job.stop()
        job.wait()
        rows = self.rows()
        notes = [row["note"] for row in rows]
        return {
            "of the new partition": sum(row["_bmq_partition"] == self.partitions - 1 for row in rows),
            "merged": job.merged_files > 0,
            "notes": notes.count(7),
            "by_duckdb": self.by_duckdb(),
            "reasons": [row["reason"] for row in self.dead_letters() if "note" in row["reason"]],
        }

    def add_columns_beside_commits(self) -> list[str]:
        """Somebody else, as a job's own maintenance, commits to the table between reading it and adding a column."""
        table = IcebergTable(self.spark, Catalog.in_warehouse(str(self.directory / "warehouse")), "beside", "beside")
        columns = {"id": "bigint"}
        table.ensure(columns, self.topic)
        is_over = threading.Event()

        def commit() -> None:
            rival = IcebergTable(
                self.spark, Catalog.in_warehouse(str(self.directory / "warehouse")), "beside", "beside"
            )
            for number in itertools.count():
                rival.claim(Writer("beside", str(number)))
                if is_over.wait(0.05):
                    break

        committing = threading.Thread(target=commit)
        committing.start()
        try:
            for number in range(10):
                columns[f"more_{number}"] = "int"
                table.ensure(columns, self.topic)
        finally:
            is_over.set()
            committing.join()
        return table.column_names()

    def new_checkpoint(self) -> dict[str, Any]:
        self.produce_orders(20)
        other = "checkpoint-2"
        refused = self.refusal(lambda: self.run(self.altered(), other))
        before = self.counts()
        self.run(self.altered(), other, take_over=True)
        after = self.counts()
        first_again = self.refusal(lambda: self.run(self.altered()))
        other_topic = self.refusal(lambda: self.run(self.definition(name="others", topic=f"{self.topic}-other")))
        return {
            "refused": refused,
            "added": after["rows"] - before["rows"],
            "doubled": self.doubled(),
            "first_again": first_again,
            "other_topic": other_topic,
        }

    def rivals(self) -> dict[str, Any]:
        """A second job takes the table over while the first is at work."""
        before = self.counts()["rows"]
        first = self.start(self.altered, "checkpoint-2")
        self.produce_orders(10)
        self.reach(first)
        second = self.start(self.altered, "checkpoint-3", take_over=True)
        self.produce_orders(200)
        lost: list[str] = []
        waiting = threading.Thread(target=lambda: lost.append(self.refusal(first.wait)))
        waiting.start()
        waiting.join(WAIT_S)
        self.reach(second)
        second.stop()
        return {"lost": lost, "added": self.counts()["rows"] - before, "doubled": self.doubled()}

    def rolled_back(self) -> dict[str, Any]:
        """By an operator: undone, and accepted."""
        before, (last, parent) = self.counts()["rows"], self.newest_snapshots()
        self.make_current(parent)
        self.produce_orders(5)
        refused = self.refusal(lambda: self.run(self.altered(), "checkpoint-3"))
        gone = before - self.counts()["rows"]
        self.make_current(last)
        self.run(self.altered(), "checkpoint-3")
        undone = self.counts()["rows"] - before
        _, parent = self.newest_snapshots()
        self.make_current(parent)
        self.produce_orders(7)
        self.run(self.altered(), "checkpoint-3", accept_rollback=True)
        return {
            "refused": refused.replace(str(last), "LAST"),
            "gone": gone > 0,
            "undone": undone,
            "accepted": self.counts()["rows"] - before,
            "doubled": self.doubled(),
        }

    def newest_snapshots(self) -> tuple[int, int]:
        """The snapshot of the job's last commit and its parent; merges may have followed."""
        properties = {
            row["key"]: row["value"] for row in self.spark.sql("SHOW TBLPROPERTIES bmq.tables.orders").collect()
        }
        last: int = json.loads(properties["bmq.offsets.orders"])["snapshot"]
        parent = self.table("orders.snapshots").where(f"snapshot_id = {last}").collect()[0]["parent_id"]
        return last, parent

    def make_current(self, snapshot_id: int) -> None:
        self.spark.sql(
            f"CALL bmq.system.set_current_snapshot(table => 'bmq.tables.orders', snapshot_id => {snapshot_id})"
        )

    def stop_at_misfits(self) -> dict[str, Any]:
        definition = self.definition(name="strict", misfits="stop")
        refused = self.refusal(lambda: self.run(definition, "checkpoint-4"))
        return {"refused": refused, "rows": self.spark.table("bmq.tables.strict").count()}

    def refusals(self) -> dict[str, str]:
        """Of what cannot be begun."""
        file = self.directory / "a-file"
        file.write_text("")
        definition = self.definition(name="nowhere")
        return {
            "another warehouse": self.refusal(
                lambda: run_table(
                    self.spark,
                    definition,
                    bootstrap=self.bootstrap,
                    checkpoint="c",
                    warehouse=str(self.directory / "w"),
                )
            ),
            "warehouse": self.refusal(lambda: self.run(definition, "checkpoint-5", warehouse=str(file / "warehouse"))),
            "file system": self.refusal(lambda: self.run(definition, "checkpoint-6", warehouse="nosuch://host/dir")),
            "source": self.refusal(lambda: self.run(definition, "checkpoint-7", source="no.such.format")),
            "topic": self.refusal(
                lambda: self.run(self.definition(name="absent", topic="no-such-topic"), "checkpoint-8")
            ),
        }

    def examples(self) -> dict[str, int]:
        """What docs/TABLES_JOB.md shows, as it stands there, on a topic of 20 orders."""
        directory = self.directory / "examples"
        directory.mkdir()
        topic = f"{self.topic}-other"
        produce(self.bootstrap, topic, [order(number) for number in range(20)])
        (directory / "orders.json").write_text(json.dumps(orders_form(topic)))
        text = (REPOSITORY / "docs" / "TABLES_JOB.md").read_text()
        # Of its own: this one has a catalog with another warehouse.
        found: dict[str, Any] = {"spark": self.spark.newSession()}
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for block in blocks:
            block = block.replace("HOST:9092", self.bootstrap).replace("orders.json", f"{directory}/orders.json")
            block = block.replace('"/warehouse', f'"{directory}/warehouse').replace(
                '"/checkpoints', f'"{directory}/checkpoints'
            )
            exec(block, found)
        names = ("by_spark", "by_pyiceberg", "by_pyarrow", "by_duckdb")
        return {"blocks": len(blocks), **{name: found[name] for name in names}}

    def topic_made_again(self) -> dict[str, Any]:
        """The topic of the examples; their table stays as it is."""
        topic, where = f"{self.topic}-other", self.directory / "examples" / "warehouse"
        self.admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: topic not in self.admin.list_topics(timeout=30).topics, WAIT_S, "the topic is gone")
        self.admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
        produce(self.bootstrap, topic, [order(number) for number in range(40)])
        definition = self.definition(topic=topic)
        refused = self.refusal(lambda: self.run(definition, "examples/checkpoints/orders", warehouse=str(where)))
        files = (where / "tables" / "orders" / "data").rglob("*.parquet")
        return {"refused": refused, "rows": sum(pq.ParquetFile(path).metadata.num_rows for path in files)}

    def formats(self) -> dict[str, Any]:
        return {
            "json": self.json_values(),
            "framed json": self.framed_json_values(),
            "avro": self.avro_values(),
            "avro_times": self.avro_times(),
            "protobuf": self.protobuf_values(),
            "raw": self.raw(),
            "upserts": self.upserts(),
            "envelopes": self.envelopes(),
        }

    # --- formats

    def json_values(self) -> list[list[Any]]:
        form = orders_form("t")
        form["partitioning"] = []
        form["fields"] = [
            {"name": "id", "type": "long", "required": True},
            {"name": "price", "type": "decimal(6,2)"},
            {"name": "day", "type": "date"},
            {"name": "at", "type": "timestamp"},
            {"name": "ok", "type": "boolean"},
            {"name": "raw", "type": "string", "path": "deep"},
            {"name": "leaf", "type": "int", "path": "deep.leaf"},
            {"name": "trace", "type": "string", "source": "header"},
        ]
        values: list[bytes | None] = [
            b'{"id":1,"price":12.5,"day":"2026-11-24","at":"2026-11-24T01:02:03Z","ok":true,"deep":{"leaf":4}}',
            b'{"id":2}',
            b'{"id":3} {"id":4}',
            b"[]",
            b"null",
            b"",
            None,
            b'{"id":"5"}',
            b'{"id":6,"day":"tomorrow"}',
            b'{"id":7,"ok":"\xff"}',
            b'{"price":1}',
            b'{"id":9223372036854775808}',
            b'{"id":8,"at":1700000000}',
            b'{"id":9}}',
            b'{"id":10,"at":"12:30"}',
            b'{"id":11,"day":"+12345-01-01"}',
        ]
        return self.decode(TableDefinition.model_validate(form), values)

    def framed_json_values(self) -> list[list[Any]]:
        form = orders_form("t", json_framing="registry", partitioning=[])
        form["fields"] = [{"name": "id", "type": "long", "required": True}, {"name": "note", "type": "string"}]
        values: list[bytes | None] = [
            b'\x00\x00\x00\x00\x07{"id":1,"note":"hi"}',
            b'\x00\xff\xff\xff\xff{"id":2}',
            b'{"id":3}',
            b"\x00\x00",
            b"\x00\x00\x00\x00\x07",
            b"\x00\x00\x00\x00\x07[]",
            b'\x00\x00\x00\x00\x07{"note":"\xff"}',
            b'\x00\x00\x00\x00\x07{"id":"x"}',
            None,
        ]
        return self.decode(TableDefinition.model_validate(form), values)

    def avro_values(self) -> list[list[Any]]:
        schema = {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "id", "type": ["null", "long"]},
                {"name": "note", "type": ["null", "string"]},
            ],
        }
        wider = {**schema, "fields": [*schema["fields"], {"name": "more", "type": "int"}]}
        fields = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
        bare = TableDefinition.model_validate(
            {"name": "t", "topic": "t", "format": "avro", "fields": fields, "avro": {"writer_schema": schema}}
        )
        framed = TableDefinition.model_validate(
            {
                "name": "t",
                "topic": "t",
                "format": "avro",
                "fields": [*fields, {"name": "more", "type": "int"}],
                "avro": {"writer_schemas": {"1": schema, "256": wider}},
            }
        )
        of_bare = self.decode(bare, [b"\x02\x0e\x02\x04hi", b"\x00\x00", b"\x02", b"\xff\xff", None])
        old, new = b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x01\x00"
        of_framed = self.decode(
            framed, [old + b"\x02\x0e\x00", new + b"\x02\x0e\x02\x04hi\x06", old[:3], b"\x00\x00\x00\x00\x09\x00", new]
        )
        return [*of_bare, *of_framed]

    def avro_times(self) -> list[list[Any]]:
        """A time as the number that was written, and as a time; bare, and by a schema's id."""
        millis, micros = (
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "at", "type": {"type": "long", "logicalType": logical}}],
            }
            for logical in ("timestamp-millis", "timestamp-micros")
        )
        form = {
            "name": "t",
            "topic": "t",
            "format": "avro",
            "fields": [
                {"name": "number", "type": "long", "path": "at"},
                {"name": "counted", "type": "timestamp", "path": "at", "unit": "ms"},
                {"name": "time", "type": "timestamp", "path": "at"},
            ],
        }
        bare = TableDefinition.model_validate({**form, "avro": {"writer_schema": millis}})
        framed = TableDefinition.model_validate({**form, "avro": {"writer_schemas": {"1": millis, "2": micros}}})
        value = avro_long(MOMENT_MS)
        return [
            *self.decode(bare, [value]),
            *self.decode(framed, [b"\x00\x00\x00\x00\x01" + value, b"\x00\x00\x00\x00\x02" + value]),
        ]

    def protobuf_values(self) -> list[list[Any]]:
        encoded = descriptor_set()
        pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(base64.b64decode(encoded)).file:
            pool.Add(file)
        message = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
        full = message(id=7, count=-3)
        full.customer.name = "Ada"  # type: ignore[attr-defined]
        full.at.FromJsonString("2026-11-24T01:02:03Z")  # type: ignore[attr-defined]
        form = {
            "name": "t",
            "topic": "t",
            "format": "protobuf",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "count", "type": "int"},
                {"name": "at", "type": "timestamp"},
                {"name": "customer", "type": "string", "path": "customer.name"},
            ],
        }
        schema = {"message": "shop.Order", "descriptor_set": encoded}
        bare = TableDefinition.model_validate({**form, "protobuf": schema})
        framed = TableDefinition.model_validate(
            {**form, "protobuf": {**schema, "message_indexes": {"7": [0], "9": [1]}}}
        )
        value = full.SerializeToString()
        heads = (b"\0\0\0\0\7\0", b"\0\0\0\0\x09\2\2", b"\0\0\0\0\x09\0", b"\0\0\0\0\x08\0", b"")
        return [
            *self.decode(bare, [value, b"", b"\xff\xff\xff", None]),
            *self.decode(framed, [head + value for head in heads]),
        ]

    def raw(self) -> list[list[Any]]:
        definition = TableDefinition.model_validate(
            {
                "name": "t",
                "topic": "t",
                "format": "raw",
                "fields": [
                    {"name": "value", "type": "string"},
                    {"name": "partition", "type": "long", "source": "partition"},
                    {"name": "trace", "type": "string", "source": "header"},
                ],
            }
        )
        return self.decode(definition, [b"x", None, b"\xff"])

    def upserts(self) -> list[list[Any]]:
        """By the record's key, which a record without a value has too; and by a field of the value."""
        fields = [{"name": "key", "type": "string", "source": "key"}, {"name": "id", "type": "long", "required": True}]
        form = {"name": "t", "topic": "t", "format": "json", "fields": fields}
        by_key = TableDefinition.model_validate({**form, "changes": {"key": ["key"]}})
        by_value = TableDefinition.model_validate({**form, "changes": {"key": ["id"]}})
        values: list[bytes | None] = [b'{"id":1}', None, b"no", b'{"id":"x"}', b"{}", b"null"]
        return [*self.decode(by_key, values), *self.decode(by_value, values[:2])]

    def envelopes(self) -> list[list[Any]]:
        fields = [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}]
        changes = {"key": ["id"], "mode": "debezium"}
        form = {"name": "t", "topic": "t", "fields": fields, "changes": changes}
        values: list[bytes | None] = [
            b'{"op":"c","before":null,"after":{"id":1,"city":"Bern"},"source":{"db":"shop"},"ts_ms":1}',
            b'{"op":"u","before":{"id":1,"city":"Bern"},"after":{"id":1}}',
            b'{"op":"r","after":{"id":2,"city":"Ulm"}}',
            b'{"op":"d","before":{"id":1,"city":"Bern"},"after":null}',
            None,
            b'{"op":"t"}',
            b'{"after":{"id":1}}',
            b'{"op":"d","before":null}',
            b'{"op":"c","after":null}',
            b'{"op":"c","after":{"id":"x"}}',
            b'{"op":"d","before":{"id":"x"}}',
            b"no",
        ]
        row = {
            "type": "record",
            "name": "Row",
            "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}],
        }
        envelope = {
            "type": "record",
            "name": "Envelope",
            "fields": [
                {"name": "before", "type": ["null", row]},
                {"name": "after", "type": ["null", "Row"]},
                {"name": "op", "type": "string"},
            ],
        }
        by_avro = {**form, "format": "avro", "avro": {"writer_schema": envelope}}
        return [
            *self.decode(TableDefinition.model_validate({**form, "format": "json"}), values),
            *self.decode(
                TableDefinition.model_validate(by_avro),
                [b"\x00\x02\x0e\x02\x04hi\x02c", b"\x02\x0e\x00\x00\x02d", b"\x00\x00\x02c", None],
            ),
        ]

    def decode(self, definition: TableDefinition, values: list[bytes | None]) -> list[list[Any]]:
        """Of each value its row, or the reason why it has none."""
        headers = [{"key": "trace", "value": b"a"}, {"key": "trace", "value": b"b"}]
        rows = [
            {"topic": "t", "partition": 0, "offset": offset, "key": b"k", "value": value, "headers": headers}
            for offset, value in enumerate(values)
        ]
        # Out of Arrow, so that no Python process is started for it.
        records = self.spark.createDataFrame(pa.Table.from_pylist(rows, RECORDS), RECORDS_COLUMNS)
        found = decoded(records, definition)
        names = [name for name in table_columns(definition) if not name.startswith("_bmq")]
        by_offset: dict[int, list[Any]] = {}
        for row in fitting_rows(found, [*names, "_bmq_offset"]).collect():
            change = [] if definition.changes is None else [row["_bmq_change"]]
            by_offset[row["_bmq_offset"]] = [*change, *(_plain(row[name]) for name in names)]
        for row in misfit_rows(found).collect():
            assert row["offset"] not in by_offset
            by_offset[row["offset"]] = [row["reason"]]
        return [by_offset[offset] for offset in range(len(values))]

    def parses(self) -> int:
        """How many times the plan of a batch's rows reads a value as JSON."""
        fields = [{"name": "id", "type": "string"}, {"name": "qty", "type": "long"}]
        # Rows that Spark does not know before it runs: it computes those of a local table while it plans.
        records = self.spark.range(9).selectExpr(
            "'t' AS topic",
            "0 AS partition",
            "id AS offset",
            "current_timestamp() AS timestamp",
            "CAST(NULL AS BINARY) AS key",
            "CAST(CAST(id AS STRING) AS BINARY) AS value",
            "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        )
        rows = fitting_rows(
            decoded(records, self.definition(fields=fields, partitioning=[])), ["id", "qty", "_bmq_offset"]
        )
        return len(re.findall(r"from_json\(", rows._jdf.queryExecution().optimizedPlan().toString()))

    # --- what the steps share

    def definition(self, **changes: Any) -> TableDefinition:
        return TableDefinition.model_validate(orders_form(self.topic, **changes))

    def altered(self) -> TableDefinition:
        return self.definition(fields=[*orders_form(self.topic)["fields"], {"name": "note", "type": "int"}])

    def run(
        self,
        definition: TableDefinition,
        checkpoint: str = "checkpoint",
        *,
        take_over: bool = False,
        accept_rollback: bool = False,
        warehouse: str = "",
        source: str = "kafka",
    ) -> None:
        """`warehouse`: another one than the session's."""
        self.progress = []
        run_table(
            self.spark.newSession() if warehouse else self.spark,
            definition,
            bootstrap=self.bootstrap,
            checkpoint=str(self.directory / checkpoint),
            warehouse=warehouse or str(self.directory / "warehouse"),
            source=source,
            trigger_s=None,
            take_over=take_over,
            accept_rollback=accept_rollback,
            on_progress=self.progress.append,
        )

    def start(
        self, definition: Callable[[], TableDefinition], checkpoint: str = "checkpoint", *, take_over: bool = False
    ) -> TableJob:
        self.progress = []
        return start_table(
            self.spark,
            definition,
            bootstrap=self.bootstrap,
            checkpoint=str(self.directory / checkpoint),
            warehouse=str(self.directory / "warehouse"),
            trigger_s=0.1,
            maintenance=MaintenancePolicy(every_commits=1, files_min=2),
            take_over=take_over,
            on_progress=self.progress.append,
        )

    def reach(self, job: TableJob) -> None:
        """Wait until the table has all that was produced."""
        ends = job.topic_ends()
        eventually(
            lambda: self.progress and all(self.progress[-1].next_offsets.get(p, 0) >= end for p, end in ends.items()),
            WAIT_S,
            f"the table is at {ends}",
        )

    def produce_orders(self, count: int, **more: Any) -> None:
        values: list[bytes | None] = [order(next(self.numbers), **more) for _ in range(count)]
        produce(self.bootstrap, self.topic, values, self.partitions)

    def refusal(self, action: Callable[[], object]) -> str:
        try:
            action()
        except TableJobError as error:
            return str(error)
        return ""

    def rows(self) -> list[Row]:
        return self.table("orders").orderBy("_bmq_partition", "_bmq_offset").collect()

    def dead_letters(self) -> list[Row]:
        return self.table("orders_dead_letter").orderBy("partition", "offset").collect()

    def counts(self) -> dict[str, int]:
        return {"rows": self.table("orders").count(), "dead": self.table("orders_dead_letter").count()}

    def doubled(self) -> int:
        places = self.table("orders").select("_bmq_partition", "_bmq_offset")
        return places.count() - places.distinct().count()

    def table(self, name: str) -> DataFrame:
        return self.spark.table(f"bmq.tables.{name}")

    def by_duckdb(self) -> list[int]:
        """Rows, different ids, and their sum, of the files that pyiceberg finds in the table's directory; neither knows bmq."""
        scan = StaticTable.from_metadata(str(self.directory / "warehouse" / "tables" / "orders")).scan()
        files = [task.file.file_path.removeprefix("file:") for task in scan.plan_files()]
        found = duckdb.sql(  # type: ignore[union-attr]
            f"SELECT count(*), count(DISTINCT id), sum(id) FROM read_parquet({files}, union_by_name = true)"
        ).fetchall()
        return [int(each) for each in found[0]]

    def data_files(self) -> list[str]:
        return [row["file_path"].removeprefix("file:") for row in self.spark.table("bmq.tables.orders.files").collect()]


def avro_long(number: int) -> bytes:
    """Not negative. Source: Apache Avro 1.12 specification, "Binary Encoding"."""
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*encoded, rest))


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    return value


def main() -> None:
    directory, bootstrap, topic = sys.argv[1:]
    os.environ["PYSPARK_SUBMIT_ARGS"] = SUBMIT_ARGUMENTS
    spark = SparkSession.builder.appName("bmq-e2e-tables").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    result = Steps(spark, Path(directory), bootstrap, topic).all()
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
