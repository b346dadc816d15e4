"""A Spark job through the stock Kafka connector, run by test_spark.py in a process of its own; prints one JSON line.

python -m tests.e2e.spark_job write WAREHOUSE BOOTSTRAP TOPIC FROM TO          a batch write of the numbers FROM … TO-1
python -m tests.e2e.spark_job read WAREHOUSE BOOTSTRAP TOPIC                   a batch read of everything
python -m tests.e2e.spark_job stream WAREHOUSE BOOTSTRAP TOPIC SINK CHECKPOINT   what is new since the checkpoint
python -m tests.e2e.spark_job copy WAREHOUSE BOOTSTRAP TOPIC SINK CHECKPOINT TO  all of these, one after the other
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tests.support.processes import JARS

JARS_OF_CONNECTOR = ",".join(str(jar) for jar in sorted((JARS / "spark").glob("*.jar")))


def session(warehouse: Path) -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .appName("bmq-e2e")
        .config("spark.jars", JARS_OF_CONNECTOR)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .getOrCreate()
    )


def write(spark: SparkSession, bootstrap: str, topic: str, first: str, end: str) -> dict[str, object]:
    rows = spark.range(int(first), int(end)).select(
        col("id").cast("string").alias("key"), (col("id") * 2).cast("string").alias("value")
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
    return {"written": rows.count()}


def read(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, object]:
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("includeHeaders", "true")
        .load()
        .selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "partition", "offset")
        .collect()
    )
    return {"rows": sorted([row.key, row.value, row.partition, row.offset] for row in rows)}


def stream(
    spark: SparkSession, bootstrap: str, topic: str, sink: str, checkpoint: str, offsets_per_trigger: str = "400"
) -> dict[str, object]:
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", offsets_per_trigger)
        .load()
        .selectExpr("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return {"processed": sum(progress["numInputRows"] for progress in query.recentProgress)}


def copy(spark: SparkSession, bootstrap: str, topic: str, sink: str, checkpoint: str, end: str) -> dict[str, object]:
    """A batch write to `topic`, a stream from there to `sink`, a batch read of both: keys and values that were seen."""
    written = write(spark, bootstrap, topic, "0", end)
    processed = stream(spark, bootstrap, topic, sink, checkpoint, "10000")
    found = {name: read(spark, bootstrap, name)["rows"] for name in (topic, sink)}
    return {**written, **processed, "rows": found}


def main() -> None:
    job, warehouse, *arguments = sys.argv[1:]
    spark = session(Path(warehouse))
    spark.sparkContext.setLogLevel("ERROR")
    result = {"write": write, "read": read, "stream": stream, "copy": copy}[job](spark, *arguments)
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
