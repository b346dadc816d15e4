"""The contract of commits on Iceberg itself, in one Spark session; prints one JSON line: check -> how it failed, or "".

python -m tests.e2e.spark_iceberg_contract DIRECTORY [KEY=VALUE …]     # options of a catalog; without them one in DIRECTORY
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as all of Spark's documentation calls it

from bmq.spark.tables.columns import changes_properties
from bmq.spark.tables.iceberg import Catalog
from bmq.table_definitions.definition import TableDefinition
from tests.support.iceberg_contract import CHANGES_CONTRACT, CONTRACT, PARTS_CONTRACT, TIME, DisturbedTable

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

    def __init__(self, spark: SparkSession, catalog: Catalog, name: str, *, is_changing: bool = False) -> None:
        self._spark, self._catalog, self._name = spark, catalog, name
        self._next = 0
        self._identifier = self.table().identifier
        self.table().ensure(COLUMNS, "orders", properties=changes_properties(CHANGING) if is_changing else {})

    def table(self) -> DisturbedTable:
        return DisturbedTable(self._spark, self._catalog, self._name, "orders")

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


def main() -> None:
    spark = SparkSession.builder.appName("iceberg contract").getOrCreate()
    options = dict(pair.split("=", 1) for pair in sys.argv[2:])
    catalog = Catalog("bmq", "tables", options) if options else Catalog.in_warehouse(f"{sys.argv[1]}/warehouse")
    catalog.configure(spark)
    found = {
        check.__name__: failure(check, IcebergWorld(spark, catalog, f"t{number}"))
        for number, check in enumerate((*CONTRACT, *PARTS_CONTRACT))
    } | {
        check.__name__: failure(check, IcebergWorld(spark, catalog, f"c{number}", is_changing=True))
        for number, check in enumerate(CHANGES_CONTRACT)
    }
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
