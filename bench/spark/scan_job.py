"""A Spark job that scans topics on request; `scanner.py` starts and controls it.

    python -m bench.spark.scan_job

Each line of JSON on standard input requests a scan: {"format": "bmq" or "kafka", "options": {…}, "columns": [SQL, …]}.
All rows are read and only aggregated by `columns`. The answer is a line of JSON: {"row": […], "seconds": S, "heap_mib":
M}, measured from load() to the result, so including metadata requests and planning; or {"failure": "…"}. The first
line, {"spark": VERSION}, says that the session is ready. The job ends with its standard input.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

from bmq.spark.source import register


def scan(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    frame = spark.read.format(order["format"]).options(**order["options"]).load()
    rows = frame.selectExpr(*order["columns"]).collect()
    seconds = time.monotonic() - began
    return {"row": list(rows[0]), "seconds": round(seconds, 4), "heap_mib": round(heap_bytes(spark) / 2**20, 1)}


def heap_bytes(spark: SparkSession) -> int:
    """Heap in use, including garbage."""
    memory = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    return int(memory.getHeapMemoryUsage().getUsed())


def main() -> None:
    spark = SparkSession.builder.appName("bench").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    print(json.dumps({"spark": spark.version}), flush=True)
    for line in sys.stdin:
        try:
            answer = scan(spark, json.loads(line))
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
