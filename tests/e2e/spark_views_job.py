"""A Spark job that reads a view by the stock connector and by format("bmq"); run by test_spark_views.py.

python -m tests.e2e.spark_views_job DIRECTORY BOOTSTRAP VIEW     prints the offsets that each read found as one JSON line
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from bmq.spark.source import register
from tests.e2e.spark_job import session


def offsets_of(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.select("offset").collect())


def main(directory: Path, bootstrap: str, view: str) -> None:
    spark = session(directory / "warehouse")
    register(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": view, "startingOffsets": "earliest"}
    found = {
        form: offsets_of(spark.read.format(form).options(**options).load().selectExpr("offset", "value"))
        for form in ("kafka", "bmq")
    }
    for form in ("kafka", "bmq"):
        stream = spark.readStream.format(form).options(**options, maxOffsetsPerTrigger="20").load()
        files = str(directory / f"files-{form}")
        query = (
            stream.select("offset", "value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(directory / f"checkpoint-{form}"))
            .trigger(availableNow=True)
            .start(files)
        )
        query.awaitTermination()
        found[f"{form} stream"] = offsets_of(spark.read.parquet(files))
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
