"""Reads of views: the base's batches with only the records that pass the view's filter.

Filtering runs in a thread, one read at a time in a process. Results are cached by view and batch, so batches that many readers
fetch are filtered once. Results that are short compared to the base are cached by ranges of offsets too, and then the base is not
read again. Offsets without records that pass are sent as batches of nothing, so that positions move and lag reaches 0. After a read
that finds no record up to the end of the log the fetch goes on waiting, and its next look begins where the read ended
(`Interest.passed`).

Filters that the C kernel can evaluate run over whole steps (view_scan.py), and batches that pass as a whole are sent from where
they lie.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from cachetools import LRUCache

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import TopicImage
from bmq.protocol.compression import BadCompressedData, Buffer, UnknownCompression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.parts import MEMORY, Part
from bmq.protocol.record_batch import COMPRESSION_MASK, BatchHeader, CorruptRecords, batches
from bmq.proxy.batch_opener import RunAside
from bmq.proxy.catch_up import CatchUpResult, next_offset_of
from bmq.proxy.fetch_results import in_order, known_aborted
from bmq.proxy.fetch_session import Interest
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.filtered_batch_cache import ALL_PASS, AllPass, Filtered, FilteredBatchCache
from bmq.proxy.memory_reads import MemoryReads
from bmq.proxy.pending_read import PendingRead
from bmq.proxy.view_answer import Piece, ViewAnswer, ViewBatch
from bmq.proxy.view_ranges import (
    CachedPiece,
    RangeKey,
    UnfilteredRange,
    ViewRange,
    ViewRanges,
    cached_pieces_of,
    copied_bytes,
)
from bmq.proxy.view_scan import Asked, Found, ViewScan
from bmq.records.record_filter import CompiledFilter
from bmq.views.batch_filter import BatchFilter, EmptyRun, run_of
from bmq.views.filter_error import InvalidFilter
from bmq.views.view_filter import compiled

READ_BYTES_MAX: Final = 1024 * 1024
"""Bytes of the base that are read in one step; a single batch may be longer."""
SCAN_STEP_BYTES_MAX: Final = 8 * 1024 * 1024
"""As READ_BYTES_MAX, for a file that the C kernel filters; the first steps of a fetch are shorter."""
SCAN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most bytes of the base that are read for one partition of a fetch. Then the answer has the records found so far, or none."""
SCAN_S_MAX: Final = 0.25
"""Longest read for one partition of a fetch. A step that has begun is finished."""
FILTERED_AT_ONCE_BYTES_MAX: Final = 8 * 1024
"""Uncompressed batches with at most this many bytes together are filtered on the event loop."""
FAST_AT_ONCE_BYTES_MAX: Final = 256 * 1024
FAST_AT_ONCE_RECORDS_MAX: Final = 1_000
"""Most records that the C kernel filters on the event loop: some 0.1 ms."""
AT_ONCE_PARTITIONS_MAX: Final = 16
"""Most partitions of one fetch that are filtered on the event loop."""
SLICE_S: Final = 0.05
"""Longest turn of a filtering in the thread; then others have theirs."""
RANGE_SHARE_MAX: Final = 0.5
"""Ranges with more than this share of the base's bytes have a cache of their own, so that they do not replace shorter ones."""
FILTERS_MAX: Final = 1_000
"""Most compiled filters in memory."""
_Key = tuple[UUID, TopicPartition, int, int, int]
"""(view, partition of the base, a batch's base offset, checksum and size)."""


class ViewReads:
    """Reads views for all fetches of a process. `elapsed_s`: Clock.elapsed_s, for the age of files (rule 35)."""

    def __init__(
        self,
        reads: MemoryReads,
        remembered: FilteredBatchCache,
        config: FetchSettings,
        elapsed_s: Callable[[], float],
        run_aside: RunAside = asyncio.to_thread,
    ) -> None:
        self._reads = reads
        self._cursor_age_s = config.read_cursor_age_ms / 1000
        self._elapsed_s = elapsed_s
        self._run_aside = run_aside
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._scan: ViewScan | None = None  # used by the thread
        self._brief_scan = ViewScan()
        self._long = asyncio.Lock()
        self._filters: LRUCache[UUID, BatchFilter] = LRUCache(FILTERS_MAX)
        self._remembered = remembered
        self._ranges = ViewRanges(config.view_cache_bytes_max // 2)
        self._long_ranges = ViewRanges(config.view_cache_bytes_max // 4)

    @property
    def remembered_bytes(self) -> int:
        return self._remembered.used_bytes + self._ranges.used_bytes + self._long_ranges.used_bytes

    async def read(
        self, pending: PendingRead, *, is_read_committed: bool
    ) -> tuple[CatchUpResult, Sequence[tuple[int, int]] | None] | None:
        """Read as StoredReads.read does. Sets the interest's `passed` if there is no record up to the bound, else clears it."""
        interest, log, bound_offset = pending.interest, pending.log, pending.bound_offset
        view = interest.view
        limit = pending.length_bytes_max
        assert view is not None and limit is not None
        began_s, deadline_s = self._elapsed_s(), self._loop.time() + SCAN_S_MAX
        answer = ViewAnswer(interest.passed, interest.fetch_offset)
        begin_offset, scanned_bytes, step_bytes_max = answer.next_offset, 0, READ_BYTES_MAX
        while answer.next_offset < bound_offset and not answer.is_full:
            is_over = scanned_bytes >= SCAN_BYTES_MAX or self._loop.time() >= deadline_s
            if is_over and answer.next_offset > begin_offset:
                answer.is_cut = True
                break
            before_offset = answer.next_offset
            try:
                pieces: Iterable[Piece | CachedPiece]
                known = await self._known(view, log, before_offset)
                if known is None:
                    pieces, step_bytes = await self._step(view, log, before_offset, bound_offset, step_bytes_max)
                    scanned_bytes += step_bytes
                    step_bytes_max = min(2 * step_bytes_max, SCAN_STEP_BYTES_MAX)
                else:
                    pieces = known.shown(before_offset, bound_offset)
                for piece in pieces:
                    if isinstance(piece, UnfilteredRange):
                        await self._read_base(log, piece.next_offset, answer, limit)
                        break
                    if not answer.add(piece, limit):
                        break
            except BmqError:
                if not answer.parts and not answer.size_bytes:
                    raise
                answer.is_cut = True  # the next fetch begins where this answer ends, and meets the error
                break
            if answer.next_offset == before_offset:
                break
        interest.passed = None if answer.parts or answer.is_cut else answer.run
        views = answer.finished()
        if not is_read_committed:
            return CatchUpResult(views, answer.next_offset), None
        aborted = known_aborted(log, interest.fetch_offset, answer.next_offset)
        if aborted is None:
            aborted = in_order(await log.find_aborted_transactions(interest.fetch_offset, answer.next_offset))
        if self._elapsed_s() - began_s > self._cursor_age_s:
            return None  # as in StoredReads
        if interest.fetch_offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {interest.fetch_offset} was deleted meanwhile")
        return CatchUpResult(views, answer.next_offset), aborted

    def read_at_once(
        self,
        interest: Interest,
        log: PartitionLog,
        limit: int,
        bound_offset: int,
        place: int,
        *,
        is_read_committed: bool,
    ) -> tuple[Sequence[Part], Sequence[tuple[int, int]] | None] | None:
        """Read without a task: from the cache, and the end of the log by the C kernel. None if the read needs a task.

        `place`: the partition's place in its fetch.
        """
        view = interest.view
        assert view is not None
        batch_filter = self._filters.get(view.topic_id)
        if batch_filter is None or batch_filter.passing is None or place >= AT_ONCE_PARTITIONS_MAX:
            return None
        answer = ViewAnswer(interest.passed, interest.fetch_offset)
        if answer.next_offset < bound_offset:
            pieces = self._pieces_at_once(view, batch_filter.passing, log, answer.next_offset, bound_offset)
            for piece in pieces:
                if isinstance(piece, UnfilteredRange):
                    return None
                if not answer.add(piece, limit):
                    break
        if answer.next_offset < bound_offset and not answer.is_full:
            return None
        aborted = known_aborted(log, interest.fetch_offset, answer.next_offset) if is_read_committed else None
        if is_read_committed and aborted is None:
            return None
        interest.passed = None if answer.parts else answer.run
        return answer.finished(), aborted

    def _pieces_at_once(
        self, view: TopicImage, passing: CompiledFilter, log: PartitionLog, offset: int, bound_offset: int
    ) -> Iterable[Piece | CachedPiece]:
        """The pieces from `offset` on that need no task; none if the read needs one."""
        now_s = self._elapsed_s()
        for ranges in (self._ranges, self._long_ranges):
            known = ranges.find(_range_key(view, log), offset)
            if known is not None:
                is_sure = now_s - known.asked_s <= self._cursor_age_s and log.compacted_offset <= known.base_offset
                return known.shown(offset, bound_offset) if is_sure else ()
        tail = log.tail_read(offset, self._reads.limit(READ_BYTES_MAX), bound_offset)
        if not tail or not _is_brief(tail, FAST_AT_ONCE_BYTES_MAX):
            return ()
        try:
            found = self._brief_scan.in_memory(passing, tail, offset)
        except CorruptRecords:
            return ()  # `read` reports the error
        pieces = [one for one in found if not isinstance(one, Asked)]
        if len(pieces) < len(found):
            return ()
        first_offset = min(offset, _base_offset_of(found[0], offset)) if found else offset
        if pieces and log.compacted_offset <= first_offset:
            self._remember(_range_key(view, log), first_offset, pieces, sum(map(len, tail)), now_s)
        return pieces

    async def _known(self, view: TopicImage, log: PartitionLog, offset: int) -> ViewRange | None:
        """A cached range that has the offset, unless the log was compacted since. After a while the log is asked again."""
        key = _range_key(view, log)
        for ranges in (self._ranges, self._long_ranges):
            known = ranges.find(key, offset)
            if known is None:
                continue
            now_s = self._elapsed_s()
            if now_s - known.asked_s > self._cursor_age_s:
                await log.locate(offset)  # by this call the log of another owner learns how far it is compacted
                known = ranges.find(key, offset)
                if known is None:
                    continue
                known.asked_s = now_s
            if log.compacted_offset > known.base_offset:
                ranges.drop(key, known)
                continue
            return known
        return None

    async def _read_base(self, log: PartitionLog, end_offset: int, answer: ViewAnswer, limit: int) -> None:
        """Add batches of the base up to `end_offset`, all of whose records pass."""
        offset, room_bytes = answer.next_offset, self._reads.limit(max(1, limit - answer.size_bytes))
        tail = log.tail_read(offset, room_bytes, end_offset)
        if tail is None:
            found = await self._reads.read_parts(log, offset, room_bytes, end_offset)
        else:
            found = CatchUpResult(tail, next_offset_of(tail) if tail else offset)
        if found.views:
            answer.add_base(found.views, found.next_offset, limit)

    async def _step(
        self, view: TopicImage, log: PartitionLog, offset: int, bound_offset: int, bytes_max: int
    ) -> tuple[Iterable[Piece], int]:
        """(what the view shows of some batches of the base from the one with `offset` on, how many bytes these batches have)."""
        asked_s = self._elapsed_s()
        with _answered(view):
            batch_filter = self._filters.get(view.topic_id)
            if batch_filter is None:
                async with self._turn:
                    batch_filter = self._filters.get(view.topic_id)
                    if batch_filter is None:
                        batch_filter = await self._run_aside(lambda: self._filter_of(view))
            assert batch_filter is not None
            limit = READ_BYTES_MAX if batch_filter.passing is None else bytes_max
            read = await self._read(log, offset, bound_offset, limit, to_memory=batch_filter.passing is None)
            size_bytes = sum(map(len, read))
            if batch_filter.passing is not None:
                found = await self._scanned(batch_filter.passing, read, offset)
            else:
                data = _joined([part for part in read if isinstance(part, memoryview)])
                found = [
                    Asked(data[at : at + one.size_bytes], one) for at, one in batches(data) if one.last_offset >= offset
                ]
            pieces = await self._pieces(view, log.topic_partition, found)
        if pieces:
            first_offset = min(offset, _base_offset_of(found[0], offset))
            if log.compacted_offset <= first_offset:
                self._remember(_range_key(view, log), first_offset, pieces, size_bytes, asked_s)
        return pieces, size_bytes

    async def _scanned(self, passing: CompiledFilter, read: Sequence[Part], offset: int) -> list[Found]:
        """Filter by the C kernel, on the event loop if that is brief, else in the thread."""
        views = [part for part in read if isinstance(part, memoryview)]
        if len(views) == len(read):
            if _is_brief(views, FAST_AT_ONCE_BYTES_MAX):
                return self._brief_scan.in_memory(passing, views, offset)
            return await self._scan_aside(lambda scan: scan.in_memory(passing, views, offset))
        (part,) = (part for part in read if not isinstance(part, MEMORY))
        return await self._scan_aside(lambda scan: scan.in_file(passing, part, offset))

    async def _scan_aside(self, work: Callable[[ViewScan], list[Found]]) -> list[Found]:
        async with self._turn:
            scan, self._scan = self._scan or ViewScan(), None
            found: list[Found] = await self._run_aside(lambda: work(scan))
            self._scan = scan  # the thread may use the memory even after this was cancelled
            return found

    async def _pieces(self, view: TopicImage, base: TopicPartition, found: Sequence[Found]) -> list[Piece]:
        """The pieces, with batches that the kernel has not opened filtered here. Results of these are cached by batch."""

        def key_of(header: BatchHeader) -> _Key:
            return view.topic_id, base, header.base_offset, header.crc, header.size_bytes

        asked = {key_of(one.header): one for one in found if isinstance(one, Asked)}
        filtered = {key: known for key in asked if (known := self._remembered.get(key)) is not None}
        missing = [(key, one) for key, one in asked.items() if key not in filtered]
        if missing:
            news = await self._filter(view, base.partition, missing)
            filtered |= news
            for key, done in news.items():
                self._remembered.put(key, done)
        return [_piece(one, filtered[key_of(one.header)]) if isinstance(one, Asked) else one for one in found]

    def _remember(
        self, key: RangeKey, first_offset: int, pieces: Sequence[Piece], base_bytes: int, asked_s: float
    ) -> None:
        known = cached_pieces_of(pieces, first_offset)
        ranges = self._ranges if copied_bytes(known) <= base_bytes * RANGE_SHARE_MAX else self._long_ranges
        ranges.put(key, ViewRange(first_offset, known, asked_s))

    async def _filter(
        self, view: TopicImage, partition: int, missing: Sequence[tuple[_Key, Asked]]
    ) -> dict[_Key, Filtered]:
        job = _Filtering(self._filter_of(view), partition, missing)
        if not self._turn.locked() and _are_brief([one.header for _, one in missing], FILTERED_AT_ONCE_BYTES_MAX):
            job.work(lambda: False)
            return job.results
        async with self._turn:
            is_done = await self._slice(job)
        if is_done:
            return job.results
        # A long filtering goes on in slices, so that others have their turns. One runs at a time, as its batch is in memory.
        if self._long.locked():
            job.rewind()
        async with self._long:
            while not is_done:
                async with self._turn:
                    is_done = await self._slice(job)
        return job.results

    async def _slice(self, job: _Filtering) -> bool:
        """Continue a job in the thread for about SLICE_S. Returns whether it is done."""
        job.take(self._remembered)  # another reader may have filtered some batches while this one waited
        if job.is_done:
            return True
        end_s = self._elapsed_s() + SLICE_S
        await self._run_aside(lambda: job.work(lambda: self._elapsed_s() >= end_s))
        return job.is_done

    def _filter_of(self, view: TopicImage) -> BatchFilter:
        """The view's compiled filter, from the cache or compiled now. Raises InvalidFilter."""
        assert view.view is not None
        batch_filter = self._filters.get(view.topic_id)
        if batch_filter is None:
            batch_filter = self._filters[view.topic_id] = BatchFilter(compiled(view.view.filter))
        return batch_filter

    async def _read(
        self, log: PartitionLog, offset: int, bound_offset: int, bytes_max: int, *, to_memory: bool
    ) -> Sequence[Part]:
        """Whole batches of the base, in memory or as one part of a file. Reads far behind the end wait for their turn."""
        limit = self._reads.limit(READ_BYTES_MAX)
        tail = log.tail_read(offset, limit, bound_offset)
        if tail is not None:
            return tail
        if to_memory:
            return (_joined(await self._reads.read(log, offset, limit, bound_offset)),)
        found = await self._reads.read_parts(
            log, offset, self._reads.limit(bytes_max), bound_offset, memory_bytes_max=limit
        )
        views = [part for part in found.views if isinstance(part, memoryview)]
        return (_joined(views),) if views else found.views


class _Filtering:
    """A job: some batches that are filtered one after the other."""

    def __init__(self, batch_filter: BatchFilter, partition: int, batches: Sequence[tuple[_Key, Asked]]) -> None:
        self.results: dict[_Key, Filtered] = {}
        self._filter = batch_filter
        self._partition = partition
        self._left = list(reversed(batches))
        self._steps: Generator[None, None, Buffer | None] | None = None

    def take(self, known: FilteredBatchCache) -> None:
        """Skip batches whose results are in the cache."""
        found = {key: done for key, _ in self._left if (done := known.get(key)) is not None}
        if not found:
            return
        self.results |= found
        if self._left[-1][0] in found:
            self._steps = None
        self._left = [one for one in self._left if one[0] not in found]

    @property
    def is_done(self) -> bool:
        return not self._left

    def work(self, is_over: Callable[[], bool]) -> None:
        """Continue until all batches are done, or `is_over` returns True after a step. Raises as BatchFilter.filtered does."""
        while self._left:
            key, (batch, header) = self._left[-1]
            if self._steps is None:
                self._steps = self._filter.steps(batch, header, self._partition)
            try:
                next(self._steps)
            except StopIteration as end:
                self._steps = None
                self._left.pop()
                self.results[key] = ALL_PASS if end.value is None else end.value
            _let_others_run()
            if is_over():
                break

    def rewind(self) -> None:
        """Go back to the beginning of the batch that is under way, and free its memory."""
        self._steps = None


def _range_key(view: TopicImage, log: PartitionLog) -> RangeKey:
    return view.topic_id, log.topic_partition, log.leader_epoch


def _piece(asked: Asked, filtered: Filtered) -> Piece:
    if isinstance(filtered, AllPass):
        return ViewBatch(asked.data, asked.next_offset, is_whole=True)
    return ViewBatch(filtered, asked.next_offset) if filtered else run_of(asked.header)


def _joined(views: Sequence[memoryview]) -> memoryview:
    return views[0] if len(views) == 1 else memoryview(b"".join(views))


def _base_offset_of(found: Found, offset: int) -> int:
    """The first offset of `found`, which is at or before `offset`."""
    if isinstance(found, EmptyRun):
        return found.base_offset
    return found.header.base_offset if isinstance(found, Asked) else offset


def _is_brief(views: Sequence[memoryview], bytes_max: int) -> bool:
    if sum(map(len, views)) > bytes_max:
        return False
    try:
        return _are_brief([header for data in views for _, header in batches(data)], bytes_max)
    except CorruptRecords:
        return True  # the scan reports the error


def _are_brief(headers: Sequence[BatchHeader], bytes_max: int) -> bool:
    """Whether the batches are short enough to be filtered on the event loop."""
    return (
        sum(header.size_bytes for header in headers) <= bytes_max
        and sum(header.record_count for header in headers) <= FAST_AT_ONCE_RECORDS_MAX
        and all(header.attributes & COMPRESSION_MASK == 0 for header in headers)
    )


@contextmanager
def _answered(view: TopicImage) -> Iterator[None]:
    """Turn errors of a filter, or of the base, into KafkaError."""
    try:
        yield
    except (CorruptRecords, BadCompressedData, UnknownCompression) as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"view {view.name}: records that cannot be filtered: {error}"
        ) from error
    except InvalidFilter as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"view {view.name}: {error}") from error
    except OSError as error:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"view {view.name}: its base cannot be read: {error}"
        ) from error


def _let_others_run() -> None:
    """Let the event loop take the interpreter's lock."""
    time.sleep(0)
