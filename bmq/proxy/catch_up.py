"""Catch-up reads: whole record batches from chunks of the store to the response, as views, without copies.

`ExtentWalk` decides from batch headers where a read begins and ends, and which chunk it needs next; `CatchUp` fetches the chunks.
The end of each read is remembered for a while. A read that begins there needs no index look-up and counts as sequential: the
chunks behind it are read ahead, and at the end of a file the first ones of the next file.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from bmq.log.padding import padding_end
from bmq.log.partition_log import Location, PartitionLog, TopicPartition
from bmq.log.store import FileMissing, StoreError
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.parts import FilePart, Part
from bmq.protocol.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, CorruptRecords
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.read_cache import ReadCache

_HEAD: Final = Struct(">qi11xi")  # base offset, length, last offset delta
_HEAD_BYTES: Final = 27
_LENGTH: Final = Struct(">i")
_LENGTH_POSITION: Final = 8
_STEPS_MAX: Final = 64  # most batches between two index entries: of 64 bytes in the default interval of 4 KiB

CursorKey = tuple[TopicPartition, int, int]  # partition, leader epoch, offset
Spawn = Callable[[Coroutine[Any, Any, None]], None]


class _Cursor(NamedTuple):
    """Where a read may begin.

    `asked_s`: when the log was last asked for the file. `compacted_offset`: how far the log was compacted then.
    """

    location: Location
    asked_s: float
    compacted_offset: int


class CatchUpResult(NamedTuple):
    """Whole batches, as views or as a part of a file. `next_offset`: the offset behind the last one."""

    views: Sequence[Part]
    next_offset: int


def next_offset_of(views: Sequence[memoryview]) -> int:
    """The offset behind these batches; each view is one batch."""
    base_offset, _, last_delta = _HEAD.unpack_from(views[-1])
    next_offset: int = base_offset + last_delta + 1
    return next_offset


def bytes_behind(views: Sequence[memoryview], bound_offset: int) -> int:
    """Bytes from the first of these batches to the bound, estimated from these batches' bytes per offset."""
    if not views:
        return 0
    first_offset: int = _HEAD.unpack_from(views[0])[0]
    return sum(map(len, views)) * (bound_offset - first_offset) // max(1, next_offset_of(views) - first_offset)


class ExtentWalk:
    """Walks over batch headers, from a batch boundary at or before `offset` to the end of the read.

    The read has at least one batch if there is one below the bound, even if it is longer than `length_bytes_max` (KIP-74).
    """

    __slots__ = (
        "_bound_offset",
        "_chunk_bytes",
        "_gaps",
        "_length_bytes_max",
        "_location",
        "_offset",
        "next_offset",
        "position",
        "start",
    )

    def __init__(
        self, location: Location, offset: int, length_bytes_max: int, bound_offset: int, chunk_bytes: int
    ) -> None:
        self._location = location
        self._offset = offset
        self._length_bytes_max = length_bytes_max
        self._bound_offset = bound_offset
        self._chunk_bytes = chunk_bytes
        self._gaps: list[tuple[int, int]] = []  # padding between batches of the data, begin and end
        self.start = location.position  # the data is [start, position) of the file
        self.position = location.position
        self.next_offset = offset

    def expected_chunks(self) -> range:
        """Numbers of the chunks that the read will probably need."""
        first = self.position // self._chunk_bytes
        stop = min(self.position + max(self._length_bytes_max, 1), self._location.valid_bytes)
        return range(first, max(first, (stop - 1) // self._chunk_bytes) + 1)

    def advance(self, chunks: Mapping[int, memoryview]) -> int | None:
        """Walk as far as the chunks reach. Returns the number of the chunk that is needed next, or None at the end.

        Raises CorruptRecords for an impossible batch length.
        """
        valid_bytes = self._location.valid_bytes
        chunk_bytes = self._chunk_bytes
        while self.position + HEADER_BYTES <= valid_bytes:
            number, at = divmod(self.position, chunk_bytes)
            chunk = chunks.get(number)
            if chunk is None:
                return number
            is_unbound = self.position > self.start and self._bound_offset >= self._location.end_offset
            if is_unbound and self._skip_along(chunk, number * chunk_bytes, at):
                continue
            if at + _HEAD_BYTES <= len(chunk):
                base_offset, length, last_delta = _HEAD.unpack_from(chunk, at)
            else:
                following = chunks.get(number + 1)
                if following is None:
                    return number + 1
                base_offset, length, last_delta = _HEAD.unpack_from(bytes(chunk[at:]) + bytes(following[:_HEAD_BYTES]))
            size = length + LENGTH_OVERHEAD_BYTES
            if not length and not base_offset:
                self._skip_padding()
                continue
            if size < HEADER_BYTES:
                raise CorruptRecords(f"{self._location.path} at {self.position}: a batch of {size} bytes")
            end = self.position + size
            last_offset = base_offset + last_delta
            if end > valid_bytes or last_offset >= self._bound_offset:
                break
            if last_offset < self._offset:
                self.start = self.position = end
                self._gaps.clear()
                continue
            if end - self.start > self._length_bytes_max and self.position > self.start:
                break
            self.position = end
            self.next_offset = last_offset + 1
        return self._first_missing(chunks)

    def views(self, chunks: Mapping[int, memoryview]) -> list[memoryview]:
        """The batches of the read, once `advance` has returned None."""
        chunk_bytes = self._chunk_bytes
        views = []
        position = self.start
        for end, next_position in (*self._gaps, (self.position, self.position)):
            while position < end:
                number, at = divmod(position, chunk_bytes)
                stop = min(chunk_bytes, at + end - position)
                views.append(chunks[number][at:stop])
                position += stop - at
            position = next_position
        return views

    def _skip_padding(self) -> None:
        end = min(padding_end(self.position), self._location.valid_bytes)
        if self.position == self.start:
            self.start = end
        elif self._gaps and self._gaps[-1][1] == self.position:
            self._gaps[-1] = self._gaps[-1][0], end
        else:
            self._gaps.append((self.position, end))
        self.position = end

    def _skip_along(self, chunk: memoryview, chunk_position: int, at: int) -> bool:
        """Take the batches whose headers are in this chunk by their length fields alone, because no bound lies in the extent.

        Most batches of a read are taken here; the caller checks unusual ones in full. Returns False if none was taken.
        """
        limit = min(self.start + self._length_bytes_max, self._location.valid_bytes) - chunk_position
        last_at = len(chunk) - _HEAD_BYTES
        length_at = _LENGTH.unpack_from
        taken = -1
        while at <= last_at:
            size = length_at(chunk, at + _LENGTH_POSITION)[0] + LENGTH_OVERHEAD_BYTES
            if size < HEADER_BYTES or at + size > limit:
                break
            taken = at
            at += size
        if taken >= 0:
            base_offset, _, last_delta = _HEAD.unpack_from(chunk, taken)
            self.next_offset = base_offset + last_delta + 1
            self.position = chunk_position + at
        return taken >= 0

    def _first_missing(self, chunks: Mapping[int, memoryview]) -> int | None:
        if self.start == self.position:
            return None
        wanted = range(self.start // self._chunk_bytes, (self.position - 1) // self._chunk_bytes + 1)
        return next((number for number in wanted if number not in chunks), None)


class CatchUp:
    """Serves reads behind the tail cache. `now_s`: the event loop's time. `spawn`: runs tasks in the background."""

    def __init__(self, cache: ReadCache, config: FetchSettings, now_s: Callable[[], float], spawn: Spawn) -> None:
        self._cache = cache
        self._now_s = now_s
        self._cursor_age_s = config.read_cursor_age_ms / 1000
        self._read_ahead_chunks_max = config.read_ahead_chunks_max
        self._cursors_max = config.read_cursors_max
        self._attempts_max = config.read_attempts_max
        self._spawn = spawn
        self._cursors: OrderedDict[CursorKey, _Cursor] = OrderedDict()
        self._locating: set[CursorKey] = set()

    def read_in_file(
        self, log: PartitionLog, offset: int, length_bytes_max: int, bound_offset: int
    ) -> CatchUpResult | None:
        """Read without waiting, as a part of a file that the operating system sends from its page cache; None if impossible.

        Raises CorruptRecords.
        """
        try:
            span = log.span(offset, length_bytes_max, bound_offset)
            part = None if span is None else self._cache.file_part(span)
            if span is None or part is None:
                return None
            found = part if span.base_offset == offset else _from_batch_of(offset, part, span.path)
        except (KafkaError, OSError):
            return None  # `read` hits the same error and returns it for the partition
        return None if found is None else CatchUpResult((found,), span.next_offset)

    def read_cached(
        self, log: PartitionLog, offset: int, length_bytes_max: int, bound_offset: int
    ) -> CatchUpResult | None:
        """Read without waiting, if the position is known and all bytes are in memory; else None. Raises CorruptRecords."""
        cursor = self._cursor(log, (log.topic_partition, log.leader_epoch, offset))
        if cursor is None:
            return None
        location, cache = cursor.location, self._cache
        walk = ExtentWalk(location, offset, length_bytes_max, bound_offset, cache.chunk_bytes)
        chunks: dict[int, memoryview] = {}
        for number in walk.expected_chunks():
            chunk = cache.peek(location, number)
            if chunk is None:
                return None
            chunks[number] = chunk
        while (missing := walk.advance(chunks)) is not None:
            chunk = cache.peek(location, missing)
            if chunk is None:
                return None
            chunks[missing] = chunk
        if walk.start == walk.position:
            return None
        return self._finish(log, cursor, walk, chunks, bound_offset, is_sequential=True)

    def read_at_once(
        self, log: PartitionLog, offset: int, length_bytes_max: int, bound_offset: int, *, to_memory: bool = False
    ) -> CatchUpResult | None:
        """Read without waiting, from a file or from memory; None if the read needs a task. Raises CorruptRecords.

        `to_memory`: return bytes in memory, never a part of a file.
        """
        found = None if to_memory else self.read_in_file(log, offset, length_bytes_max, bound_offset)
        return found or self.read_cached(log, offset, length_bytes_max, bound_offset)

    async def read(self, log: PartitionLog, offset: int, length_bytes_max: int, bound_offset: int) -> CatchUpResult:
        """Read whole batches of one file, from the one that has `offset`; none ends past `bound_offset`.

        Empty if the first batch is not wholly below the bound. Raises KafkaError OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR (also
        if the file is gone at each try), CorruptRecords, StoreError.
        """
        key = (log.topic_partition, log.leader_epoch, offset)
        for _ in range(self._attempts_max):
            cursor = self._cursor(log, key)
            is_sequential = cursor is not None
            try:
                if cursor is None:
                    asked_s, compacted_offset = self._now_s(), log.compacted_offset
                    cursor = _Cursor(await log.locate(offset), asked_s, compacted_offset)
                done = await self._read_at(log, cursor, offset, length_bytes_max, bound_offset, is_sequential)
            except FileMissing:
                # Retention deleted the file, or its directory was sealed and renamed: the owner knows the new place (rule 13).
                self._cursors.pop(key, None)
                continue
            if done.views or not is_sequential:
                return done
            # The read has come to the end of the bytes known as valid: ask the owner how many are valid now.
            self._cursors.pop(key, None)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the file that holds offset {offset} is gone")

    async def _read_at(
        self,
        log: PartitionLog,
        cursor: _Cursor,
        offset: int,
        length_bytes_max: int,
        bound_offset: int,
        is_sequential: bool,
    ) -> CatchUpResult:
        location, cache = cursor.location, self._cache
        walk = ExtentWalk(location, offset, length_bytes_max, bound_offset, cache.chunk_bytes)
        chunks: dict[int, memoryview] = {}
        missing: list[int] = []
        for number in walk.expected_chunks():
            chunk = cache.peek(location, number)
            if chunk is None:
                missing.append(number)
            else:
                chunks[number] = chunk
        if len(missing) == 1:
            chunks[missing[0]] = await cache.chunk(location, missing[0])
        elif missing:
            chunks.update(zip(missing, await asyncio.gather(*(cache.chunk(location, n) for n in missing)), strict=True))
        while (needed := walk.advance(chunks)) is not None:
            chunks[needed] = await cache.chunk(location, needed)
        return self._finish(log, cursor, walk, chunks, bound_offset, is_sequential=is_sequential)

    def _finish(
        self,
        log: PartitionLog,
        cursor: _Cursor,
        walk: ExtentWalk,
        chunks: Mapping[int, memoryview],
        bound_offset: int,
        *,
        is_sequential: bool,
    ) -> CatchUpResult:
        views, location, cache = walk.views(chunks), cursor.location, self._cache
        if views and walk.position < location.valid_bytes:
            self._remember(log, walk, cursor)
        if views and is_sequential:
            following = (walk.position - 1) // cache.chunk_bytes + 1
            # Read ahead as much as the reader has just read, so that slow readers take no memory from others.
            count = min(self._read_ahead_chunks_max, (walk.position - walk.start) // cache.chunk_bytes + 1)
            cache.read_ahead(location, following, count)
            beyond = following + count - -(-location.valid_bytes // cache.chunk_bytes)
            if beyond > 0 and location.is_closed and location.end_offset < bound_offset:
                self._read_ahead_next_file(log, location.end_offset, beyond)
        return CatchUpResult(views, walk.next_offset)

    def _read_ahead_next_file(self, log: PartitionLog, offset: int, count: int) -> None:
        """Read ahead the first chunks of the file that begins at `offset`, if the log knows one."""
        key = (log.topic_partition, log.leader_epoch, offset)
        cursor = self._cursor(log, key)
        if cursor is not None:
            self._read_ahead_from(cursor.location, count)
        elif key not in self._locating:
            self._locating.add(key)
            self._spawn(self._locate_ahead(log, key, count))

    async def _locate_ahead(self, log: PartitionLog, key: CursorKey, count: int) -> None:
        asked_s, compacted_offset = self._now_s(), log.compacted_offset
        try:
            location = await log.locate(key[-1])
        except (KafkaError, StoreError):
            return  # the read itself will meet the error, and answer it
        finally:
            self._locating.discard(key)
        self._keep(key, _Cursor(location, asked_s, compacted_offset))
        self._read_ahead_from(location, count)

    def _read_ahead_from(self, location: Location, count: int) -> None:
        if location.is_closed:  # the newest batches are still in the tail cache
            self._cache.read_ahead(location, location.position // self._cache.chunk_bytes, count)

    def _cursor(self, log: PartitionLog, key: CursorKey) -> _Cursor | None:
        """Where the last read of this reader ended; None if compaction has replaced the file since, or if that is too long ago.

        The age counts because compacting a part for a second time does not move the offset that compaction has come to.
        """
        cursor = self._cursors.get(key)
        if cursor is None:
            return None
        is_replaced = cursor.location.base_offset < log.compacted_offset != cursor.compacted_offset
        if is_replaced or self._now_s() - cursor.asked_s > self._cursor_age_s:
            del self._cursors[key]
            return None
        return cursor

    def _remember(self, log: PartitionLog, walk: ExtentWalk, cursor: _Cursor) -> None:
        location = cursor.location
        key = (log.topic_partition, log.leader_epoch, walk.next_offset)
        following = Location(
            location.path,
            location.file_id,
            walk.position,
            location.valid_bytes,
            location.base_offset,
            location.end_offset,
            location.is_closed,
        )
        self._keep(key, _Cursor(following, cursor.asked_s, cursor.compacted_offset))

    def _keep(self, key: CursorKey, cursor: _Cursor) -> None:
        cursors = self._cursors
        cursors[key] = cursor
        cursors.move_to_end(key)
        if len(cursors) > self._cursors_max:
            cursors.popitem(last=False)


def _from_batch_of(offset: int, part: FilePart, path: str) -> FilePart | None:
    """The part of the file without the batches that end before `offset`; None if finding it takes too many steps.

    Raises CorruptRecords.
    """
    position = 0
    for _ in range(_STEPS_MAX):
        head = part.peek(position, _HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            return None
        base_offset, length, last_delta = _HEAD.unpack(head)
        if length + LENGTH_OVERHEAD_BYTES < HEADER_BYTES:
            raise CorruptRecords(f"{path}: a batch of {length + LENGTH_OVERHEAD_BYTES} bytes")
        if base_offset + last_delta >= offset:
            return part.from_position(position) if position else part
        position += length + LENGTH_OVERHEAD_BYTES
    return None
