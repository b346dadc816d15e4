"""The contract of commits on Iceberg itself, in one Spark session; prints one JSON line: check -> how it failed, or "".

python -m tests.e2e.spark_iceberg_contract DIRECTORY [KEY=VALUE …]     # options of a catalog; without them one in DIRECTORY

Towards a catalog that is a service others come between a commit and the catalog, after the client's last look at it.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as all of Spark's documentation calls it

from bmq.spark.tables.columns import changes_properties
from bmq.spark.tables.errors import CommitConflict
from bmq.spark.tables.iceberg import Catalog
from bmq.table_definitions.definition import TableDefinition
from tests.support.commit_gate import CommitGate, commit_gate
from tests.support.iceberg_contract import (
    CHANGES_CONTRACT,
    CONTRACT,
    NONE,
    OURS,
    PARTS_CONTRACT,
    TIME,
    DisturbedTable,
    state,
    write,
    written,
)
from tests.support.metastore_gate import MetastoreGate, metastore_gate

COLUMNS = {"id": "bigint", TIME: "timestamp"}
CHANGING = TableDefinition.model_validate(
    {
        "name": "t",
        "topic": "orders",
        "format": "json",
        "fields": [{"name": "id", "type": "long"}],
        "changes": {"key": ["id"]},
    }
)


MOMENT = datetime(2026, 11, 29, 12, tzinfo=UTC)


Gate = CommitGate | MetastoreGate


class Data:
    """A DataFrame; `before_append` happens after the table was checked."""

    def __init__(self, frame: DataFrame, before_append: Callable[[], object]) -> None:
        self._frame, self._before_append = frame, before_append
        self.sparkSession = frame.sparkSession

    def writeTo(self, identifier: str) -> Any:  # noqa: N802
        self._before_append()
        return self._frame.writeTo(identifier)


class IcebergWorld:
    """A new table, and Iceberg's procedures for what other engines do."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        name: str,
        *,
        is_changing: bool = False,
        gate: Gate | None = None,
    ) -> None:
        self._spark, self._catalog, self._name, self._gate = spark, catalog, name, gate
        self._next = 0
        self._identifier = self.table().identifier
        self.table().ensure(COLUMNS, "orders", properties=changes_properties(CHANGING) if is_changing else {})

    def table(self) -> DisturbedTable:
        table = DisturbedTable(self._spark, self._catalog, self._name, "orders")
        if self._gate is not None:
            table.between = self._at_the_gate
        return table

    def _at_the_gate(self, happen: Callable[[], object]) -> None:
        assert self._gate is not None
        self._gate.between(happen)

    def _frame(self, rows: int) -> DataFrame:
        """Made by the JVM alone: no Python process is started for it."""
        first, self._next = self._next, self._next + rows
        at = F.lit(MOMENT).alias(TIME)
        return self._spark.range(first, first + rows, numPartitions=1).select("id", at)

    def data(self, rows: int, before_append: Callable[[], object] = lambda: None) -> Any:
        return Data(self._frame(rows), before_append)

    def changes(self, rows: int) -> tuple[Any, str]:
        """All present rows are written anew beside the new ones."""
        self._spark.table(self._identifier).unionByName(self._frame(rows)).createOrReplaceTempView("changes")
        return self._spark, (
            f"MERGE INTO {self._identifier} AS t USING changes AS s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET {TIME} = s.{TIME} "
            f"WHEN NOT MATCHED THEN INSERT (id, {TIME}) VALUES (s.id, s.{TIME})"
        )

    def append(self, rows: int) -> None:
        self._frame(rows).writeTo(self._identifier).append()

    def _call(self, procedure: str, arguments: str) -> None:
        self._spark.sql(f"CALL bmq.system.{procedure}(table => 'bmq.tables.{self._name}', {arguments})").collect()

    def merge(self) -> None:
        self._call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def make_current(self, snapshot_id: int) -> None:
        self._call("set_current_snapshot", f"snapshot_id => {snapshot_id}")

    def expire(self, snapshot_id: int) -> None:
        self._call("expire_snapshots", f"snapshot_ids => ARRAY({snapshot_id})")

    def expire_all_but_current(self) -> None:
        self._call("expire_snapshots", "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1")

    def set_property(self, key: str, value: str) -> None:
        self._spark.sql(f"ALTER TABLE {self._identifier} SET TBLPROPERTIES ('{key}' = '{value}')")

    def rows(self) -> int:
        # Not `count`, which Iceberg answers from its metadata.
        return len(self._spark.table(self._identifier).collect())


def failure(check: Callable[[Any], None], world: IcebergWorld) -> str:
    try:
        check(world)
    except Exception:
        return traceback.format_exc()
    return ""


def gate_before(options: Mapping[str, str]) -> AbstractContextManager[Gate | None]:
    match options.get("type"):
        case "rest":
            return commit_gate(options["uri"])
        case "hive":
            return metastore_gate(options["uri"])
        case _:
            return nullcontext()


def main() -> None:
    spark = SparkSession.builder.appName("iceberg contract").getOrCreate()
    options = dict(pair.split("=", 1) for pair in sys.argv[2:])
    with gate_before(options) as gate:
        if gate is not None:
            options["uri"] = gate.uri
        catalog = Catalog.of_options(options) if options else Catalog.in_warehouse(f"{sys.argv[1]}/warehouse")
        catalog.configure(spark)
        found = {
            check.__name__: failure(check, IcebergWorld(spark, catalog, f"t{number}", gate=gate))
            for number, check in enumerate((*CONTRACT, *PARTS_CONTRACT))
        } | {
            check.__name__: failure(check, IcebergWorld(spark, catalog, f"c{number}", is_changing=True, gate=gate))
            for number, check in enumerate(CHANGES_CONTRACT)
        }
        if gate is not None:
            found[lost_answer.__name__] = failure(
                lambda world: lost_answer(world, gate), IcebergWorld(spark, catalog, "lost", gate=gate)
            )
    sys.stdout.write(f"{json.dumps(found)}\n")


def lost_answer(world: IcebergWorld, gate: Gate) -> None:
    """The catalog has the commit, and the job does not know it: no row is lost or written again."""
    table, _ = written(world)
    before = table.offsets()
    gate.after = lambda: True
    with suppress(Py4JJavaError):
        write(world, table, 5)
    assert gate.after is None, "a commit came to the gate"
    assert state(world, world.table()) == (25, 25)
    staged = table.stage(world.data(5))
    with pytest.raises(CommitConflict, match="have moved"):
        table.publish(staged, before, (before or NONE).moved_to({0: 25}), OURS)
    write(world, table, 5)
    assert state(world, table) == (30, 30)


if __name__ == "__main__":
    main()
