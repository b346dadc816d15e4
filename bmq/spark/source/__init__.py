"""`format("bmq")`: a Spark source that reads a cluster's closed segments directly from the store.

    from bmq.spark.source import register

    register(spark)
    spark.read.format("bmq").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "events").load()

Options and columns are those of Spark's Kafka connector; docs/SPARK.md lists them.
"""

from __future__ import annotations

from typing import Any

from bmq.spark.release import require_spark


def register(spark: Any) -> None:
    """Register the format with a session (a pyspark.sql.SparkSession). Raises SparkTooOld."""
    require_spark("format('bmq')")
    from bmq.spark.source.data_source import BmqDataSource
    from bmq.spark.source.driver_login import share_login

    share_login(spark)
    spark.dataSource.register(BmqDataSource)
