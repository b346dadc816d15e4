"""Builds one day of an index again from the topic, and replaces the day's files in one commit.

The offsets of the index stay: of each partition the records below them are read, decoded by the present definition, and those of
the day are staged. The commit deletes the files that the day had when it was begun, and adds the staged ones. So the index's job
may go on: what it adds to the day meanwhile has offsets that were not read, in files of its own. If files of the day were merged
meanwhile, the day is built again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as all of Spark's documentation calls it

from bmq.spark.tables.columns import index_properties, partition_terms, table_columns
from bmq.spark.tables.day import Day, check_day, is_by_record_time, offset_options, ranges_to_read
from bmq.spark.tables.decoding import decoded, fitting_rows, laid_out
from bmq.spark.tables.errors import CommitConflict, RecordsLost, TableJobError, TableMismatch
from bmq.spark.tables.iceberg import Catalog, IcebergTable, Staged, TablePart
from bmq.spark.tables.jvm_errors import first_line, is_data_loss, job_errors
from bmq.spark.tables.table_offsets import TableOffsets, check_topic
from bmq.spark.tables.topic import Topic
from bmq.table_definitions.definition import TableDefinition

_LOG: Final = logging.getLogger(__name__)
ATTEMPTS_MAX: Final = 5
"""Tries when files of the day are merged meanwhile."""


@dataclass(frozen=True, slots=True)
class RebuiltDay:
    """The rows of a day that were replaced, and the new ones."""

    index: str
    day: str
    rows_before: int
    files_before: int
    rows: int
    files: int
    snapshot_id: int | None

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def to_text(self) -> str:
        return (
            f"{self.index}: {self.day}: {self.files_before} files with {self.rows_before} rows became {self.files} files "
            f"with {self.rows} rows"
        )


class DayRebuild:
    """`options`: of the source, as for the job of the index."""

    def __init__(
        self,
        spark: SparkSession,
        definition: TableDefinition,
        catalog: Catalog,
        source: str,
        options: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._definition = definition
        self._catalog = catalog
        self._topic = Topic(spark, definition.topic, source, options)
        self._table = IcebergTable(spark, catalog, definition.name, definition.name)

    def run(self, day: Day, now_ms: int) -> RebuiltDay:
        """Raises TableJobError; the index is as it was then."""
        with job_errors(f"{day.text} of index {self._definition.name} cannot be built again"):
            try:
                return self._run(day, now_ms)
            except AnalysisException as error:
                raise TableMismatch(f"index {self._definition.name}: {first_line(error)}") from error
            except TableJobError:
                raise
            except Exception as error:
                if is_data_loss(error):
                    raise RecordsLost(
                        f"index {self._definition.name}: records of topic {self._topic.name} were deleted while they were read; "
                        "start again, or with the option failOnDataLoss=false"
                    ) from error
                raise

    def _run(self, day: Day, now_ms: int) -> RebuiltDay:
        definition = self._definition
        self._spark.conf.set("spark.sql.session.timeZone", "UTC")
        if definition.index is None:
            check_day(day, definition, None, now_ms)
        self._catalog.configure(self._spark)
        self._table.ensure(
            table_columns(definition), definition.topic, partition_terms(definition), index_properties(definition)
        )
        for _ in range(ATTEMPTS_MAX):
            part = self._table.part(self._time_column, day.bounds)
            offsets = check_day(day, definition, part.offsets, now_ms)
            try:
                return self._attempt(day, part, offsets)
            except CommitConflict as conflict:
                _LOG.warning("%s is built again: %s", day.text, conflict)
        raise TableJobError(
            f"index {definition.name}: its files of {day.text} were merged each time that they were written anew; stop its job, or "
            "start it with --merge-every 0"
        )

    def _attempt(self, day: Day, part: TablePart, offsets: TableOffsets) -> RebuiltDay:
        staged = self._staged(day, offsets)
        # Checked last: everything read so far came from a topic that still has this id.
        check_topic(offsets, self._topic.name, self._topic.state().topic_id, self._definition.name)
        snapshot_id = None
        if part.files or staged.files:
            snapshot_id = self._table.replace_part(part, staged, self._time_column, day.bounds)
        return RebuiltDay(
            index=self._definition.name,
            day=day.text,
            rows_before=part.rows,
            files_before=len(part.files),
            rows=staged.rows,
            files=len(staged.files),
            snapshot_id=snapshot_id,
        )

    def _staged(self, day: Day, offsets: TableOffsets) -> Staged:
        definition = self._definition
        starts = {number: offset or 0 for number, offset in self._topic.first_offsets().items()}
        of_day = self._topic.first_offsets(day.start_ms) if is_by_record_time(definition) else None
        ranges = ranges_to_read(offsets, starts, of_day)
        if ranges:
            records = self._topic.records_between(offset_options(self._topic.name, ranges))
        else:
            records = self._no_records()
        rows = fitting_rows(decoded(records, definition), self._table.column_names())
        time = F.col(self._time_column)
        rows = rows.where((time >= F.lit(day.start)) & (time < F.lit(day.end)))
        return self._table.stage(laid_out(rows, definition.index))

    def _no_records(self) -> DataFrame:
        schema = (
            "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
            "headers array<struct<key:string,value:binary>>"
        )
        return self._spark.createDataFrame([], schema)

    @property
    def _time_column(self) -> str:
        assert self._definition.index is not None
        return self._definition.index.time_column
