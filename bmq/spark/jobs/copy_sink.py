"""The data source through which a copy writes: Spark passes each task's rows as Arrow to a PartitionCopier.

It is a sink because functions over Arrow batches need pandas on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from bmq.spark.jobs.copy_settings import CopySettings
from bmq.spark.jobs.partition_copier import PartitionCopier

FORMAT: Final = "bmq_copy"
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


@dataclass
class Copied(WriterCommitMessage):
    """How many records a task has copied, without those copied before, and the partitions that it had rows of."""

    records: int
    partitions: tuple[tuple[str, int], ...] = ()


class CopySink(DataSource):
    """Option `settings`: CopySettings as JSON. Rows of a partition must come in order, all in one task."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> CopyWriter:
        return CopyWriter(self.options["settings"])


class CopyWriter(DataSourceArrowWriter):
    """Each task commits its own records. The driver then moves the positions of partitions that no task had."""

    def __init__(self, settings: str) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Copied:
        """Runs on an executor. Raises JobFailed, BrokenOff."""
        settings = CopySettings.from_json(self._settings)
        records = 0
        partitions: list[tuple[str, int]] = []
        stretches = by_partition(iterator)
        stretch = next(stretches, None)
        while stretch is not None:
            topic, partition, rows = stretch
            with closing(PartitionCopier(settings, topic, partition)) as copier:
                copier.take(rows)
                while (stretch := next(stretches, None)) is not None and stretch[:2] == (topic, partition):
                    copier.take(stretch[2])
                copier.finish()
                records += copier.copied
            partitions.append((topic, partition))
        return Copied(records, tuple(partitions))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Move the positions of ranges without records to their ends. Raises JobFailed, BrokenOff."""
        settings = CopySettings.from_json(self._settings)
        finished = {each for message in messages if isinstance(message, Copied) for each in message.partitions}
        for topic, ends in settings.ends.items():
            for partition in map(int, ends):
                if (topic, partition) not in finished:
                    with closing(PartitionCopier(settings, topic, partition)) as copier:
                        copier.finish()


def by_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Runs of consecutive rows of one partition: (topic, partition, rows)."""
    for batch in batches:
        if not batch.num_rows:
            continue
        topics, partitions = batch.column("topic"), batch.column("partition")
        is_new = pc.or_(
            pc.not_equal(topics.slice(1), topics.slice(0, batch.num_rows - 1)),
            pc.not_equal(partitions.slice(1), partitions.slice(0, batch.num_rows - 1)),
        )
        starts = [0, *(np.flatnonzero(is_new.to_numpy(zero_copy_only=False)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(starts):
            yield topics[start].as_py(), partitions[start].as_py(), batch.slice(start, end - start)
