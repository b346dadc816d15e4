"""One Spark task: a range of a partition and how to access it, pickled on the driver and read on an executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from bmq.spark.source.plan import RangeToRead
from bmq.spark.source.read import Access, read_range
from bmq.spark.source.worker import prepare_worker


class Task(InputPartition):
    """`value` is what Spark displays."""

    def __init__(self, wanted: RangeToRead, access: Access, columns: tuple[str, ...]) -> None:
        super().__init__(f"{wanted.topic}-{wanted.partition} [{wanted.start_offset}, {wanted.end_offset})")
        self.wanted = wanted
        self.access = access
        self.columns = columns


def tasks(ranges: Iterable[RangeToRead], access: Access, columns: tuple[str, ...]) -> list[InputPartition]:
    return [Task(wanted, access, columns) for wanted in ranges]


def rows(task: object) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Anything else has no rows: Spark reads a placeholder when there are no tasks."""
    prepare_worker()
    if isinstance(task, Task):
        yield from read_range(task.wanted, task.access, task.columns)
