"""bmq's client, or hdfs-native, as a contender: the commands of Contender.java, and reading.

    python -m bench.hdfs.worker fanout|pipeline|native NAMENODE:PORT ROOT SEGMENT_BYTES

    append PATH BYTES WARM_UP COUNT hflush|hsync    one append after the other, each waited for
    outstanding PATH BYTES WARM_UP COUNT WINDOW     so many appends on their way at any time
    stream PATH BYTES TOTAL                         appends of BYTES until TOTAL bytes are acknowledged
    read PATH LENGTH BYTES TOTAL [AHEAD]            a closed file of LENGTH from its front, BYTES at a time, up to TOTAL, and as
                                                    many more pieces as AHEAD on their way
    delete PATH

PATH is absolute, below ROOT. Reading is all that hdfs-native is asked for: it cannot have appends on their way.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections import deque
from typing import Any, Final

import hdfs_native
import uvloop

from bench.hdfs.client import CHECKSUM_CHUNK_BYTES, address_of, open_store
from bench.hdfs.commands import serve
from bmq.hdfs.config import WriteMode
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Appended, Buffer, Durability, SegmentWriter

STREAM_WINDOW_BYTES: Final = 16 * 1024 * 1024
CREATE_TRIES_MAX: Final = 5


class TooFewReplicas(Exception):
    """A file that should be measured on three DataNodes got fewer."""


class BmqWorker:
    def __init__(self, store: HdfsStore, root: str, segment_bytes: int) -> None:
        self._store = store
        self._root = root
        self._segment_bytes = segment_bytes

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._root).strip("/")

    async def _create(self, path: str, durability: Durability = Durability.HFLUSH) -> SegmentWriter:
        """A file on as many DataNodes as there should be, with its first chunk written: else it would be an easier load."""
        relative = self._relative(path)
        for _ in range(CREATE_TRIES_MAX):
            writer = await self._store.create_segment(
                relative, holder="bench-writer", durability=durability, segment_bytes=self._segment_bytes
            )
            await writer.append((bytes(CHECKSUM_CHUNK_BYTES),))
            if writer.replicas == self._store.replicas_wanted:
                return writer
            await writer.close()
            await self._store.delete(relative)
        raise TooFewReplicas(f"the NameNode gave {relative} too few DataNodes, {CREATE_TRIES_MAX} times")

    async def append(self, path: str, size: str, warm_up: str, count: str, durability: str) -> dict[str, Any]:
        writer = await self._create(path, Durability(durability))
        data = (os.urandom(int(size)),)
        for _ in range(int(warm_up)):
            await writer.append(data)
        latencies_us = []
        cpu_s = time.process_time()
        for _ in range(int(count)):
            began_ns = time.perf_counter_ns()
            await writer.append(data)
            latencies_us.append((time.perf_counter_ns() - began_ns) // 1000)
        cpu_s = time.process_time() - cpu_s
        await writer.close()
        return {"cpu_s": cpu_s, "latencies_us": latencies_us}

    async def outstanding(self, path: str, size: str, warm_up: str, count: str, window: str) -> dict[str, Any]:
        writer = await self._create(path)
        data = (os.urandom(int(size)),)
        await _append_in_window(writer, data, int(warm_up), int(window))
        began_s, cpu_s = time.perf_counter(), time.process_time()
        await _append_in_window(writer, data, int(count), int(window))
        took = {"seconds": time.perf_counter() - began_s, "cpu_s": time.process_time() - cpu_s}
        await writer.close()
        return took

    async def stream(self, path: str, size: str, total: str) -> dict[str, Any]:
        writer = await self._create(path)
        data = (os.urandom(int(size)),)
        count, window = -(-int(total) // int(size)), STREAM_WINDOW_BYTES // int(size)
        began_s, cpu_s = time.perf_counter(), time.process_time()
        await _append_in_window(writer, data, count, window)
        took = {"seconds": time.perf_counter() - began_s, "cpu_s": time.process_time() - cpu_s}
        length_bytes = await writer.close()
        expected_bytes = CHECKSUM_CHUNK_BYTES + count * int(size)
        if length_bytes != expected_bytes:
            raise AssertionError(f"{path} was closed at {length_bytes} bytes instead of {expected_bytes}")
        return took

    async def read(self, path: str, length: str, size: str, total: str, ahead: str = "0") -> dict[str, Any]:
        relative = self._relative(path)
        status = await self._store.status(relative)
        assert status is not None and status.length_bytes == int(length), status
        file_id, total_bytes, size_bytes = status.file_id, int(total), int(size)
        under_way: deque[tuple[int, asyncio.Task[Buffer]]] = deque()
        starts = iter(range(0, total_bytes, size_bytes))

        def begin() -> None:
            if (position := next(starts, None)) is not None:
                wanted = min(size_bytes, total_bytes - position)
                reading = self._store.read(relative, file_id=file_id, position=position, length_bytes=wanted)
                under_way.append((wanted, asyncio.create_task(reading)))

        latencies_us = []
        began_s, cpu_s = time.perf_counter(), time.process_time()
        for _ in range(1 + int(ahead)):
            begin()
        while under_way:
            wanted, reading = under_way.popleft()
            began_ns = time.perf_counter_ns()
            data = await reading
            latencies_us.append((time.perf_counter_ns() - began_ns) // 1000)
            assert len(data) == wanted
            begin()
        return _read_answer(began_s, cpu_s, latencies_us, total_bytes)

    async def delete(self, path: str) -> dict[str, Any]:
        return {"deleted": await self._store.delete(self._relative(path), recursive=True)}


class NativeWorker:
    """hdfs-native's blocking client, as it is used from Python; it verifies checksums."""

    def __init__(self, namenode: str) -> None:
        self._client = hdfs_native.Client(f"hdfs://{namenode}")

    async def read(self, path: str, length: str, size: str, total: str) -> dict[str, Any]:
        # Nothing else runs in this process: blocking its loop is what costs the client least.
        reader = self._client.read(path)
        assert len(reader) == int(length), len(reader)
        latencies_us = []
        began_s, cpu_s = time.perf_counter(), time.process_time()
        for position in range(0, int(total), int(size)):
            wanted = min(int(size), int(total) - position)
            began_ns = time.perf_counter_ns()
            data = reader.read_range(position, wanted)
            latencies_us.append((time.perf_counter_ns() - began_ns) // 1000)
            assert len(data) == wanted
        return _read_answer(began_s, cpu_s, latencies_us, int(total))


def _read_answer(began_s: float, cpu_s: float, latencies_us: list[int], read_bytes: int) -> dict[str, Any]:
    return {
        "seconds": time.perf_counter() - began_s,
        "cpu_s": time.process_time() - cpu_s,
        "latencies_us": latencies_us,
        "bytes": read_bytes,
    }


async def _append_in_window(writer: SegmentWriter, data: tuple[bytes, ...], count: int, window: int) -> None:
    under_way: deque[Appended] = deque()
    for _ in range(count):
        if len(under_way) == window:
            await under_way.popleft()
        under_way.append(writer.append(data))
    while under_way:
        await under_way.popleft()


async def run(client: str, namenode: str, root: str, segment_bytes: int) -> None:
    if client == "native":
        await serve({"read": NativeWorker(namenode).read})
        return
    store = await open_store(address_of(namenode), root, random.Random(), WriteMode(client))
    try:
        worker = BmqWorker(store, root, segment_bytes)
        names = ("append", "outstanding", "stream", "read", "delete")
        await serve({name: getattr(worker, name) for name in names})
    finally:
        await store.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("client", choices=["fanout", "pipeline", "native"])
    options.add_argument("namenode")
    options.add_argument("root")
    options.add_argument("segment_bytes", type=int)
    given = options.parse_args()
    uvloop.run(run(given.client, given.namenode, given.root, given.segment_bytes))


if __name__ == "__main__":
    main()
