"""Merges into a table of format 3, over and over: python -m tests.e2e.spark_direct_memory_job TOLD WAREHOUSE

TOLD is a JSON file: `rows` of the table and `merges`. The last line of output is JSON: `used`, direct memory in bytes after each
merge, and `total`, the sum of what they counted up.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bmq.spark.tables.iceberg import Catalog, read_rows_one_by_one


def merged(spark: SparkSession, rows: int, merges: int) -> dict[str, Any]:
    jvm: Any = spark._jvm
    pools = jvm.java.lang.management.ManagementFactory.getPlatformMXBeans(
        jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    )
    direct = next(pool for pool in pools if pool.getName() == "direct")
    properties = "'format-version'='3', 'write.update.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE bmq.tables.t (id BIGINT, n BIGINT) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO bmq.tables.t SELECT id, 0 FROM range({rows})")
    used = []
    for _ in range(merges):
        spark.sql("UPDATE bmq.tables.t SET n = n + 1")
        used.append(direct.getMemoryUsed())
    (total,) = spark.sql("SELECT sum(n) AS total FROM bmq.tables.t").collect()
    return {"used": used, "total": total.total}


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    spark = SparkSession.builder.getOrCreate()
    Catalog.in_warehouse(f"file:{sys.argv[2]}").configure(spark)
    read_rows_one_by_one(spark)
    print(json.dumps(merged(spark, told["rows"], told["merges"])))


if __name__ == "__main__":
    main()
