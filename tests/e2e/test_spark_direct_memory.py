"""Merges into a table of format 3 give the memory back that Iceberg reads with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from testing.table_topics import SUBMIT_ARGUMENTS
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(600)]

ROWS: Final = 400_000
MERGES: Final = 12
GROWTH_BYTES_MAX: Final = 16 << 20
"""A merge that leaks keeps 8 bytes of each row."""
SCRIPT: Final = """
import json, sys
from pyspark.sql import SparkSession
from bmq.spark.tables.iceberg import Catalog, read_rows_one_by_one
warehouse, rows, merges = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
spark = SparkSession.builder.getOrCreate()
Catalog.in_warehouse(warehouse).configure(spark)
read_rows_one_by_one(spark)
pools = spark._jvm.java.lang.management.ManagementFactory.getPlatformMXBeans(
    spark._jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean"))
direct = next(pool for pool in pools if pool.getName() == "direct")
properties = "'format-version'='3', 'write.update.mode'='merge-on-read'"
spark.sql(f"CREATE TABLE bmq.tables.t (id BIGINT, n BIGINT) USING iceberg TBLPROPERTIES ({properties})")
spark.sql(f"INSERT INTO bmq.tables.t SELECT id, 0 FROM range({rows})")
used = []
for _ in range(merges):
    spark.sql("UPDATE bmq.tables.t SET n = n + 1")
    used.append(direct.getMemoryUsed())
(total,) = spark.sql("SELECT sum(n) AS total FROM bmq.tables.t").collect()
print(json.dumps({"used": used, "total": total.total}))
"""


def test_merges_leave_no_direct_memory_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        dying_with_us([sys.executable, "-c", SCRIPT, f"file:{tmp_path}/warehouse", str(ROWS), str(MERGES)]),
        capture_output=True,
        text=True,
        timeout=Patience(400).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["total"] == ROWS * MERGES
    print(found["used"])
    assert found["used"][-1] - found["used"][1] <= GROWTH_BYTES_MAX, found["used"]
