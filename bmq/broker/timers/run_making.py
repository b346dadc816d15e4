"""Makes runs: out of what is held in a part of the log, and out of other runs. Nothing names them yet."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from bmq.broker.log_reads import LogReads
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.timers.run_sink import RunSink
from bmq.log.store import CorruptFile
from bmq.log.timers.announcements import Held, Position
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.replay import Announced, PairFinder
from bmq.log.timers.run_merging import merged
from bmq.log.timers.run_reader import RunReader
from bmq.log.timers.run_reference import RunReference
from bmq.log.timers.run_tiers import file_bytes_of, tier_of_merged
from bmq.protocol.record_batch import batches

READ_BYTES: Final = 256 * 1024
SORTED_BYTES_MAX: Final = 16 * 1024 * 1024
"""So many bytes of records are sorted in memory for one run; each counts RECORD_BYTES more than its body."""
SORTED_COUNT_MAX: Final = 20_000
"""So many records at most: they are sorted in one turn of the event loop, some 10 ms."""
RECORD_BYTES: Final = 200
TURN_RECORDS: Final = 200
"""Parsed or written in one turn of the event loop: some 1 ms."""


class MadeRuns:
    """`runs`: new ones, of the same records as `replaced`, or of what was held in the log, where cancellations named `cancelled`."""

    def __init__(self, replaced: Sequence[RunReference] = ()) -> None:
        self.runs: list[RunReference] = []
        self.replaced = tuple(replaced)
        self.cancelled: set[Position] = set()
        self._chunks: list[tuple[array[int], array[int]]] = []  # due times and names of the records in each run

    def write(self, records: Sequence[Position]) -> None:
        """These records, in order, were written from the log to one run."""
        self._chunks.append(
            (array("q", (place.due_ms for place in records)), array("q", (place.offset for place in records)))
        )

    def pending_count(self, position: Position, cancelled: Iterable[Position]) -> int:
        """How many of the records that were written from the log are pending. `cancelled`: what was cancelled since then."""
        above = sum(len(chunk[0]) - _index_behind(chunk, position) for chunk in self._chunks)
        gone = {place for place in (*cancelled, *self.cancelled) if place > position}
        return above - sum(any(_has(chunk, place) for chunk in self._chunks) for place in gone)


def _index_behind(chunk: tuple[array[int], array[int]], place: Position) -> int:
    dues_ms, offsets = chunk
    return bisect_right(range(len(dues_ms)), place, key=lambda index: Position(dues_ms[index], offsets[index]))


def _has(chunk: tuple[array[int], array[int]], place: Position) -> bool:
    index = _index_behind(chunk, place) - 1
    return index >= 0 and (chunk[0][index], chunk[1][index]) == place


class RunMaking:
    """For one partition. `position`: how far deliveries have come, durably; what is not above it is left out."""

    def __init__(
        self, partition: OwnedPartition, reads: LogReads, numbers: Iterator[int], position: Callable[[], Position]
    ) -> None:
        self._partition = partition
        self._reads = reads
        self._numbers = numbers
        self._position = position

    async def from_log(self, from_offset: int, to_offset: int) -> MadeRuns:
        """Write what is held at the offsets [from_offset, to_offset). Raises BmqError, StoreError: then nothing is left of it."""
        made = MadeRuns()
        records: dict[Position, DueRecord] = {}
        size_bytes = 0
        try:
            async with aclosing(self._held(from_offset, to_offset)) as held:
                async for record in held:
                    place = Position(record.due_ms, record.offset)
                    if record.is_cancellation:
                        made.cancelled.add(place)
                        if place in records and not records[place].is_cancellation:
                            del records[place]
                            continue
                    records[place] = record
                    size_bytes += len(record.body) + RECORD_BYTES
                    if size_bytes >= SORTED_BYTES_MAX or len(records) >= SORTED_COUNT_MAX:
                        await self._write_sorted(made, records, size_bytes, to_offset)
                        records, size_bytes = {}, 0
            if records:
                await self._write_sorted(made, records, size_bytes, to_offset)
        except BaseException:
            self.remove(made.runs)
            raise
        return made

    async def merge(self, replaced: Sequence[RunReference]) -> MadeRuns:
        """Write the records of other runs. Raises as `from_log`."""
        made = MadeRuns(replaced)
        tier = tier_of_merged(replaced)
        end_offset = max(run.end_offset for run in replaced)
        length_bytes = file_bytes_of(tier)
        sink: RunSink | None = None
        written = 0
        try:
            async with aclosing(merged(map(self._reader, replaced), self._position())) as records:
                async for record in records:
                    written += 1
                    if not written % TURN_RECORDS:
                        await asyncio.sleep(0)
                    if sink is None:
                        sink = await self._sink(length_bytes)
                    await sink.add(record)
                    if sink.size_bytes >= length_bytes:
                        made.runs.append(await sink.finish(tier, end_offset))
                        sink = None
            if sink is not None:
                made.runs.append(await sink.finish(tier, end_offset))
        except BaseException as error:
            if sink is not None:
                await _let_go(sink, error)
            self.remove(made.runs)
            raise
        return made

    async def _held(self, from_offset: int, to_offset: int) -> AsyncGenerator[DueRecord, None]:
        """In the order of the log."""
        pairs, offset, seen = PairFinder(), from_offset, 0
        while offset < to_offset:
            chunk = await self._reads.read(offset, READ_BYTES)
            if chunk is None:
                raise CorruptFile(f"the log ends before offset {to_offset}")
            for place, header in batches(chunk.data):
                offset = header.end_offset
                if header.base_offset >= to_offset:
                    break
                found = pairs.see(chunk.data, place, header)
                if found is None:
                    continue
                for record in self._pending_of(found):
                    yield record
                    seen += 1
                    if not seen % TURN_RECORDS:
                        await asyncio.sleep(0)
            await asyncio.sleep(0)

    def _pending_of(self, found: Announced) -> Iterator[DueRecord]:
        announcement, position = found.announcement, self._position()
        if not isinstance(announcement, Held):
            return
        for entry in announcement.entries:
            offset = found.base_offset + entry.offset_delta
            if (entry.due_ms, offset) > position:
                record = announcement.record(entry.offset_delta)
                yield DueRecord(offset, record.due_ms, record.timestamp_ms, bytes(record.body))
        for cancel in announcement.cancels:
            if cancel.target > position:
                yield DueRecord(cancel.target.offset, cancel.target.due_ms, -1, b"", is_cancellation=True)

    async def _write_sorted(
        self, made: MadeRuns, records: dict[Position, DueRecord], size_bytes: int, end_offset: int
    ) -> None:
        sink = await self._sink(size_bytes)
        places = sorted(records)
        try:
            for number, place in enumerate(places):
                await sink.add(records[place])
                if not number % TURN_RECORDS:
                    await asyncio.sleep(0)
            run = await sink.finish(0, end_offset)
        except BaseException as error:
            await _let_go(sink, error)
            raise
        made.runs.append(run)
        made.write([place for place in places if not records[place].is_cancellation])

    def _reader(self, run: RunReference) -> RunReader:
        paths = self._partition.paths
        return RunReader(self._partition.context.store, paths.run(run.leader_epoch, run.number), run)

    async def _sink(self, length_bytes: int) -> RunSink:
        return await RunSink.create(self._partition, next(self._numbers), length_bytes)

    def remove(self, runs: Sequence[RunReference]) -> None:
        """Delete these, of which no manifest was ever told."""
        paths = self._partition.paths
        self._partition.context.trash.put((paths.run(run.leader_epoch, run.number) for run in runs), 0)


async def _let_go(sink: RunSink, error: BaseException) -> None:
    if isinstance(error, Exception):
        await sink.discard()
    else:  # the partition has ended: touch nothing in the store
        sink.abandon()
