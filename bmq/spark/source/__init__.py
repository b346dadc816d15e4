"""`format("bmq")`: a source of Spark that reads a cluster's closed segments where they lie.

    from bmq.spark.source import register

    register(spark)
    spark.read.format("bmq").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "events").load()

Options and columns are those of Spark's Kafka connector; docs/SPARK.md has them.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

SPARK_MIN: Final = (4, 0)


class SparkTooOld(RuntimeError):
    """Without Python's data source API."""


def register(spark: Any) -> None:
    """Make the format known to a session (a pyspark.sql.SparkSession). Raises SparkTooOld."""
    found = version("pyspark")
    if tuple(int(part) for part in found.split(".")[:2]) < SPARK_MIN:
        raise SparkTooOld(f"format('bmq') needs Spark 4.0 or later, this is Spark {found}")
    from bmq.spark.source.data_source import BmqDataSource

    spark.dataSource.register(BmqDataSource)
