"""Reads of views: the base's batches with only the records that pass the view's filter.

Filtering takes a thread, one read at a time in a process, and its results are remembered by view and batch: what many readers
fetch is filtered once. What is short beside its base is remembered by ranges of offsets too, and then the base is not read again. Offsets without records that pass go out as batches without records, so that positions move and lag
reaches 0. A read that finds nothing up to the end of the log tells nobody: the fetch goes on waiting, and the next look begins
where this read ended (`Interest.passed`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from cachetools import LRUCache

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import TopicImage
from bmq.protocol.compression import BadCompressedData, Buffer, Compression, UnknownCompression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import BatchHeader, CorruptRecords, batches
from bmq.proxy.batch_opener import RunAside
from bmq.proxy.catch_up import CaughtUp
from bmq.proxy.fetch_results import in_order, known_aborted
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.memory_reads import MemoryReads
from bmq.proxy.pending_read import PendingRead
from bmq.proxy.view_answer import Piece, Shown, ViewAnswer
from bmq.proxy.view_ranges import RangeKey, ViewRange, ViewRanges
from bmq.views.batch_filter import NOTHING, BatchFilter, run_of
from bmq.views.filter_error import InvalidFilter
from bmq.views.view_filter import compiled

READ_BYTES_MAX: Final = 1024 * 1024
"""What is read of the base in one step; a single batch may be longer."""
SCAN_BYTES_MAX: Final = 16 * 1024 * 1024
"""What is read of the base for one partition of a fetch: then it is answered with the records found, or with none."""
SCAN_S_MAX: Final = 0.25
"""As SCAN_BYTES_MAX, in time. A step that has begun is taken to its end."""
FILTERED_AT_ONCE_BYTES_MAX: Final = 8 * 1024
"""Uncompressed batches up to this size together are filtered on the event loop."""
FAST_AT_ONCE_BYTES_MAX: Final = 256 * 1024
FAST_AT_ONCE_RECORDS_MAX: Final = 1_000
"""As FILTERED_AT_ONCE_BYTES_MAX, by the kernel in C: some 0.1 ms."""
SLICE_S: Final = 0.05
"""A filtering that takes longer lets others have their turn."""
RANGE_SHARE_MAX: Final = 0.5
"""What a view shows of a step is remembered as a range if it has at most this share of the base's bytes."""
FILTERS_MAX: Final = 1_000
"""Filters that are kept ready."""
_ENTRY_BYTES: Final = 250
"""What a remembered batch takes besides its bytes."""

_Key = tuple[UUID, TopicPartition, int, int, int]
"""View, partition of the base, base offset, checksum and size of a batch."""
_Batch = tuple[int, BatchHeader]


class _AsItIs(NamedTuple):
    """Every record of the batch passes."""


_AS_IT_IS: Final = _AsItIs()
_Filtered = Buffer | _AsItIs


def _size(filtered: _Filtered) -> int:
    return _ENTRY_BYTES + (0 if isinstance(filtered, _AsItIs) else len(filtered))


class ViewReads:
    """One for a process, with what its fetches share. `elapsed_s`: Clock.elapsed_s, for the age of files (rule 35)."""

    def __init__(
        self,
        reads: MemoryReads,
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
        self._long = asyncio.Lock()
        self._filters: LRUCache[UUID, BatchFilter] = LRUCache(FILTERS_MAX)
        self._remembered: LRUCache[_Key, _Filtered] = LRUCache(config.view_cache_bytes_max // 2, _size)
        self._ranges = ViewRanges(config.view_cache_bytes_max // 2)

    @property
    def remembered_bytes(self) -> int:
        return int(self._remembered.currsize) + self._ranges.used_bytes

    async def read(
        self, pending: PendingRead, *, is_read_committed: bool
    ) -> tuple[CaughtUp, Sequence[tuple[int, int]] | None] | None:
        """As StoredReads.read. Sets `passed` of the interest if there is no record up to the bound, else clears it."""
        interest, log, bound_offset = pending.interest, pending.log, pending.bound_offset
        view = interest.view
        limit = pending.length_bytes_max
        assert view is not None and limit is not None
        began_s, deadline_s = self._elapsed_s(), self._loop.time() + SCAN_S_MAX
        answer = ViewAnswer(interest.passed, interest.fetch_offset)
        begin_offset, scanned_bytes = answer.next_offset, 0
        while answer.next_offset < bound_offset and not answer.is_full:
            is_over = scanned_bytes >= SCAN_BYTES_MAX or self._loop.time() >= deadline_s
            if is_over and answer.next_offset > begin_offset:
                answer.is_cut = True
                break
            try:
                known = await self._known(view, log, answer.next_offset)
                if known is None:
                    pieces, step_bytes = await self._step(view, log, answer.next_offset, bound_offset)
                    scanned_bytes += step_bytes
                else:
                    pieces = known.shown(answer.next_offset, bound_offset)
            except BmqError:
                if not answer.parts:
                    raise
                answer.is_cut = True  # the next fetch meets the error where this answer ends
                break
            before_offset = answer.next_offset
            for piece in pieces:
                if not answer.add(piece, limit):
                    break
            if answer.next_offset == before_offset:
                break
        interest.passed = None if answer.parts or answer.is_cut else answer.run
        views = answer.finished()
        if not is_read_committed:
            return CaughtUp(views, answer.next_offset), None
        aborted = known_aborted(log, interest.fetch_offset, answer.next_offset)
        if aborted is None:
            aborted = in_order(await log.find_aborted_transactions(interest.fetch_offset, answer.next_offset))
        if self._elapsed_s() - began_s > self._cursor_age_s:
            return None  # as in StoredReads
        if interest.fetch_offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {interest.fetch_offset} was deleted meanwhile")
        return CaughtUp(views, answer.next_offset), aborted

    async def _known(self, view: TopicImage, log: PartitionLog, offset: int) -> ViewRange | None:
        """A remembered range that holds the offset, unless the log was compacted since. Asks it anew after a while."""
        key = view.topic_id, log.topic_partition, log.leader_epoch
        known = self._ranges.find(key, offset)
        if known is None:
            return None
        now_s = self._elapsed_s()
        if now_s - known.asked_s > self._cursor_age_s:
            await log.locate(offset)  # a log elsewhere learns by this how far it is compacted
            known = self._ranges.find(key, offset)
            if known is None:
                return None
            known.asked_s = now_s
        if log.compacted_offset > known.base_offset:
            self._ranges.drop(key, known)
            return None
        return known

    async def _step(
        self, view: TopicImage, log: PartitionLog, offset: int, bound_offset: int
    ) -> tuple[Iterable[Piece], int]:
        """What the view shows of some batches of the base from the one that holds `offset` on, and how many bytes these have."""
        asked_s = self._elapsed_s()
        range_key = view.topic_id, log.topic_partition, log.leader_epoch
        views = await self._read(log, offset, bound_offset)
        data = memoryview(views[0] if len(views) == 1 else b"".join(views))
        found = [one for one in batches(data) if one[1].last_offset >= offset]
        keys = [
            (view.topic_id, log.topic_partition, header.base_offset, header.crc, header.size_bytes)
            for _, header in found
        ]
        filtered = {key: known for key in keys if (known := self._remembered.get(key)) is not None}
        missing = [(key, batch) for key, batch in zip(keys, found, strict=True) if key not in filtered]
        if missing:
            news = await self._filter(view, log.topic_partition.partition, data, missing)
            filtered |= news
            for key, one in news.items():
                if _size(one) <= self._remembered.maxsize:
                    self._remembered[key] = one
        pieces = [_piece(data, batch, filtered[key]) for key, batch in zip(keys, found, strict=True)]
        if found:
            first_offset = min(offset, found[0][1].base_offset)
            if log.compacted_offset <= first_offset:
                self._remember(range_key, first_offset, pieces, len(data), asked_s)
        return pieces, len(data)

    def _remember(
        self, key: RangeKey, first_offset: int, pieces: Sequence[Piece], base_bytes: int, asked_s: float
    ) -> None:
        shown_bytes = sum(len(piece.data) for piece in pieces if isinstance(piece, Shown))
        if shown_bytes <= base_bytes * RANGE_SHARE_MAX:
            # Copies: a part of the base would keep the whole of it in memory.
            kept = [Shown(bytes(one.data), one.next_offset) if isinstance(one, Shown) else one for one in pieces]
            self._ranges.put(key, ViewRange(first_offset, kept, asked_s))

    async def _filter(
        self, view: TopicImage, partition: int, data: Buffer, missing: Sequence[tuple[_Key, _Batch]]
    ) -> dict[_Key, _Filtered]:
        job = _Filtering(lambda: self._filter_of(view), partition, data, missing)
        try:
            if self._is_brief(view, missing):
                job.work(lambda: False)
                return job.results
            async with self._turn:
                is_done = await self._slice(job)
            if is_done:
                return job.results
            # What takes long goes on in slices, so that others have their turns; one at a time, as its batch is in memory.
            if self._long.locked():
                job.rewind()
            async with self._long:
                while not is_done:
                    async with self._turn:
                        is_done = await self._slice(job)
            return job.results
        except (CorruptRecords, BadCompressedData, UnknownCompression) as error:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"view {view.name}: records that cannot be filtered: {error}"
            ) from error
        except InvalidFilter as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"view {view.name}: {error}") from error

    def _is_brief(self, view: TopicImage, missing: Sequence[tuple[_Key, _Batch]]) -> bool:
        """Whether the batches may be filtered on the event loop."""
        known = self._filters.get(view.topic_id)
        if known is None or self._turn.locked():
            return False
        bytes_max = FAST_AT_ONCE_BYTES_MAX if known.is_fast else FILTERED_AT_ONCE_BYTES_MAX
        headers = [header for _, (_, header) in missing]
        return (
            sum(header.size_bytes for header in headers) <= bytes_max
            and sum(header.record_count for header in headers) <= FAST_AT_ONCE_RECORDS_MAX
            and all(header.compression is Compression.NONE for header in headers)
        )

    async def _slice(self, job: _Filtering) -> bool:
        """Go on with a job in the thread, for about SLICE_S; whether it is done."""
        job.take(self._remembered)  # another reader may have filtered some while this one waited
        if job.is_done:
            return True
        end_s = self._elapsed_s() + SLICE_S
        await self._run_aside(lambda: job.work(lambda: self._elapsed_s() >= end_s))
        return job.is_done

    def _filter_of(self, view: TopicImage) -> BatchFilter:
        """Raises InvalidFilter."""
        assert view.view is not None
        batch_filter = self._filters.get(view.topic_id)
        if batch_filter is None:
            batch_filter = self._filters[view.topic_id] = BatchFilter(compiled(view.view.filter))
        return batch_filter

    async def _read(self, log: PartitionLog, offset: int, bound_offset: int) -> Sequence[memoryview]:
        """Whole batches in memory. Far behind the end reads take turns, as all fetches do."""
        limit = self._reads.limit(READ_BYTES_MAX)
        tail = log.tail_read(offset, limit, bound_offset)
        return await self._reads.read(log, offset, limit, bound_offset) if tail is None else tail


class _Filtering:
    """Some batches that are filtered one after the other. `make_filter` is called where the work is done."""

    def __init__(
        self,
        make_filter: Callable[[], BatchFilter],
        partition: int,
        data: Buffer,
        batches: Sequence[tuple[_Key, _Batch]],
    ) -> None:
        self.results: dict[_Key, _Filtered] = {}
        self._make_filter = make_filter
        self._partition = partition
        self._data = data
        self._left = list(reversed(batches))
        self._steps: Generator[None, None, Buffer | None] | None = None

    def take(self, known: Mapping[_Key, _Filtered]) -> None:
        """What of it is filtered already is left out."""
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
        """Go on until all is done, or `is_over` says so after a step.

        Raises InvalidFilter, and what BatchFilter.filtered raises.
        """
        while self._left:
            key, (position, header) = self._left[-1]
            if self._steps is None:
                batch = memoryview(self._data)[position : position + header.size_bytes]
                self._steps = self._make_filter().steps(batch, header, self._partition)
            try:
                next(self._steps)
            except StopIteration as end:
                self._steps = None
                self._left.pop()
                self.results[key] = _AS_IT_IS if end.value is None else end.value
            _let_others_run()
            if is_over():
                break

    def rewind(self) -> None:
        """Begin anew with the batch that is under way, and let its memory go."""
        self._steps = None


def _piece(data: memoryview, batch: _Batch, filtered: _Filtered) -> Piece:
    position, header = batch
    if filtered == NOTHING:
        return run_of(header)
    if isinstance(filtered, _AsItIs):
        filtered = data[position : position + header.size_bytes]
    return Shown(filtered, header.end_offset)


def _let_others_run() -> None:
    """The event loop may take the interpreter's lock."""
    time.sleep(0)
