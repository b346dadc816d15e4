"""Which Spark is here, and whether it will do. Imports no Spark."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from bmq.protocol.errors import BmqError

SPARK_MIN: Final = (4, 0)


class SparkTooOld(BmqError):
    """Without what jobs, tables and the source are written for: Python's data source API among it."""


def require_spark(what: str) -> None:
    """Raises SparkTooOld, and PackageNotFoundError where no pyspark is installed."""
    found = version("pyspark")
    if tuple(int(part) for part in found.split(".")[:2]) < SPARK_MIN:
        raise SparkTooOld(f"{what} needs Spark 4.0 or later, this is Spark {found}")
