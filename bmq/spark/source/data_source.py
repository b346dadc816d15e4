"""format("bmq") for Spark: Python's data source API of Spark 4.0 and later.

Filters are not pushed down: Spark keeps them with the relation, not the scan, so a DataFrame used twice would give
wrong rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bmq.spark.source.columns import ddl
from bmq.spark.source.options import BadOption, ReadOptions, columns_of, read_options
from bmq.spark.source.session import Session
from bmq.spark.source.stream_reader import BmqStreamReader
from bmq.spark.source.task import rows, tasks
from bmq.spark.source.worker import prepare_worker


class BmqDataSource(DataSource):
    """Created by Spark for each `load()`."""

    @classmethod
    def name(cls) -> str:
        return "bmq"

    def schema(self) -> str:
        """Raises BadOption."""
        prepare_worker()
        return ddl(columns_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises BadOption."""
        self._require_own(schema)
        return BmqReader(read_options(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> BmqStreamReader:
        """Raises BadOption."""
        self._require_own(schema)
        return BmqStreamReader(read_options(self.options, is_stream=True))

    def _require_own(self, schema: StructType) -> None:
        """Like the connector, refuse a user's schema: Spark 4.1 takes columns by their place, whatever their names."""
        columns = columns_of(self.options)
        if tuple(schema.names) != columns:
            raise BadOption(
                f"format('bmq') has a schema of its own: {ddl(columns)}; leave .schema() out, and choose with the option"
                " columns"
            )


class BmqReader(DataSourceReader):
    """A batch read: everything in the range when it is planned, at the DataFrame's first use."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Raises BadOption, UnknownTopic, DataLoss, StoreUnreadable, PlanFailed, ClusterAway."""
        prepare_worker()
        return asyncio.run(self._plan())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows(partition)

    async def _plan(self) -> list[InputPartition]:
        async with Session.opened(self._options) as session:
            ranges, access = await session.batch()
        return tasks(ranges, access, self._options.columns)
