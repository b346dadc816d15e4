"""What test_spark_yarn_secure.py submits: a stream into a table by format("bmq"), until it is killed or has everything.

spark-submit … tests/e2e/spark_stream_job.py BOOTSTRAP TOPIC DIRECTORY TRIGGER_S

TRIGGER_S: seconds between batches; 0: what is there, and then the end. Prints a JSON line after each batch, the table's rows,
and one with the table's sums at the end.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from bmq.spark.source import register
from bmq.spark.tables.job import run_table
from bmq.spark.tables.progress import TableProgress
from bmq.table_definitions.definition import TableDefinition

FIELDS = [{"name": "id", "type": "long", "required": True}]


def tell(progress: TableProgress) -> None:
    print(json.dumps({"rows": progress.table_rows}), flush=True)


def main() -> None:
    bootstrap, topic, directory, trigger_s = sys.argv[1:]
    spark = SparkSession.builder.appName("bmq-stream").getOrCreate()
    register(spark)
    form = {"name": "streamed", "topic": topic, "format": "json", "fields": FIELDS}
    run_table(
        spark,
        TableDefinition.from_json(json.dumps(form)),
        bootstrap=bootstrap,
        checkpoint=f"{directory}/checkpoint",
        warehouse=f"{directory}/warehouse",
        source="bmq",
        trigger_s=float(trigger_s) or None,
        on_progress=tell,
    )
    sums = spark.table("bmq.tables.streamed").agg(sql.count("*"), sql.sum("id"), sql.count_distinct("id")).collect()
    spark.stop()
    print(json.dumps({"sums": list(sums[0])}))


if __name__ == "__main__":
    main()
