"""Writes runs, from the held records of a part of the log or from other runs. No manifest names them yet."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from bmq.broker.log_reads import LogReads
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.timers.run_file_writer import RunFileWriter
from bmq.log.store import CorruptFile
from bmq.log.timers.announcements import Held, Position
from bmq.log.timers.replay import AnnouncementFinder
from bmq.log.timers.row_merging import merged_blocks
from bmq.log.timers.run_draft import RunDraft
from bmq.log.timers.run_reader import RunReader
from bmq.log.timers.run_reference import RunReference
from bmq.log.timers.run_tiers import file_bytes_of, tier_of_merged
from bmq.protocol.record_batch import batches

READ_BYTES: Final = 256 * 1024
SORTED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Memory for the records that are sorted for one run."""
SORTED_COUNT_MAX: Final = 50_000
"""Most records that are sorted for one run, in one turn of the event loop: it takes some 5 ms in the kernel."""


class NewRuns:
    """New `runs`: with the records of the runs `replaced`, or (if that is empty) with records held in the log.

    `cancelled`: places that cancellations in that part of the log name.
    """

    def __init__(self, replaced: Sequence[RunReference] = ()) -> None:
        self.runs: list[RunReference] = []
        self.replaced = tuple(replaced)
        self.cancelled: set[Position] = set()
        self._chunks: list[tuple[array[int], array[int]]] = []  # due times and names of the records in each run

    def write(self, dues_ms: array[int], names: array[int]) -> None:
        """Note that records with these due times and names were written from the log to one run, in order."""
        self._chunks.append((dues_ms, names))

    def pending_count(self, position: Position, cancelled: Iterable[Position]) -> int:
        """How many of the records written from the log are pending: above `position`, and not cancelled.

        `cancelled`: places that waiting cancellations name, beside those found in the log.
        """
        above = sum(len(chunk[0]) - _index_behind(chunk, position) for chunk in self._chunks)
        gone = {place for place in (*cancelled, *self.cancelled) if place > position}
        return above - sum(any(_has(chunk, place) for chunk in self._chunks) for place in gone)


def _index_behind(chunk: tuple[array[int], array[int]], place: Position) -> int:
    dues_ms, offsets = chunk
    return bisect_right(range(len(dues_ms)), place, key=lambda index: Position(dues_ms[index], offsets[index]))


def _has(chunk: tuple[array[int], array[int]], place: Position) -> bool:
    index = _index_behind(chunk, place) - 1
    return index >= 0 and (chunk[0][index], chunk[1][index]) == place


class RunBuilder:
    """Writes runs of one partition. `position` returns how far durable deliveries have come; records up to it are left out."""

    def __init__(
        self, partition: OwnedPartition, reads: LogReads, numbers: Iterator[int], position: Callable[[], Position]
    ) -> None:
        self._partition = partition
        self._reads = reads
        self._numbers = numbers
        self._position = position

    async def from_log(self, from_offset: int, to_offset: int) -> NewRuns:
        """Write the records held at [from_offset, to_offset). Raises BmqError, StoreError; the new files are removed then."""
        new, draft = NewRuns(), RunDraft()
        try:
            async with aclosing(self._held(from_offset, to_offset)) as held:
                async for found, base_offset in held:
                    draft.add(found, base_offset, self._position())
                    if draft.size_bytes >= SORTED_BYTES_MAX or len(draft) >= SORTED_COUNT_MAX:
                        await self._write(new, draft, to_offset)
                        draft = RunDraft()
            await self._write(new, draft, to_offset)
        except BaseException:
            self.remove(new.runs)
            raise
        return new

    async def merge(self, replaced: Sequence[RunReference]) -> NewRuns:
        """Write the records of the runs `replaced` to new ones. Raises as `from_log` does."""
        new = NewRuns(replaced)
        tier = tier_of_merged(replaced)
        end_offset = max(run.end_offset for run in replaced)
        length_bytes = file_bytes_of(tier)
        writer: RunFileWriter | None = None
        try:
            async with aclosing(merged_blocks(map(self._reader, replaced), self._position())) as blocks:
                async for block in blocks:
                    await asyncio.sleep(0)
                    if writer is None:
                        writer = await self._create_file(length_bytes)
                    await writer.add_block(block)
                    if writer.size_bytes >= length_bytes:
                        new.runs.append(await writer.finish(tier, end_offset))
                        writer = None
            if writer is not None:
                new.runs.append(await writer.finish(tier, end_offset))
        except BaseException as error:
            if writer is not None:
                await _discard_or_abandon(writer, error)
            self.remove(new.runs)
            raise
        return new

    async def _held(self, from_offset: int, to_offset: int) -> AsyncGenerator[tuple[Held, int], None]:
        """The valid announcements of held records, in log order, each with the base offset of the batch behind it."""
        announcements, offset = AnnouncementFinder(), from_offset
        while offset < to_offset:
            chunk = await self._reads.read(offset, READ_BYTES)
            if chunk is None:
                raise CorruptFile(f"the log ends before offset {to_offset}")
            for place, header in batches(chunk.data):
                offset = header.end_offset
                if header.base_offset >= to_offset:
                    break
                found = announcements.add_batch(chunk.data, place, header)
                if found is not None and isinstance(found.announcement, Held):
                    yield found.announcement, found.base_offset
            await asyncio.sleep(0)

    async def _write(self, new: NewRuns, draft: RunDraft, end_offset: int) -> None:
        """Write the draft's records to one run; none if the draft has no records."""
        new.cancelled |= draft.cancelled
        draft.sort()
        if not draft.row_count:
            return
        writer = await self._create_file(draft.size_bytes)
        try:
            for block in draft.blocks():
                await writer.add_block(block)
            run = await writer.finish(0, end_offset)
        except BaseException as error:
            await _discard_or_abandon(writer, error)
            raise
        new.runs.append(run)
        new.write(*draft.places)

    def _reader(self, run: RunReference) -> RunReader:
        paths = self._partition.paths
        return RunReader(self._partition.context.store, paths.run(run.leader_epoch, run.number), run)

    async def _create_file(self, length_bytes: int) -> RunFileWriter:
        return await RunFileWriter.create(self._partition, next(self._numbers), length_bytes)

    def remove(self, runs: Sequence[RunReference]) -> None:
        """Delete these runs, which no manifest ever named."""
        paths = self._partition.paths
        self._partition.context.deferred_deletes.put((paths.run(run.leader_epoch, run.number) for run in runs), 0)


async def _discard_or_abandon(writer: RunFileWriter, error: BaseException) -> None:
    if isinstance(error, Exception):
        await writer.discard()
    else:  # the task was cancelled because the partition has ended: touch nothing in the store
        writer.abandon()
