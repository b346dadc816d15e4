"""The installed Spark, and whether it is supported. Does not import Spark."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from bmq.protocol.errors import BmqError

SPARK_MIN: Final = (4, 0)


class SparkTooOld(BmqError):
    """This Spark lacks what jobs, tables and the source need, such as Python's data source API."""


def require_spark(what: str) -> None:
    """Raises SparkTooOld, and PackageNotFoundError if pyspark is not installed."""
    found = version("pyspark")
    if tuple(int(part) for part in found.split(".")[:2]) < SPARK_MIN:
        raise SparkTooOld(f"{what} needs Spark 4.0 or later, this is Spark {found}")
