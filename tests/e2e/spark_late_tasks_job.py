"""Spark tasks that begin after their plan's token would have ended: python -m tests.e2e.spark_late_tasks_job TOLD WAREHOUSE

TOLD is a JSON file: `bootstrap`, `topic`, `principal` and `keytab` as Spark is given them, and for how long the first task of
a plan lasts, `first_task_s`. The last line of output is JSON: what the tasks read, how long after the plan each began, what a
stream read before and after a pause as long, and how many tokens the driver has got in all.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark import TaskContext
from pyspark.sql import SparkSession

from bmq.spark.source import register
from bmq.spark.source.driver_tokens import DIRECTORY_VARIABLE, TokenDirectory
from tests.e2e.spark_job import session

PARTS = 4
MORE = 10


def late_tasks(spark: SparkSession, options: dict[str, str], first_task_s: float) -> dict[str, Any]:
    planned_s = time.time()

    def lasting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began_s = time.time()
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 0 and context.partitionId() == 0:
                time.sleep(first_task_s)
            values = batch.column(0).to_pylist()
            yield pa.RecordBatch.from_pydict({"value": values, "began_s": [began_s - planned_s] * len(values)})

    frame = spark.read.format("bmq").options(**options, minPartitions=str(PARTS), columns="value").load()
    rows = frame.mapInArrow(lasting, "value binary, began_s double").collect()
    return {
        "read": len({bytes(row.value) for row in rows}),
        "began_s": sorted({row.began_s for row in rows}),
    }


def paused_stream(spark: SparkSession, options: dict[str, str], pause_s: float) -> list[int]:
    stream = spark.readStream.format("bmq").options(**options, columns="value").load()
    query = stream.writeStream.format("memory").queryName("streamed").start()
    counts = []
    for _ in range(2):
        query.processAllAvailable()
        counts.append(spark.sql("select count(distinct value) from streamed").collect()[0][0])
        if len(counts) == 1:
            time.sleep(pause_s)
            producer = Producer({"bootstrap.servers": options["kafka.bootstrap.servers"]})
            for number in range(MORE):
                producer.produce(options["subscribe"], f"more {number}".ljust(150_000, "x").encode())
            assert producer.flush(60) == 0
    query.stop()
    return counts


def main() -> None:
    told, warehouse = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    login = {"spark.kerberos.principal": told["principal"], "spark.kerberos.keytab": told["keytab"]}
    spark = session(warehouse, "local-cluster[1,1,1024]", login)
    register(spark)
    options = {
        "kafka.bootstrap.servers": told["bootstrap"],
        "subscribe": told["topic"],
        "startingOffsets": "earliest",
    }
    found = late_tasks(spark, options, told["first_task_s"])
    found["streamed"] = paused_stream(spark, options, told["first_task_s"])
    directory = TokenDirectory.shared()
    assert directory is not None and os.environ[DIRECTORY_VARIABLE]
    found["tokens"] = len({one.token.identifier for _, one in directory.all()})
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
