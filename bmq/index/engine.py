"""Answers one query after another: files by DuckDB, the tail by a Kafka client, both by one statement.

Steps: the topic's state, the index's files and offsets, the estimate, the tail, the statement, and whole records where they are
asked for. All of them end at one deadline. An engine is for one thread; its memory is bounded by DuckDB's limit, and by the bytes
that may be read of the topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import duckdb
import pyarrow as pa

from bmq.dataclass import dataclass
from bmq.hdfs.location import is_hdfs
from bmq.index.answer import Answer, Row
from bmq.index.completeness import PartitionAnswer, partition_answers, partition_states, tail_ranges
from bmq.index.continuation import Continuation, Place, continuation_of
from bmq.index.errors import IndexMismatch, QueryTimedOut, QueryTooWide, SourceAway
from bmq.index.file_planning import IndexFiles, PlannedFiles, local_path
from bmq.index.query import IndexQuery, Selection, keys_used, layout_of, selection_of, shown
from bmq.index.row_decoder import TailRows
from bmq.index.statement import BOUNDS, TAIL, row_columns, statement_of
from bmq.index.topic_reader import LogRecord, Tail, TopicReader, TopicState
from bmq.index.values import Value, from_micros
from bmq.table_definitions.stored import StoredTable

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Bounds of one query. `tail_share`: of the time, for reading the tail; what is not reached then is told in the answer."""

    memory_bytes: int = 256 * _MIB
    threads: int = 2
    timeout_s: float = 30.0
    file_bytes_max: int = 1024 * _MIB
    tail_bytes_max: int = 64 * _MIB
    record_bytes_max: int = 16 * _MIB
    tail_share: float = 0.5


class QueryEngine:
    """`monotonic_s`, `now_ms`: the clocks. Call `close` at the end."""

    def __init__(
        self,
        files: IndexFiles,
        topics: TopicReader,
        limits: EngineLimits,
        *,
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._topics = topics
        self._limits = limits
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._database = duckdb.connect(
            config={
                "memory_limit": f"{limits.memory_bytes // _MIB}MiB",
                "threads": limits.threads,
                "max_temp_directory_size": "0B",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        # Files never change: their footers are read once. DuckDB counts them as its memory.
        self._database.execute("SET parquet_metadata_cache = true")
        if is_hdfs(files.warehouse):
            from bmq.index.hdfs_files import HdfsFileSystem, hdfs_files

            self._database.register_filesystem(HdfsFileSystem(hdfs_files(files.warehouse)))

    def close(self) -> None:
        self._database.close()

    def query(self, stored: StoredTable, query: IndexQuery) -> Answer:
        """Raises QueryFailed: refused, too wide, timed out, mismatched, or a source that is away."""
        began_s = self._monotonic_s()
        deadline_s = began_s + self._limits.timeout_s
        selection = selection_of(query, stored.definition, self._now_ms())
        known = None
        if query.continuation is not None:
            known = continuation_of(query.continuation, selection, str(stored.table_id))
        topic = self._topic_state(stored)
        state = self._files.state(stored)
        planned = self._files.plan(state, selection, self._limits.file_bytes_max, deadline_s=deadline_s)
        partitions = partition_states(topic.log_starts, topic.ends, state.offsets)
        pinned = None if known is None else known.ends
        ranges = tail_ranges(partitions, pinned)
        answer = Answer(
            index=stored.definition.name,
            topic=stored.definition.topic,
            rows=(),
            partitions=partition_answers(partitions, {}, pinned),
            continuation=None,
            estimate=planned.estimate,
            snapshot_id=state.snapshot_id,
        )
        if query.explain:
            lines = _explanation(selection, stored, planned, sum(end - start for start, end in ranges.values()))
            return replace(answer, explanation=lines, elapsed_ms=self._elapsed_ms(began_s))
        rows, tail = TailRows(stored.definition), Tail({}, 0, 0)
        if ranges:
            tail = self._topics.scan(
                stored.definition.topic,
                ranges,
                rows.take,
                bytes_max=self._limits.tail_bytes_max,
                deadline_s=began_s + self._limits.timeout_s * self._limits.tail_share,
            )
        answers = partition_answers(partitions, tail.reached, pinned)
        after = None if known is None else known.place
        found = self._select(selection, planned, rows, answers, after, deadline_s)
        page, has_more = found[: selection.limit], len(found) > selection.limit
        gone = 0
        last = page[-1] if page else None
        if query.records and page:
            whole = self._with_records(stored.definition.topic, page, deadline_s)
            gone = len(whole) - sum(each.record is not None for each in whole)
            has_more = has_more or len(whole) < len(page)
            last = whole[-1]
            page = [each for each in whole if each.record is not None]
        continuation = None
        if has_more and last is not None:
            ends = {each.partition: each.complete_to for each in answers}
            place = Place(_order_value(selection, last), last.partition, last.offset)
            continuation = Continuation(str(stored.table_id), ends, place).to_text(selection)
        return replace(
            answer,
            rows=page,
            partitions=answers,
            continuation=continuation,
            gone=gone,
            tail_records=tail.records,
            tail_bytes=tail.bytes,
            tail_misfits=rows.misfits,
            elapsed_ms=self._elapsed_ms(began_s),
        )

    def _topic_state(self, stored: StoredTable) -> TopicState:
        name, topic = stored.definition.name, stored.definition.topic
        state = self._topics.state(topic)
        if state is None:
            raise IndexMismatch(
                f"topic {topic} of index {name} does not exist any more, and with it its records; drop the index"
            )
        if state.topic_id != stored.topic_id:
            raise IndexMismatch(
                f"topic {topic} was deleted and made again since index {name} was made; drop the index, and make another one"
            )
        return state

    def _select(
        self,
        selection: Selection,
        planned: PlannedFiles,
        tail: TailRows,
        partitions: Sequence[PartitionAnswer],
        after: Place | None,
        deadline_s: float,
    ) -> list[Row]:
        """The rows of one page, and one more if there are more."""
        if not planned.urls and not len(tail):
            return []
        files = [local_path(url) for url in planned.urls]
        statement = statement_of(selection, files, planned.absent, after, has_tail=len(tail) > 0)
        registered = {
            BOUNDS: pa.table(
                {
                    "partition": pa.array([each.partition for each in partitions], pa.int32()),
                    "log_start": pa.array([each.log_start for each in partitions], pa.int64()),
                    "complete_to": pa.array([each.complete_to for each in partitions], pa.int64()),
                }
            ),
            **({TAIL: tail.table()} if len(tail) else {}),
        }
        for name, table in registered.items():
            self._database.register(name, table)
        try:
            with self._bounded(deadline_s):
                found = self._database.execute(statement.sql, statement.parameters).fetchall()
        finally:
            for name in registered:
                self._database.unregister(name)
        names = [name for name, _ in selection.columns]
        is_time = [kind == "timestamp" for _, kind in row_columns(selection)][3:]
        return [
            Row(
                partition,
                offset,
                timestamp,
                {
                    name: from_micros(value) if micros else value
                    for name, value, micros in zip(names, values, is_time, strict=True)
                },
            )
            for partition, offset, timestamp, *values in found
        ]

    @contextmanager
    def _bounded(self, deadline_s: float) -> Iterator[None]:
        """Ends a statement at the deadline. Raises QueryTimedOut, QueryTooWide, SourceAway."""
        timed_out = QueryTimedOut(
            f"the query took longer than {self._limits.timeout_s:g} s; give a shorter time window, or a key"
        )
        left_s = deadline_s - self._monotonic_s()
        if left_s <= 0:
            raise timed_out
        alarm = threading.Timer(left_s, self._database.interrupt)
        alarm.start()
        try:
            yield
        except duckdb.InterruptException:
            raise timed_out from None
        except duckdb.OutOfMemoryException:
            raise QueryTooWide(
                f"the query is too wide: it needs more than {self._limits.memory_bytes} bytes of memory; give a shorter time "
                "window, or a smaller limit"
            ) from None
        except (duckdb.IOException, OSError) as error:
            raise SourceAway(
                f"a file of the index cannot be read, or was merged meanwhile; ask again: {str(error).splitlines()[0]}"
            ) from error
        finally:
            alarm.cancel()
            alarm.join()

    def _with_records(self, topic: str, rows: Sequence[Row], deadline_s: float) -> list[Row]:
        """Rows with their records, None where a record is gone; fewer rows where the records have too many bytes."""
        wanted: dict[int, list[int]] = {}
        for row in rows:
            wanted.setdefault(row.partition, []).append(row.offset)
        found: dict[tuple[int, int], LogRecord | None] = self._topics.fetch(
            topic,
            {partition: sorted(offsets) for partition, offsets in wanted.items()},
            bytes_max=self._limits.record_bytes_max,
            deadline_s=deadline_s,
        )
        first = (rows[0].partition, rows[0].offset)
        if first not in found:  # others took all bytes; one record is always read
            found |= self._topics.fetch(topic, {first[0]: [first[1]]}, bytes_max=1, deadline_s=deadline_s)
        whole: list[Row] = []
        for row in rows:
            if (row.partition, row.offset) not in found:
                break
            whole.append(replace(row, record=found[row.partition, row.offset]))
        return whole

    def _elapsed_ms(self, began_s: float) -> int:
        return round((self._monotonic_s() - began_s) * 1_000)


def _order_value(selection: Selection, row: Row) -> Value | None:
    if selection.order_column in row.fields:
        return row.fields[selection.order_column]
    return from_micros(row.timestamp_micros)


def _explanation(selection: Selection, stored: StoredTable, planned: PlannedFiles, tail_offsets: int) -> list[str]:
    estimate = planned.estimate
    direction = "from the greatest on" if selection.is_descending else "from the least on"
    return [
        f"where {' and '.join(shown(selection)) or 'anything'}",
        *keys_used(selection, layout_of(stored.definition)),
        f"reads at most {estimate.bytes} bytes ({estimate.rows} rows) of {estimate.files} of {estimate.files_total} files",
        f"reads {tail_offsets} offsets of the topic, which are not indexed yet",
        f"in the order of {selection.order_column}, {direction}, at most {selection.limit} rows",
    ]
