"""How tests start Spark. Imports none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from bmq.dev.java import QUICK_START_JVM_OPTIONS
from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us

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


def job_result(module: str, told: Path, warehouse: Path, **environment: str) -> Any:
    """What a job of the tests prints as JSON in its last line, see `run_job`."""
    return json.loads(run_job(module, told, warehouse, **environment).stdout.splitlines()[-1])


def run_job(module: str, told: Path, warehouse: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A job of the tests: python -m MODULE TOLD WAREHOUSE. Fails with the job's words."""
    done = subprocess.run(
        dying_with_us([sys.executable, "-m", module, str(told), str(warehouse)]),
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=Patience(200).limit_s,
    )
    said = [line for line in done.stderr.splitlines() if not line.lstrip().startswith("at ")]
    assert done.returncode == 0, "\n".join(said[-100:])
    return done
