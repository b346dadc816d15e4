"""Opens, mends, seals and discards the segment files of one leader epoch; reports to the machine through `report`.

The appends themselves are on the hot path, in runtime.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

import structlog

from bmq.broker.context import BrokerContext
from bmq.broker.own_directory import OwnDirectory
from bmq.broker.own_segment import OwnSegment
from bmq.broker.partition_events import (
    RECOVERED,
    DirectoryReleased,
    Event,
    OwnershipLost,
    Segment,
    SegmentMended,
    SegmentOpened,
    SegmentOpenFailed,
    SegmentSealed,
    SegmentSealFailed,
)
from bmq.broker.partition_states import AcknowledgedDataLost
from bmq.broker.segment_size import first_segment_bytes, next_segment_bytes
from bmq.log.config import LogConfig
from bmq.log.names import PartitionPaths
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import ProducedBatch
from bmq.log.store import (
    AlreadyExists,
    FencedWriter,
    FileMissing,
    StorageFull,
    StorageUnavailable,
    StoreError,
    WriterBroken,
)

INDEX_LOOK_INTERVAL_S: Final = 0.25

_log = structlog.get_logger("bmq.broker")


class SegmentLifecycle:
    """`segments`: by roll, open or not sealed yet. `is_over` tells that the machine has come to its end.

    Each roll is created at most once. If that fails, its clean-up may be carried out late and would delete a new file
    of the same name, so the next try takes the next roll (rule 21). A skipped roll never holds a batch.
    """

    def __init__(
        self,
        context: BrokerContext,
        paths: PartitionPaths,
        directory: OwnDirectory,
        config: LogConfig,
        report: Callable[[Event], None],
        is_over: Callable[[], bool],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self.config = config
        self.segments: dict[int, OwnSegment] = {}
        self.files: PartitionFiles | None = None  # set once the log was walked, so before anything is written
        self._context = context
        self._store = context.store
        self._paths = paths
        self._directory = directory
        self._report = report
        self._is_over = is_over
        self._spawn = spawn
        self._discards: set[asyncio.Task[None]] = set()  # under way
        self._cuts_due: dict[int, int] = {}
        self._next_first_roll = 0
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_failing = False
        self._is_full = False  # the store had no room for the last segment we asked for

    async def verify_claim(self) -> None:
        """Rules 7 and 20: raises FencedWriter unless our directory is there, by a look that began now."""
        await self._directory.verify_claim()

    def abandon(self) -> None:
        """Let go of every writer; touch nothing in the store."""
        for segment in self.segments.values():
            segment.writer.abandon()
        self.segments.clear()

    async def open_first(self) -> None:
        """Open our first segment. Each call takes the next roll; `SegmentOpened` names the one that worked."""
        roll = self._next_first_roll
        self._next_first_roll += 1
        await self.open(roll)

    async def open(self, roll: int) -> None:
        """Create the segment's file, then look at our directory. Call it once per roll (rule 21).

        Raises StoreError when it did not work.
        """
        await self._record_cuts()
        durability, segment_bytes = self.config.durability, self._segment_bytes()
        try:
            writer = await self._store.create_segment(
                self._paths.segment(self._paths.leader_epoch, roll),
                holder=self._context.holder,
                durability=durability,
                segment_bytes=segment_bytes,
            )
        except StorageFull:
            self._is_full = True
            raise
        self._is_full = False
        loop = asyncio.get_running_loop()
        segment = OwnSegment(
            self._paths.leader_epoch,
            roll,
            writer,
            now_s=loop.time(),
            now_ms=self._context.clock.now_ms(),
            durability=durability,
            alignment_bytes=self._context.alignment_bytes(durability),
        )
        try:
            await self.verify_claim()
        except FencedWriter:
            writer.abandon()
            raise
        except StoreError:
            # We cannot tell whether it would count. It is empty, so remove it in the background.
            self.segments[roll] = segment
            self.throw_away(roll)
            raise
        except BaseException:
            writer.abandon()
            raise
        if self._is_over():
            writer.abandon()
            return
        self._is_failing = False
        self.segments[roll] = segment
        self._context.counts.rolls += 1
        self._report(SegmentOpened(roll, writer.replicas, segment_bytes))

    def _segment_bytes(self) -> int:
        """The size limit of the segment being opened."""
        config, first_bytes = self.config, self._context.settings.segment_first_bytes
        if not self._store.is_reserving:
            return config.segment_bytes
        written = [segment for segment in self.segments.values() if segment.first_append_s is not None]
        if not written or self._is_full:
            return first_segment_bytes(config, first_bytes)
        newest = max(written, key=lambda segment: segment.roll)
        assert newest.first_append_s is not None
        written_s = asyncio.get_running_loop().time() - newest.first_append_s
        return next_segment_bytes(config, first_bytes, newest.written_bytes, written_s)

    async def open_or_report(self, roll: int) -> None:
        """As `open`, but a failure is told to the machine, which decides when to try again."""
        try:
            await self.open(roll)
        except (FencedWriter, FileMissing):
            self._report(OwnershipLost())
        except StoreError as error:
            if not self._is_failing:  # log once per outage
                _log.warning("segment_not_opened", partition=self._paths.partition, roll=roll, reason=str(error))
            self._is_failing = True
            self._report(SegmentOpenFailed(roll, is_full=isinstance(error, StorageFull)))

    async def mend(self, segment: Segment, written: Iterable[ProducedBatch], *, is_full: bool) -> None:
        """Close a broken segment and find out what it holds (rules 7 and 9). Keeps trying; ends in an event."""
        with self._context.broken_closes.running():
            await self._mend(segment, tuple(written), is_full=is_full)

    async def _mend(self, segment: Segment, batches: tuple[ProducedBatch, ...], *, is_full: bool) -> None:
        own = self.segments[segment.roll]
        own.was_broken = True
        self._context.counts.mends += 1
        backoff = self._context.backoff()
        while not self._is_over():
            try:
                await self.verify_claim()
                if own.closed_bytes < 0:
                    own.closed_bytes = await own.writer.mend()
                valid_bytes, end_offset = own.valid_end(own.closed_bytes, batches)
                await self._settle_tail(own, valid_bytes, is_full=is_full)
                await self.verify_claim()
            except FencedWriter:
                self._report(OwnershipLost())
                return
            except StoreError as error:
                if backoff.failures == 0:
                    _log.warning("segment_not_recovered_yet", path=own.writer.path, reason=str(error))
                await backoff.pause()
                continue
            self._log_mended(own, valid_bytes)
            end_offset = segment.base_offset if end_offset is None else end_offset
            self._report(SegmentMended(segment.roll, end_offset, own.writer.replicas))
            return

    def _log_mended(self, own: OwnSegment, valid_bytes: int) -> None:
        path, replicas = own.writer.path, own.writer.replicas
        _log.warning(
            "segment_mended", path=path, valid_bytes=valid_bytes, closed_bytes=own.closed_bytes, replicas=replicas
        )

    async def _settle_tail(self, own: OwnSegment, valid_bytes: int, *, is_full: bool) -> None:
        """If a torn batch lies behind the last whole one, record that durably before anything follows it (rule 4)."""
        if own.closed_bytes <= valid_bytes:
            return
        if valid_bytes == 0:
            await self._store.delete(own.writer.path)
            return
        assert self.files is not None
        try:
            await self.files.record_cut(own.roll, valid_bytes)
        except StorageFull:
            if not is_full:
                raise
            # No space for the manifest either. The next `open` records the cut before it creates a segment.
            self._cuts_due[own.roll] = valid_bytes

    async def _record_cuts(self) -> None:
        while self._cuts_due:
            roll, valid_bytes = next(iter(self._cuts_due.items()))
            assert self.files is not None
            await self.files.record_cut(roll, valid_bytes)
            self._cuts_due.pop(roll, None)

    def end(self, roll: int) -> None:
        """Nothing more is written to this segment; called in the same step that decides it."""
        own = self.segments.get(roll)
        if own is None:
            return
        own.was_broken = own.was_broken or own.writer.is_broken
        if own.index is not None and self.files is not None:
            self.files.end_segment(roll)

    @property
    def is_closing_broken(self) -> bool:
        """Whether a segment with records is to be closed, and is open still on fewer nodes than acknowledged them."""
        return any(own.was_broken and own.closed_bytes < 0 and own.written_bytes for own in self.segments.values())

    async def seal(self, segment: Segment, end_offset: int) -> None:
        """Close it and make its index durable ("save checkpoint"). Keeps trying in the background; ends in an event."""
        own = self.segments[segment.roll]
        with self._context.broken_closes.running(own.was_broken):
            await self._save(segment.roll, own.writer.path, partial(self._close_and_index, own, end_offset))

    async def save_recovered(self) -> None:
        """Make the indexes that the start rebuilt durable. Keeps trying in the background; ends in an event.

        Not while other partitions start, for at most `index_wait_max_s`: an index costs as much of the store as a third of
        a start. But at once when it stops, or the first segment fills: the next one waits for the index (rule 4).
        """
        assert self.files is not None
        await self._wait_for_quiet()
        await self._save(RECOVERED, self._paths.own, self.files.save_rebuilt, self._leftover_turn)

    @asynccontextmanager
    async def _leftover_turn(self) -> AsyncIterator[None]:
        """Runs its body when few others write such indexes, or as soon as it is urgent.

        Around one try: a store that fails or hangs for some partitions must not keep others from their next segment.
        """
        starts = self._context.starts
        turn = asyncio.ensure_future(starts.leftovers.acquire())
        began_s = asyncio.get_running_loop().time()
        try:
            while not (turn.done() or self._is_over() or self._is_urgent()):
                either: set[asyncio.Future[Any]] = {turn, self._leaving}
                await asyncio.wait(either, timeout=INDEX_LOOK_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
            turn.cancel()  # nothing, if it is done
            began_s = asyncio.get_running_loop().time()
            yield
        finally:
            turn.cancel()
            if turn.done() and not turn.cancelled():
                starts.leftover_done(began_s)

    async def _wait_for_quiet(self) -> None:
        loop, starts = asyncio.get_running_loop(), self._context.starts
        until_s = loop.time() + self._context.settings.index_wait_max_s
        while not (starts.is_idle or self._is_over() or self._is_urgent() or loop.time() >= until_s):
            either = {starts.idle(), self._leaving}
            await asyncio.wait(either, timeout=INDEX_LOOK_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)

    def leave(self) -> None:
        """A planned stop has begun: do the delayed work now."""
        if not self._leaving.done():
            self._leaving.set_result(None)

    def _is_urgent(self) -> bool:
        """Whether the partition stops or rolls, or a segment has half of the size that a first one gets."""
        if self._leaving.done():
            return True
        half_bytes = first_segment_bytes(self.config, self._context.settings.segment_first_bytes) // 2
        return len(self.segments) != 1 or any(one.written_bytes >= half_bytes for one in self.segments.values())

    async def _save(
        self,
        roll: int,
        path: str,
        save: Callable[[], Awaitable[None]],
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Call `save` until it succeeds, each time in a `turn`. `path`: for log messages."""
        backoff = self._context.backoff()
        while not self._is_over():
            try:
                async with turn():
                    if self._is_over():
                        return
                    await save()
            except (FencedWriter, FileMissing):
                self._report(OwnershipLost())
                return
            except StoreError as error:
                if backoff.failures == 0:
                    _log.warning("checkpoint_not_saved_yet", path=path, reason=str(error))
                self._report(SegmentSealFailed(roll, is_full=isinstance(error, StorageFull)))
                await backoff.pause()
                continue
            self.segments.pop(roll, None)
            self._report(SegmentSealed(roll))
            return

    async def _close_and_index(self, own: OwnSegment, end_offset: int) -> None:
        assert self.files is not None
        if own.closed_bytes < 0:
            try:
                own.closed_bytes = await own.writer.close()
            except WriterBroken:
                await self.verify_claim()
                own.closed_bytes = await own.writer.mend()
                self._log_mended(own, own.valid_bytes)
                await self.verify_claim()
            if own.closed_bytes < own.valid_bytes:
                raise AcknowledgedDataLost(own.leader_epoch, -1, end_offset)
        await self.files.save_index(await self.files.seal_segment(own.roll, own.closed_bytes))

    def throw_away(self, roll: int) -> None:
        """As `discard`, in the background."""
        discard = self._spawn(self.discard(roll))
        self._discards.add(discard)
        discard.add_done_callback(self._discards.discard)

    async def discard(self, roll: int) -> None:
        """Remove a segment without a batch, open or not. Keeps trying while the store is away: an open file costs the
        nodes that hold it. A file left behind when we end is harmless."""
        own = self.segments.pop(roll, None)
        if own is not None:
            with self._context.broken_closes.running(own.was_broken):
                await self._discard(own)

    async def _discard(self, own: OwnSegment) -> None:
        if own.closed_bytes < 0:
            # If an open file is deleted, the NameNode counts its block as being written for minutes. So close it first.
            try:
                own.closed_bytes = await own.writer.close()
            except StoreError:
                own.writer.abandon()
        backoff = self._context.backoff()
        while not self._is_over():
            try:
                if not await self._store.delete(own.writer.path):
                    await self.verify_claim()
            except FencedWriter:
                self._report(OwnershipLost())
            except StorageUnavailable:
                await backoff.pause()
                continue
            except StoreError as error:
                _log.warning("empty_segment_not_removed", path=own.writer.path, reason=str(error))
            return

    async def release(self) -> None:
        """Seal our own directory. Keeps trying; ends in an event."""
        if self._discards:
            await asyncio.wait(self._discards)
        backoff = self._context.backoff()
        while not self._is_over():
            try:
                await self._store.rename(self._paths.own, self._paths.own_sealed)
            except (FileMissing, AlreadyExists):
                self._report(OwnershipLost())
                return
            except StoreError as error:
                if backoff.failures == 0:
                    _log.warning("directory_not_sealed_yet", path=self._paths.own, reason=str(error))
                await backoff.pause()
                continue
            self._report(DirectoryReleased())
            return
