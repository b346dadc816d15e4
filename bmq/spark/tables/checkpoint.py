"""A checkpoint of Structured Streaming, read beside Spark: batch ends, and how far the last run got.

Spark writes `offsets/N` before batch N begins and `commits/N` after it.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from bmq.spark.tables.errors import TableMismatch
from bmq.spark.tables.offset_log import Offsets, end_offsets


class Checkpoint:
    """A checkpoint directory, on any file system that Spark reads."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        context: Any = spark._jsc
        self._jvm = jvm
        directory = jvm.org.apache.hadoop.fs.Path(path)
        self._files = directory.getFileSystem(context.hadoopConfiguration())
        self.path: str = self._files.makeQualified(directory).toString()
        """Fully qualified, so that a restarted job is recognized by it."""

    def end_offsets(self, batch: int) -> Offsets:
        """The end of a batch that has begun. Raises TableMismatch."""
        where = f"{self.path}/offsets/{batch}"
        return end_offsets(self._read(where), where)

    def planned(self) -> Offsets | None:
        """The end of the last batch that has begun, written or not; None for a new checkpoint."""
        batch = self._last("offsets")
        return None if batch is None else self.end_offsets(batch)

    def committed(self) -> Offsets | None:
        """The end of what Spark considers written; None if that is nothing yet. Raises TableMismatch."""
        batch = self._last("commits")
        return None if batch is None else self.end_offsets(batch)

    def _last(self, directory: str) -> int | None:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{directory}")
        if not self._files.exists(path):
            return None
        names = (str(status.getPath().getName()) for status in self._files.listStatus(path))
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _read(self, where: str) -> str:
        try:
            stream = self._files.open(self._jvm.org.apache.hadoop.fs.Path(where))
        except Py4JJavaError as error:
            raise TableMismatch(f"{where} cannot be read: {error.java_exception.getMessage()}") from None
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
