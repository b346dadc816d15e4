"""The contract of commits on Iceberg itself, in one Spark session; prints one JSON line: check -> how it failed, or "".

python -m tests.e2e.spark_iceberg_contract DIRECTORY
"""

from __future__ import annotations

import itertools
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bmq.spark.tables.iceberg import Catalog
from tests.support.iceberg_contract import CONTRACT, DisturbedTable

COLUMNS = {"id": "bigint"}


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

    def __init__(self, spark: SparkSession, catalog: Catalog, name: str) -> None:
        self._spark, self._catalog, self._name = spark, catalog, name
        self._numbers = itertools.count()
        self._identifier = self.table().identifier
        self.table().ensure(COLUMNS, "orders")

    def table(self) -> DisturbedTable:
        return DisturbedTable(self._spark, self._catalog, self._name, "orders")

    def _frame(self, rows: int) -> DataFrame:
        return self._spark.createDataFrame([(next(self._numbers),) for _ in range(rows)], "id bigint").coalesce(1)

    def data(self, rows: int, before_append: Callable[[], object] = lambda: None) -> Any:
        return Data(self._frame(rows), before_append)

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
    catalog = Catalog.in_warehouse(f"{sys.argv[1]}/warehouse")
    catalog.configure(spark)
    found = {
        check.__name__: failure(check, IcebergWorld(spark, catalog, f"t{number}"))
        for number, check in enumerate(CONTRACT)
    }
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
