"""How tests start Spark. Imports none."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Final

from bmq.dev.java import QUICK_START_JVM_OPTIONS

SPARK_ARGUMENTS: Final = (
    *("--master", "local[2]"),
    *("--conf", "spark.driver.host=127.0.0.1"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
)
"""Of a `bmq spark` command."""

SPARK_ENVIRONMENT: Final = {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    # For the driver, which is all of Spark under local[N]. Few of these jobs live long enough to gain from the compiler's
    # last level.
    "SPARK_SUBMIT_OPTS": " ".join(QUICK_START_JVM_OPTIONS),
}


def link_spark(home: Path) -> None:
    """A Spark home of the installed one's parts: a local cluster writes what its workers need beside these."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    home.mkdir()
    for part in ("bin", "jars", "python"):
        (home / part).symlink_to(Path(spark.origin).parent / part)
