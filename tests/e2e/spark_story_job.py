"""One short story of each use of Spark in one session; run by test_spark_story.py, prints one JSON line.

python -m tests.e2e.spark_story_job DIRECTORY BOOTSTRAP ORDERS COPIED
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bmq.spark.jobs.cluster import Cluster
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.stats import stats
from bmq.spark.source import register
from bmq.spark.tables.job import run_table
from bmq.table_definitions.definition import TableDefinition
from testing.table_topics import SUBMIT_ARGUMENTS, orders_form


def read(spark: SparkSession, form: str, bootstrap: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return spark.read.format(form).options(**options).load()


def values(frame: DataFrame) -> list[list[Any]]:
    rows = frame.selectExpr("partition", "offset", "CAST(value AS STRING) AS value").collect()
    return sorted([row["partition"], row["offset"], row["value"]] for row in rows)


def copied(spark: SparkSession, bootstrap: str, source: str, target: str) -> list[list[Any]]:
    """By the stock connector: one topic read and written into another, which is read."""
    frame = read(spark, "kafka", bootstrap, source).select("key", "value", "partition")
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", target).save()
    return values(read(spark, "kafka", bootstrap, target))


def table(spark: SparkSession, directory: Path, bootstrap: str, topic: str) -> dict[str, int]:
    run_table(
        spark,
        TableDefinition.model_validate(orders_form(topic)),
        bootstrap=bootstrap,
        checkpoint=str(directory / "checkpoint"),
        warehouse=str(directory / "warehouse"),
        source="kafka",
        trigger_s=None,
        take_over=False,
        on_progress=lambda progress: None,
    )
    return {name: spark.table(f"bmq.tables.{name}").count() for name in ("orders", "orders_dead_letter")}


def counted(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, Any]:
    cluster = Cluster({"bootstrap.servers": bootstrap})
    report = stats(spark, Source(bootstrap), cluster.ranges([topic]))
    return {"records": sum(each["records"] for each in report.to_json()["topics"][0]["partitions"])}


def main() -> None:
    directory, bootstrap, orders, target = sys.argv[1:]
    os.environ["PYSPARK_SUBMIT_ARGS"] = SUBMIT_ARGUMENTS
    spark = SparkSession.builder.appName("bmq-e2e-story").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    result = {
        "copied": copied(spark, bootstrap, orders, target),
        "source": values(read(spark, "bmq", bootstrap, orders)),
        "table": table(spark, Path(directory), bootstrap, orders),
        "stats": counted(spark, bootstrap, orders),
    }
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
