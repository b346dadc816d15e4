"""The stream: offsets for Spark's checkpoint, and the same rows again whenever a batch is repeated.

The only state beside Spark's own offsets is the query's position, for Spark 4.0 and 4.1, which do not pass it when they
ask for the latest offset; on a restart they plan the last batch first. Until then no limit applies, or an end below the
checkpoint could result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bmq.spark.source import read_limits
from bmq.spark.source.options import ReadOptions
from bmq.spark.source.read import require_no_loss
from bmq.spark.source.session import Session
from bmq.spark.source.stream_offset import StreamOffset, advance, is_same, limited, no_further
from bmq.spark.source.task import rows, tasks
from bmq.spark.source.worker import prepare_worker


class BmqStreamReader(DataSourceStreamReader, read_limits.AvailableNow):
    """One on a query's driver and one in each task; only the driver's is asked for offsets."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._initial: StreamOffset | None = None
        self._seen: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._newest: StreamOffset | None = None
        prepare_worker()

    # --- offsets

    def initialOffset(self) -> dict[str, Any]:
        """Raises BadOption, UnknownTopic, ClusterAway."""

        async def found() -> StreamOffset:
            async with Session.opened(self._options) as session:
                return await self._find_initial(session)

        return (self._initial or asyncio.run(found())).to_json()

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Spark before 4.2 passes neither argument. Raises DataLoss and as above."""
        end = asyncio.run(self._latest(None if start is None else StreamOffset.from_json(start), limit))
        return dict(start) if end is None and start is not None else (end or self._known()).to_json()

    def getDefaultReadLimit(self) -> Any:
        return read_limits.default(self._options.offsets_per_trigger, self._options.bytes_per_trigger)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._newest is None else self._newest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        async def found() -> StreamOffset:
            async with self._resumed() as session:
                cluster = await session.cluster()
            return StreamOffset(cluster.latest, cluster.earliest, cluster.topic_ids)

        self._target = asyncio.run(found())

    # --- batches

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Raises ForeignCheckpoint, DataLoss, StoreUnreadable, PlanFailed, ClusterAway."""
        begins, ends = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._seen = ends
        if not begins.is_initial and is_same(begins, ends):
            return []
        return asyncio.run(self._plan(begins, ends))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows(partition)

    def _resumed(self) -> AbstractAsyncContextManager[Session]:
        """For a query that has begun: topics deleted since are lost records, no misspelled names."""
        return Session.opened(self._options, may_lack=not self._options.fail_on_data_loss)

    async def _plan(self, begins: StreamOffset, ends: StreamOffset) -> list[InputPartition]:
        async with self._resumed() as session:
            ranges, access = await session.plan(await session.stream_ranges(begins, ends))
        return tasks(ranges, access, self._options.columns)

    # --- how far

    async def _find_initial(self, session: Session) -> StreamOffset:
        if self._initial is None:
            options = self._options
            found = await session.resolve(
                options.starting, "startingOffsets", is_latest_without_match=options.is_latest_without_match
            )
            ids = {topic: str(topic_id) for topic, topic_id in session.topic_ids.items()}
            self._initial = StreamOffset(found, found, ids, is_initial=True)
        return self._initial

    async def _latest(self, start: StreamOffset | None, limit: object) -> StreamOffset | None:
        """None: nothing is new."""
        options = self._options
        known = start or self._seen
        has_begun = known is not None and not known.is_initial
        async with self._resumed() if has_begun else Session.opened(options) as session:
            seen = known or await self._find_initial(session)
            is_limited = (start is not None or self._seen is not None) and not read_limits.is_all(limit)
            advanced = advance(seen, await session.cluster())
            for sentence in advanced.losses:
                require_no_loss(sentence, options.fail_on_data_loss)
            end = self._newest = advanced.end
            if self._target is not None:
                end = no_further(end, self._target)
            if is_limited and options.offsets_per_trigger is not None:
                end = limited(seen, end, options.offsets_per_trigger)
            if is_limited and options.bytes_per_trigger is not None:
                end = await session.within_bytes(seen, end, options.bytes_per_trigger)
        # The first batch is made even if empty: its end records where the query began.
        return None if is_same(seen, end) and not seen.is_initial else end

    def _known(self) -> StreamOffset:
        if self._seen is None:
            raise AssertionError("nothing is new in a query that has not begun")
        return self._seen
