"""A Structured Streaming job that writes a topic into an Iceberg table, each record exactly once.

A batch is decoded, its rows are staged, and one commit adds them and moves the table's offsets (`iceberg`). Only the
table decides what is written: of a batch's offsets, those at or after the table's own. Records that do not fit are
committed to the dead-letter table first, in the same way and with separate offsets; these are ahead if the job died in
between. The rest of such a batch is then decoded by the definition it began with, because a record that fits one
definition but not the other could end up in neither table. Where records change rows, the last one of each key is merged
(`upsert`).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Required, TypedDict, Unpack

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as all of Spark's documentation calls it
from pyspark.sql.streaming.query import StreamingQuery

from bmq.protocol.errors import BmqError
from bmq.spark.tables.checkpoint import Checkpoint
from bmq.spark.tables.columns import (
    changes_properties,
    dead_letter_columns,
    index_properties,
    partition_terms,
    table_columns,
)
from bmq.spark.tables.decoding import decoded, fitting_rows, laid_out, misfit_rows
from bmq.spark.tables.errors import (
    CommitConflict,
    RecordsLost,
    RecordsRefused,
    TableJobError,
    TableMismatch,
    TableTaken,
)
from bmq.spark.tables.iceberg import Catalog, IcebergTable, Staged, read_rows_one_by_one
from bmq.spark.tables.jvm_errors import first_line, is_data_loss, job_errors
from bmq.spark.tables.maintenance import Kept, Maintenance
from bmq.spark.tables.maintenance_policy import MaintenancePolicy
from bmq.spark.tables.progress import TableProgress
from bmq.spark.tables.table_offsets import (
    TableOffsets,
    Writer,
    all_fit,
    check_committed,
    check_planned,
    check_topic,
    check_writer,
    claim,
    dead_letter_offsets,
    definition_for,
    first_offsets_by_partition,
    starting_offsets,
    unwritten,
)
from bmq.spark.tables.topic import Topic, TopicState
from bmq.spark.tables.upsert_stage import stage_last_records
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.evolution import alterations

_LOG: Final = logging.getLogger(__name__)
ATTEMPTS_MAX: Final = 10
"""Tries of one batch when others write to the same tables."""
TRIGGER_S_DEFAULT: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of a batch."""

    rows: int
    dead_letters: int
    files: int
    topic_state: TopicState
    is_replay: bool = False
    deletions: int = 0


class TableJob:
    """One table being written; `TableJobOptions` describes the arguments."""

    def __init__(
        self,
        spark: SparkSession,
        definition: TableDefinition | Callable[[], TableDefinition],
        *,
        options: Mapping[str, str],
        catalog: Catalog,
        checkpoint: str,
        source: str,
        policy: MaintenancePolicy,
        on_progress: Callable[[TableProgress], None],
    ) -> None:
        self._spark = spark
        self._read_definition = _same(definition) if isinstance(definition, TableDefinition) else definition
        self._definition = self._read_definition()
        self._catalog = catalog
        self._checkpoint_path = checkpoint
        self._on_progress = on_progress
        self._topic = Topic(spark, self._definition.topic, source, options)
        self._maintenance = Maintenance(spark, catalog.name, policy)
        self._name = self._definition.name
        self._table = IcebergTable(spark, catalog, self._name, self._name)
        self._dead_letters: IcebergTable | None = None
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None
        self._is_stopped = False
        self._batches = self._batches_at_start = 0
        """Batches written in all, and their number when the stream was last started."""

    def start(
        self,
        *,
        trigger_s: float | None,
        max_offsets_per_trigger: int | None,
        take_over: bool,
        accept_rollback: bool = False,
    ) -> None:
        """Check that everything matches, claim the table, and start. Raises TableJobError."""
        with job_errors(f"table {self._name} cannot be begun"):
            self._start(trigger_s, max_offsets_per_trigger, take_over, accept_rollback)

    def _start(
        self, trigger_s: float | None, max_offsets_per_trigger: int | None, take_over: bool, accept_rollback: bool
    ) -> None:
        if self._definition.index is not None and not self._catalog.is_in_directories:
            raise TableMismatch(
                f"{self._name} is an index: lookups find its files in a directory, so name --warehouse and no other catalog"
            )
        self._catalog.configure(self._spark)
        if self._definition.changes is not None:
            read_rows_one_by_one(self._spark)
        self._checkpoint = Checkpoint(self._spark, self._checkpoint_path)
        self._topic_state = self._topic.state()
        self._ensure_tables(self._definition)
        for table in self._tables:
            table.upgrade_offsets(accept_rollback=accept_rollback)
        offsets = self._table.offsets()
        self._check_start(offsets)
        if self._dead_letters is not None:
            self._dead_letters.offsets()  # refuses a table that was rolled back
        self._writer = Writer(self._checkpoint.path, uuid.uuid4().hex)
        self._table.claim(claim(self._table.writer(), self._writer, self._name, take_over=take_over))
        starts = starting_offsets(
            offsets, self._topic.name, len(self._topic_state.end_offsets), self._definition.starting_offsets.value
        )
        stream = (
            self._topic.records(starts, max_offsets_per_trigger)
            .writeStream.foreachBatch(self._on_batch)
            .option("checkpointLocation", self._checkpoint.path)
        )
        if trigger_s is None:
            self._stream = stream.trigger(availableNow=True)
        else:
            self._stream = stream.trigger(processingTime=f"{int(trigger_s * 1_000)} milliseconds")
        self._query = self._stream.start()

    def wait(self, timeout_s: int | None = None) -> bool:
        """Wait until the job ends; False if it is still running. Raises TableJobError when it had to stop.

        A stream that ends by itself, outside our batches, is restarted as long as there is progress: the connector of
        Spark 4.1 fails after each batch that it replays (SPARK-55271), and brokers may be away for longer than it
        waits.
        """
        assert self._query is not None
        while True:
            try:
                # Without a timeout it returns None.
                ended = self._query.awaitTermination(timeout_s) is not False
                break
            except StreamingQueryException as error:
                if self._is_stopped and not isinstance(self._failure, TableJobError):
                    ended = True
                    break
                if isinstance(self._failure, TableJobError):
                    raise self._failure from None
                if is_data_loss(error):
                    raise RecordsLost(
                        f"table {self._name}: records of topic {self._topic.name} were deleted before they were read; "
                        "with the option failOnDataLoss=false the job goes on with what is left"
                    ) from error
                if self._failure is not None or self._batches == self._batches_at_start:
                    raise TableJobError(f"table {self._name}: the stream ended: {first_line(error)}") from error
                _LOG.warning("table %s: the stream ended, and is started again: %s", self._name, first_line(error))
                self._batches_at_start = self._batches
                self._query = self._stream.start()
                if self._is_stopped:  # the stop went to the previous query
                    self._query.stop()
        if ended:
            self._maintenance.finish()
        return ended

    def stop(self) -> None:
        """Stop at once, between two commits; the next run writes what a batch had staged."""
        self._is_stopped = True
        if self._query is not None:
            self._query.stop()

    def is_active(self) -> bool:
        """Whether the stream runs; between a stream that ended and the next one it does not. Asks the JVM."""
        return self._query is not None and bool(self._query.isActive)

    @property
    def merged_files(self) -> int:
        """Small files merged since the job began, including the dead-letter table's."""
        return self._maintenance.merged_files

    def topic_ends(self) -> Mapping[int, int]:
        """The topic's present ends by partition. Raises TableJobError."""
        return self._topic.state().end_offsets

    # --- the start

    def _check_start(self, offsets: TableOffsets | None) -> None:
        checkpoint, topic = self._checkpoint, self._topic.name
        if offsets is not None:
            check_topic(offsets, topic, self._topic_state.topic_id, self._name)
        check_planned(checkpoint.path, checkpoint.planned() or {}, topic, self._name)
        committed = checkpoint.committed() or {}
        check_committed(checkpoint.path, committed.get(topic, {}), offsets, self._name)

    def _ensure_tables(self, definition: TableDefinition) -> None:
        self._table.ensure(
            table_columns(definition),
            definition.topic,
            partition_terms(definition),
            {**index_properties(definition), **changes_properties(definition)},
        )
        name = definition.dead_letter_table
        self._dead_letters = None if name is None else IcebergTable(self._spark, self._catalog, name, self._name)
        if self._dead_letters is not None:
            self._dead_letters.ensure(dead_letter_columns(), definition.topic)

    @property
    def _tables(self) -> tuple[IcebergTable, ...]:
        return (self._table,) if self._dead_letters is None else (self._table, self._dead_letters)

    # --- a batch

    def _on_batch(self, records: DataFrame, batch: int) -> None:
        try:
            self._write(records, batch)
            self._batches += 1
        except AnalysisException as error:
            self._failure = TableMismatch(f"table {self._name} cannot be made as defined: {first_line(error)}")
            raise self._failure from error
        except Exception as error:
            self._failure = error
            raise

    def _write(self, records: DataFrame, batch: int) -> None:
        began_ns = time.monotonic_ns()
        # Times without a zone are UTC, wherever the job runs.
        records.sparkSession.conf.set("spark.sql.session.timeZone", "UTC")
        self._reload_definition()
        end_offsets = self._checkpoint.end_offsets(batch)[self._topic.name]
        for _ in range(ATTEMPTS_MAX):
            check_writer(self._table.writer(), self._writer, self._name)
            offsets = self._table.offsets()
            try:
                outcome = self._attempt(records, offsets, end_offsets)
                break
            except CommitConflict as conflict:
                _LOG.warning("batch %d is tried again: %s", batch, conflict)
        else:
            raise TableTaken(f"table {self._name}: others keep writing it, batch {batch} found no place between them")
        self._report(batch, outcome, began_ns)
        if outcome.rows or outcome.dead_letters or outcome.deletions:
            of_table = Kept(self._definition.index, has_deletes=self._definition.changes is not None)
            self._maintenance.committed(
                {table.identifier: of_table if table is self._table else Kept() for table in self._tables}
            )

    def _reload_definition(self) -> None:
        """Use a definition that was altered meanwhile; if it cannot be read, keep the last one."""
        try:
            definition = self._read_definition()
        except TableMismatch:
            raise
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            _LOG.warning("the definition of table %s cannot be read, the last one holds: %s", self._name, error)
            return
        if definition == self._definition:
            return
        try:
            alterations(self._definition, definition)
        except BmqError as error:
            raise TableMismatch(f"table {self._name} cannot become what its definition says now: {error}") from None
        self._ensure_tables(definition)
        self._definition = definition

    def _attempt(self, records: DataFrame, expected: TableOffsets | None, end_offsets: Mapping[int, int]) -> _Outcome:
        topic, topic_id = self._topic.name, self._topic_state.topic_id
        offsets = expected or TableOffsets(topic, topic_id, {})
        ranges = unwritten(offsets, end_offsets)
        if not ranges:
            return _Outcome(0, 0, 0, self._topic.state(), is_replay=True)
        dead = self._dead_letters
        dead_expected = None if dead is None else dead.offsets()
        dead_offsets = dead_letter_offsets(dead_expected, offsets)
        definition = TableDefinition.from_json(
            definition_for(offsets, dead_offsets, current=self._definition.to_json())
        )
        rows = decoded(_behind(records, offsets), definition)
        fitting = fitting_rows(rows, self._table.column_names())
        if definition.changes is None:
            staged = self._table.stage(laid_out(fitting, definition.index))
            records_that_fit, deletions = staged.rows, 0
        else:
            staged, summary = stage_last_records(self._table, fitting, definition)
            records_that_fit, deletions = summary.records, summary.deletes
        refused: Staged | None = None
        if not all_fit(ranges, records_that_fit):
            refused = self._stage_misfits(_behind(rows, dead_offsets))
        # Checked last: everything read so far came from a topic that still has this id.
        state = self._topic.state()
        check_topic(offsets, topic, state.topic_id, self._name)
        if refused is not None:
            assert dead is not None
            dead.publish(refused, dead_expected, dead_offsets.moved_to(end_offsets, definition.to_json()), None)
        self._table.publish(staged, expected, offsets.moved_to(end_offsets), self._writer)
        return _Outcome(
            rows=staged.rows,
            dead_letters=0 if refused is None else refused.rows,
            files=len(staged.files),
            topic_state=state,
            deletions=deletions,
        )

    def _stage_misfits(self, rows: DataFrame) -> Staged | None:
        bad = misfit_rows(rows)
        # Ordered, so that it does not depend on which partition was read first.
        first = bad.select("partition", "offset", "reason").orderBy("partition", "offset").take(1)
        if not first:
            return None
        if self._dead_letters is None:
            row = first[0]
            raise RecordsRefused(
                f"topic {self._topic.name}, partition {row['partition']}, offset {row['offset']}: {row['reason']}; "
                f"table {self._name} takes no records that do not fit, and has nothing of this batch"
            )
        return self._dead_letters.stage(bad)

    def _report(self, batch: int, outcome: _Outcome, began_ns: int) -> None:
        offsets, totals = self._table.offsets(), self._table.totals()
        dead_letter_rows = 0 if self._dead_letters is None else self._dead_letters.totals().rows
        self._on_progress(
            TableProgress(
                table=self._name,
                topic=self._topic.name,
                topic_id=outcome.topic_state.topic_id,
                batch=batch,
                rows=outcome.rows,
                dead_letters=outcome.dead_letters,
                files=outcome.files,
                table_rows=totals.rows,
                table_files=totals.files,
                table_bytes=totals.bytes,
                dead_letter_rows=dead_letter_rows,
                next_offsets={} if offsets is None else offsets.next_offsets,
                end_offsets=outcome.topic_state.end_offsets,
                snapshot_id=totals.snapshot_id,
                at_ms=time.time_ns() // 1_000_000,
                duration_ms=(time.monotonic_ns() - began_ns) // 1_000_000,
                is_replay=outcome.is_replay,
                deletions=outcome.deletions,
            )
        )


class TableJobOptions(TypedDict, total=False):
    """`bootstrap`: HOST:PORT of the cluster. `checkpoint`: a directory for this table only; with a new one the job
    continues from the table's own offsets. Tables are in `warehouse`, a directory of any file system, or in `catalog`.

    `source`: the stream's format, "kafka" or a registered one with the connector's columns and options;
    `source_options`: more of these options. `trigger_s`: interval of batches [10]; None: until the table has everything
    that the topic has now. `take_over`: write a table that belonged to a job with another checkpoint. `accept_rollback`:
    go on with a table that was rolled back, without the rows that are gone. `on_progress`: called after each batch.
    """

    bootstrap: Required[str]
    checkpoint: Required[str]
    warehouse: str
    catalog: Catalog
    source: str
    source_options: Mapping[str, str]
    trigger_s: float | None
    max_offsets_per_trigger: int
    take_over: bool
    accept_rollback: bool
    maintenance: MaintenancePolicy
    on_progress: Callable[[TableProgress], None]


def run_table(
    spark: SparkSession, definition: TableDefinition | Callable[[], TableDefinition], **how: Unpack[TableJobOptions]
) -> None:
    """Write a table until the job is stopped, or has everything that the topic had.

    `definition`: the table, or a function that is called before each batch, so that added columns take effect while the
    job runs. Raises TableJobError, one sentence: the table is consistent then, and the job can be started again.
    """
    start_table(spark, definition, **how).wait()


def start_table(
    spark: SparkSession, definition: TableDefinition | Callable[[], TableDefinition], **how: Unpack[TableJobOptions]
) -> TableJob:
    """Like `run_table`, for a notebook: the job runs in the background; see `wait` and `stop`."""
    if ("warehouse" in how) == ("catalog" in how):
        raise TableJobError("a table is in a warehouse or in a catalog: name one of them")
    job = TableJob(
        spark,
        definition,
        options={"kafka.bootstrap.servers": how["bootstrap"], **how.get("source_options", {})},
        catalog=how["catalog"] if "catalog" in how else Catalog.in_warehouse(how["warehouse"]),
        checkpoint=how["checkpoint"],
        source=how.get("source", "kafka"),
        policy=how.get("maintenance", MaintenancePolicy()),
        on_progress=how.get("on_progress", lambda progress: None),
    )
    job.start(
        trigger_s=how.get("trigger_s", TRIGGER_S_DEFAULT),
        max_offsets_per_trigger=how.get("max_offsets_per_trigger"),
        take_over=how.get("take_over", False),
        accept_rollback=how.get("accept_rollback", False),
    )
    return job


def _behind(records: DataFrame, offsets: TableOffsets) -> DataFrame:
    """Records that are not in a table with these offsets."""
    firsts = first_offsets_by_partition(offsets, partitions=0)
    if not any(firsts):
        return records
    first = F.get(F.array(*(F.lit(offset).cast("bigint") for offset in firsts)), F.col("partition"))
    return records.where(F.col("offset") >= F.coalesce(first, F.lit(0)))


def _same(definition: TableDefinition) -> Callable[[], TableDefinition]:
    return lambda: definition
