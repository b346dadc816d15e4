"""A cache of chunks of segment files, for reads that the tail cache cannot serve; shared by all consumers, LRU by bytes.

A chunk is cached up to the bytes that were valid when it was read (rule 13), and read again once more bytes of it are valid.
Misses of the same chunk share one read. An evicted chunk stays in memory while a response has views of it; these bytes count in
the response budget.
"""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections import OrderedDict, deque
from functools import partial

from bmq.log.partition_log import Location, Span
from bmq.log.store import SegmentStore
from bmq.protocol.parts import FilePart
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.fetch_settings import FetchSettings

ChunkKey = tuple[int, int]  # file id, number of the chunk in the file


class ReadCache:
    """`chunk_bytes`: size of all chunks except a file's last."""

    def __init__(self, store: SegmentStore, config: FetchSettings, counts: FetchCounts) -> None:
        self.chunk_bytes = config.read_chunk_bytes
        self.bytes_max = config.read_cache_bytes_max
        self.bytes_used = 0
        self.read_ahead_bytes = 0
        self._read_ahead_bytes_max = config.read_ahead_bytes_max
        self._store = store
        self._counts = counts
        self._chunks: OrderedDict[ChunkKey, memoryview] = OrderedDict()
        self._ahead: deque[tuple[Location, int, int]] = deque()  # its limit is in bytes of chunks
        self._reading: dict[ChunkKey, tuple[int, Task[memoryview]]] = {}

    def valid_bytes_of(self, location: Location, number: int) -> int:
        """How many bytes of a chunk are valid, and may be read."""
        return min(self.chunk_bytes, location.valid_bytes - number * self.chunk_bytes)

    def peek(self, location: Location, number: int) -> memoryview | None:
        """The chunk, if all its valid bytes are in memory; else None."""
        key = (location.file_id, number)
        chunk = self._chunks.get(key)
        if chunk is None or len(chunk) < self.valid_bytes_of(location, number):
            return None
        self._chunks.move_to_end(key)
        self._counts.cache_hits += 1
        return chunk

    def file_part(self, span: Span) -> FilePart | None:
        """The span as a part of a file, by SegmentStore.file_part; None if the store has none."""
        return self._store.file_part(
            span.path, file_id=span.file_id, position=span.position, length_bytes=span.length_bytes
        )

    async def chunk(self, location: Location, number: int) -> memoryview:
        """The chunk, with all its valid bytes, read if necessary. Raises FileMissing, CorruptFile, StorageUnavailable."""
        found = self.peek(location, number)
        if found is not None:
            return found
        self._counts.cache_misses += 1
        # A reader that is cancelled must not cancel the read, for which others may wait.
        return await asyncio.shield(self._begin(location, number))

    def read_ahead(self, location: Location, number: int, count: int) -> None:
        """Read ahead up to `count` chunks from `number` on: those that are valid, not in memory, and within the budget.

        It starts after the present answer is sent, and reads one chunk per turn of the event loop: a local store reads on the
        event loop, and sockets must not wait for chunks that no client has asked for yet.
        """
        for ahead in range(number, number + count):
            size = self.valid_bytes_of(location, ahead)
            if size <= 0 or self.read_ahead_bytes + size > self._read_ahead_bytes_max:
                return
            if not self._is_there(location, ahead, size):
                self.read_ahead_bytes += size
                if not self._ahead:
                    asyncio.get_running_loop().call_soon(self._read_next_ahead)
                self._ahead.append((location, ahead, size))

    def _read_next_ahead(self) -> None:
        if not self._ahead:
            return
        location, number, size = self._ahead.popleft()
        if self._is_there(location, number, size):
            self.read_ahead_bytes -= size
        else:
            self._counts.read_ahead_chunks += 1
            self._begin(location, number).add_done_callback(partial(self._end_read_ahead, size))
        if self._ahead:
            asyncio.get_running_loop().call_soon(self._read_next_ahead)

    def _is_there(self, location: Location, number: int, size: int) -> bool:
        key = (location.file_id, number)
        chunk = self._chunks.get(key)
        reading = self._reading.get(key)
        return (chunk is not None and len(chunk) >= size) or (reading is not None and reading[0] >= size)

    async def close(self) -> None:
        """Cancel all reads and drop all chunks."""
        self.read_ahead_bytes -= sum(size for _, _, size in self._ahead)
        self._ahead.clear()
        tasks = [task for _, task in self._reading.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._chunks.clear()
        self.bytes_used = 0

    def _begin(self, location: Location, number: int) -> Task[memoryview]:
        key = (location.file_id, number)
        size = self.valid_bytes_of(location, number)
        reading = self._reading.get(key)
        if reading is not None and reading[0] >= size:
            return reading[1]
        task = asyncio.get_running_loop().create_task(self._read(location, number, size))
        self._reading[key] = (size, task)
        task.add_done_callback(lambda done: self._end(key, done))
        return task

    async def _read(self, location: Location, number: int, size: int) -> memoryview:
        data = await self._store.read(
            location.path, file_id=location.file_id, position=number * self.chunk_bytes, length_bytes=size
        )
        self._counts.store_bytes += size
        chunk = memoryview(data).toreadonly()
        self._keep((location.file_id, number), chunk)
        return chunk

    def _end(self, key: ChunkKey, task: Task[memoryview]) -> None:
        reading = self._reading.get(key)
        if reading is not None and reading[1] is task:
            del self._reading[key]
        if not task.cancelled():
            # Mark an error as retrieved: no caller may wait for a chunk that is read ahead.
            task.exception()

    def _end_read_ahead(self, size: int, _: Task[memoryview]) -> None:
        self.read_ahead_bytes -= size

    def _keep(self, key: ChunkKey, chunk: memoryview) -> None:
        chunks = self._chunks
        old = chunks.get(key)
        if old is not None:
            if len(old) >= len(chunk):
                return
            self.bytes_used -= len(old)
        chunks[key] = chunk
        chunks.move_to_end(key)
        self.bytes_used += len(chunk)
        while self.bytes_used > self.bytes_max:
            _, evicted = chunks.popitem(last=False)
            self.bytes_used -= len(evicted)
            self._counts.cache_evicted_bytes += len(evicted)
