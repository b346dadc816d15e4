"""A job's Spark session: that of spark-submit or of a notebook, else a local one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bmq.extras import install_command
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.release import SparkTooOld, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"


def open_session(name: str, *, master: str = "", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Under spark-submit its master and settings hold, and `conf` is added. Elsewhere `master` is LOCAL if empty.

    Raises JobFailed: pyspark or Java is missing, pyspark is too old, or a master or setting is invalid.
    """
    try:
        require_spark("bmq spark")
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from bmq.spark.jvm import start_session
        from bmq.spark.tables.jvm_errors import innermost
    except ImportError as error:
        raise JobFailed(f"jobs need Spark: {install_command('spark')}") from error
    except SparkTooOld as error:
        raise JobFailed(str(error)) from error
    settings: dict[str, str] = {}
    if _SUBMITTED not in os.environ:
        # Otherwise workers would use whatever `python3` is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= {
            "spark.master": master or LOCAL,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
    try:
        session = start_session(name, {**settings, **(conf or {})})
    except PySparkException as error:
        raise JobFailed(f"Spark cannot be started (it needs Java 17 or later): {error}") from error
    except Py4JJavaError as error:  # before the first session exceptions of Java are not made Spark's own
        raise JobFailed(f"Spark cannot be started as it was asked for: {innermost(error.java_exception)}") from error
    if _SUBMITTED not in os.environ:
        session.sparkContext.setLogLevel("ERROR")
    return session
