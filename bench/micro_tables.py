"""Seconds for a batch of rows into a table, and to read it again: Iceberg beside plain Parquet with a manifest of our own.

    PYSPARK_SUBMIT_ARGS="--master local[2] --jars $(ls .cache/jars/spark/*.jar | paste -sd,) pyspark-shell" \\
        python -m bench.micro_tables [--batches 20] [--rows 100000]

`published`: rows staged, then published with the offsets in one commit, as the table job does. `appended`: Iceberg's append
alone, which is not exactly once. `plain`: Parquet by Spark's own committer, then a manifest of all files and the offsets, written
anew and renamed: what a format of our own would do at least. The median of all batches but the first; the batches of the three
alternate. Reading: a sum over all rows, and over the last hundredth by id, each the best of three.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bmq.spark.tables.iceberg import Catalog, IcebergTable
from bmq.spark.tables.table_offsets import TableOffsets

COLUMNS = {"id": "bigint", "at": "timestamp", "customer": "string", "note": "string"}


def rows_of(spark: SparkSession, batch: int, rows: int) -> DataFrame:
    """Ids of a batch follow those of the one before it, as offsets do."""
    return spark.range(batch * rows, (batch + 1) * rows, 1, 2).selectExpr(
        "id",
        "timestamp_seconds(1700000000 + id) AS at",
        "concat('customer-', id % 997) AS customer",
        "sha2(cast(id AS string), 256) AS note",
    )


class Published:
    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self.table = IcebergTable(spark, catalog, "published", "published")
        self.table.ensure(COLUMNS, "topic")

    def write(self, rows: DataFrame, batch: int) -> None:
        expected = self.table.offsets()
        before = expected or TableOffsets("topic", "id", {})
        self.table.publish(self.table.stage(rows), expected, before.moved_to({0: batch + 1}), None)

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.table(self.table.identifier)


class Appended(Published):
    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self.table = IcebergTable(spark, catalog, "appended", "appended")
        self.table.ensure(COLUMNS, "topic")

    def write(self, rows: DataFrame, batch: int) -> None:
        rows.writeTo(self.table.identifier).append()


class Plain:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.files: list[str] = []

    def write(self, rows: DataFrame, batch: int) -> None:
        part = self.directory / f"{batch:08d}"
        rows.write.option("compression", "zstd").parquet(str(part))
        self.files += [str(file) for file in sorted(part.glob("*.parquet"))]
        fresh = self.directory / "manifest.tmp"
        fresh.write_text(json.dumps({"files": self.files, "next": {"0": batch + 1}}))
        fresh.rename(self.directory / "manifest.json")

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.read.parquet(*json.loads((self.directory / "manifest.json").read_text())["files"])


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args(arguments)
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory:
        catalog = Catalog.in_warehouse(f"{directory}/warehouse")
        catalog.configure(spark)
        tables = {
            "published": Published(spark, catalog),
            "appended": Appended(spark, catalog),
            "plain": Plain(Path(directory, "plain")),
        }
        took: dict[str, list[float]] = {name: [] for name in tables}
        for batch in range(options.batches):
            for name, table in tables.items():
                rows = rows_of(spark, batch, options.rows)
                took[name].append(seconds(partial(table.write, rows, batch)))  # type: ignore[attr-defined]
        last = options.batches * options.rows * 99 // 100
        for name, table in tables.items():
            whole = min(
                seconds(lambda t=table: t.read(spark).selectExpr("sum(id + length(note))").collect())  # type: ignore[misc]
                for _ in range(3)
            )
            tail = min(
                seconds(lambda t=table: t.read(spark).where(f"id >= {last}").selectExpr("sum(length(note))").collect())  # type: ignore[misc]
                for _ in range(3)
            )
            median = statistics.median(took[name][1:])
            print(f"{name:10s} batch {median:.3f} s  all rows {whole:.3f} s  last hundredth {tail:.3f} s", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
