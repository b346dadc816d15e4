"""What test_spark_yarn.py submits: a batch scan by format("bmq") and a table, on executors that are processes of their own.

spark-submit … tests/e2e/spark_executors_job.py BOOTSTRAP TOPIC DIRECTORY

DIRECTORY: a URL for the table that driver and executors can write. Prints one JSON line. The executors have `bmq` as
spark-submit shipped it and nothing of `tests`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from bmq.spark.source import register
from bmq.spark.tables.job import run_table
from bmq.spark.tables.progress import TableProgress
from bmq.table_definitions.definition import TableDefinition

FIELDS = [{"name": "id", "type": "long", "required": True}]
OFFSETS_PER_TRIGGER = 1_500


def scan(spark: SparkSession, bootstrap: str, topic: str) -> list[list[int]]:
    """Of each partition: its number, how many records, the sums of their offsets and of the bytes of their values."""
    frame = (
        spark.read.format("bmq")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("maxBytesPerPartition", "300k")
        .load()
    )
    sums = frame.groupBy("partition").agg(sql.count("*"), sql.sum("offset"), sql.sum(sql.octet_length("value")))
    return sorted(list(row) for row in sums.collect())


def table(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> dict[str, Any]:
    """A few batches into Iceberg, and what is in the table then."""
    form = {"name": "orders", "topic": topic, "format": "json", "fields": FIELDS}
    batches: list[TableProgress] = []
    run_table(
        spark,
        TableDefinition.from_json(json.dumps(form)),
        bootstrap=bootstrap,
        checkpoint=f"{directory}/checkpoint",
        warehouse=f"{directory}/warehouse",
        max_offsets_per_trigger=OFFSETS_PER_TRIGGER,
        trigger_s=None,
        on_progress=batches.append,
    )
    found = spark.table("bmq.tables.orders").agg(sql.count("*"), sql.sum("id"), sql.sum("_bmq_offset")).collect()
    return {"batches": len(batches), "sums": list(found[0])}


def origins(spark: SparkSession) -> list[str]:
    """Which files `bmq` is imported from on the executors."""

    def look(_: Iterator[Any]) -> Iterator[str]:
        from pathlib import Path

        import bmq

        yield str(Path(str(bmq.__file__)).absolute())  # it is found in the executor's own directory

    return sorted(set(spark.range(8).repartition(8).rdd.mapPartitions(look).collect()))


def tasks(spark: SparkSession) -> dict[str, int]:
    """How many tasks each executor has done; of the driver none."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    each = [executors.apply(place) for place in range(executors.size())]
    return {executor.id(): executor.completedTasks() for executor in each}


def main() -> None:
    bootstrap, topic, directory = sys.argv[1:]
    spark = SparkSession.builder.appName("bmq-executors").getOrCreate()
    register(spark)
    results = {
        "scan": scan(spark, bootstrap, topic),
        "tasks": tasks(spark),
        "table": table(spark, bootstrap, topic, directory),
        "origins": origins(spark),
    }
    spark.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
