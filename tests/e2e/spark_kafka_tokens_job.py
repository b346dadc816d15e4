"""What test_spark_yarn_secure.py submits: Spark's own connector with no word about logins in its options.

spark-submit … tests/e2e/spark_kafka_tokens_job.py BOOTSTRAP TOPIC DIRECTORY

The last line of output is JSON: how many values were written, what a batch and a stream read of them, and on how many
executors. DIRECTORY: for the stream's checkpoint.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

COUNT = 40


def main() -> None:
    bootstrap, topic, directory = sys.argv[1:]
    spark = SparkSession.builder.appName("bmq-kafka-tokens").getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap}
    written = spark.range(0, COUNT, 1, 2).selectExpr("concat('value ', id) as value")
    written.write.format("kafka").options(**options, topic=topic).save()
    reading = {**options, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("kafka").options(**reading).load().selectExpr("cast(value as string) as value")
    stream = spark.readStream.format("kafka").options(**reading).load().selectExpr("cast(value as string) as value")
    query = (
        stream.writeStream.format("memory")
        .queryName("streamed")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    def in_order(values: list[str]) -> list[str]:
        return sorted(values, key=lambda value: int(value.split()[1]))

    # Where a container is started is where its tasks' Python is: each executor has a directory of its own.
    places = spark.sparkContext.range(0, 8, 1, 8).map(lambda _: os.getcwd()).collect()  # noqa: PTH109
    print(
        json.dumps(
            {
                "written": COUNT,
                "read": in_order([row.value for row in batch.collect()]),
                "streamed": in_order([row.value for row in spark.sql("select value from streamed").collect()]),
                "executors": len(set(places) - {os.getcwd()}),  # noqa: PTH109
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main()
