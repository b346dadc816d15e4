"""One task of Spark: a range of a partition and how to get at it, pickled on the driver and read on an executor."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
import structlog
from pyspark.sql.datasource import InputPartition

from bmq.spark.source.plan import RangeToRead
from bmq.spark.source.read import Access, read_range


class Task(InputPartition):
    """`value` is what Spark shows of it."""

    def __init__(self, wanted: RangeToRead, access: Access, columns: tuple[str, ...]) -> None:
        super().__init__(f"{wanted.topic}-{wanted.partition} [{wanted.start_offset}, {wanted.end_offset})")
        self.wanted = wanted
        self.access = access
        self.columns = columns


def tasks(ranges: Iterable[RangeToRead], access: Access, columns: tuple[str, ...]) -> list[InputPartition]:
    return [Task(wanted, access, columns) for wanted in ranges]


def rows(task: object) -> Iterator[pa.RecordBatch]:
    """Of a task; none of what is no task: Spark reads nothing as if it were a partition."""
    quiet_logs()
    if isinstance(task, Task):
        yield from read_range(task.wanted, task.access, task.columns)


def quiet_logs() -> None:
    """Warnings on standard error, where Spark's workers have their log, unless the program has said otherwise."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        )
