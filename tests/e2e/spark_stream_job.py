"""What test_spark_yarn_secure.py submits: a stream into a table by format("bmq"), until it is killed or has everything.

spark-submit … tests/e2e/spark_stream_job.py BOOTSTRAP TOPIC DIRECTORY TRIGGER_S [ROWS]

TRIGGER_S: seconds between batches; 0: what is there, and then the end. ROWS: end once the table has so many. Prints JSON lines:
the process that is the driver's JVM, the table's rows after each batch, and the table's sums at the end.
"""

from __future__ import annotations

import json
import os
import sys
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from bmq.spark.source import register
from bmq.spark.tables.job import start_table
from bmq.spark.tables.progress import TableProgress
from bmq.table_definitions.definition import TableDefinition

FIELDS = [{"name": "id", "type": "long", "required": True}]
LOOK_INTERVAL_S = 1


def main() -> None:
    bootstrap, topic, directory, trigger_s = sys.argv[1:5]
    rows_wanted = [int(text) for text in sys.argv[5:]]
    has_all = Event()

    def tell(progress: TableProgress) -> None:
        print(json.dumps({"rows": progress.table_rows}), flush=True)
        if rows_wanted and progress.table_rows >= rows_wanted[0]:
            has_all.set()

    print(json.dumps({"driver": os.getppid()}), flush=True)
    spark = SparkSession.builder.appName("bmq-stream").getOrCreate()
    register(spark)
    form = {"name": "streamed", "topic": topic, "format": "json", "fields": FIELDS}
    job = start_table(
        spark,
        TableDefinition.from_json(json.dumps(form)),
        bootstrap=bootstrap,
        checkpoint=f"{directory}/checkpoint",
        warehouse=f"{directory}/warehouse",
        source="bmq",
        trigger_s=float(trigger_s) or None,
        on_progress=tell,
    )
    has_ended = False
    while not has_ended and not has_all.is_set():
        has_ended = job.wait(LOOK_INTERVAL_S)
    if not has_ended:
        job.stop()
        job.wait()
    sums = spark.table("bmq.tables.streamed").agg(sql.count("*"), sql.sum("id"), sql.count_distinct("id")).collect()
    spark.stop()
    print(json.dumps({"sums": list(sums[0])}))


if __name__ == "__main__":
    main()
