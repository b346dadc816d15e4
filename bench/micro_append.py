"""Microseconds per produced batch through the broker's partition runtime, with a store that is durable at once.

    python bench/micro_append.py [--batches N] [--group N] [--profile]

Counts everything between a client's bytes and its callback: checks with CRC, placing, grouping, append, tail cache.
`group`: how many batches arrive in one iteration of the event loop. The best of five rounds is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import logging
import pstats
import time
from collections.abc import Sequence
from random import Random
from uuid import UUID

import structlog

from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.log.store import Buffer, Durability, FileMissing, FileStatus
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import parsed_header

ROUNDS = 5


class WallClock:
    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def elapsed_s(self) -> float:
        return time.monotonic()


class InstantWriter:
    """Takes bytes and forgets them; every append is durable when it returns."""

    replicas = 1

    def __init__(self, path: str, file_id: int) -> None:
        self.path = path
        self.file_id = file_id
        self.accepted_bytes = 0

    def append(self, buffers: Sequence[Buffer]) -> asyncio.Future[int]:
        self.accepted_bytes += sum(map(len, buffers))
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        answer.set_result(self.accepted_bytes)
        return answer

    async def prove_ownership(self) -> None: ...

    async def mend(self) -> int:
        return self.accepted_bytes

    async def close(self) -> int:
        return self.accepted_bytes

    def abandon(self) -> None: ...


class InstantStore:
    """As much of a SegmentStore as a partition that is only written needs."""

    replicas_wanted = 1

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._next_id = 1

    async def make_directory(self, path: str) -> None:
        self._files[path] = b""

    async def make_directories(self, path: str) -> None:
        self._files[path] = b""

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        return tuple(
            FileStatus(name.rpartition("/")[2], True, 0, 0, False)
            for name in self._files
            if name.rpartition("/")[0] == path
        )

    async def status(self, path: str) -> FileStatus | None:
        return FileStatus(path, True, 0, 0, False) if path in self._files else None

    async def prove(self, path: str) -> FileStatus | None:
        return await self.status(path)

    async def rename(self, source: str, target: str) -> None:
        self._files[target] = self._files.pop(source)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        return self._files.pop(path, None) is not None

    async def write_file(self, path: str, data: Buffer, *, holder: str) -> None:
        self._files[path] = bytes(data)

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        if path not in self._files:
            raise FileMissing(path)
        return self._files[path]

    @property
    def is_reserving(self) -> bool:
        return False

    def append_alignment_bytes(self, durability: Durability) -> int:
        return 1

    async def create_segment(
        self, path: str, *, holder: str, durability: Durability, segment_bytes: int
    ) -> InstantWriter:
        self._next_id += 1
        return InstantWriter(path, self._next_id)

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        raise FileMissing(path)

    async def take_over(self, path: str, *, previous_holder: str | None) -> int:
        return 0

    async def close(self) -> None: ...


def batches_of(size_bytes: int, count: int, *, is_idempotent: bool) -> list[memoryview]:
    """Batches of about `size_bytes` with one 1 KiB record for each KiB, each in a buffer of its own."""
    now_ms = WallClock().now_ms()
    records = [Record(None, b"v" * 1000, timestamp_ms=now_ms) for _ in range(max(1, size_bytes // 1024))]
    made = []
    for number in range(count):
        sequence = number * len(records) if is_idempotent else -1
        batch = encode_batch(
            records,
            producer_id=7 if is_idempotent else -1,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=sequence,
        )
        made.append(memoryview(batch))
    return made


async def measure(log: PartitionRuntime, batches: list[memoryview], group: int) -> float:
    """Microseconds per batch."""
    left = len(batches)
    over = asyncio.get_running_loop().create_future()

    def done(result: AppendResult) -> None:
        nonlocal left
        assert result.error_code is ErrorCode.NONE, result
        left -= 1
        if left == 0:
            over.set_result(None)

    began_s = time.perf_counter()
    for first in range(0, len(batches), group):
        for batch in batches[first : first + group]:
            log.append(ProducedBatch(LoneAppend(done), log.topic_partition, batch, parsed_header(batch)))
        await asyncio.sleep(0)
    await over
    return (time.perf_counter() - began_s) / len(batches) * 1e6


async def run(batch_count: int, group: int, size_bytes: int, *, is_idempotent: bool) -> float:
    manager = PartitionManager(
        InstantStore(),  # type: ignore[arg-type]
        "bench",
        WallClock(),
        Random(1),
        BrokerSettings(append_bytes_max=1 << 30),
    )
    best = float("inf")
    for number in range(ROUNDS):
        key = TopicPartition(UUID(int=number), 0)
        manager.assign(key, 1, "bench", LogConfig(segment_bytes=1 << 30))
        log = await manager.leader_of(key)
        batches = batches_of(size_bytes, batch_count, is_idempotent=is_idempotent)
        best = min(best, await measure(log, batches, group))
        manager.drop(key)
    await manager.close()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=5000)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    for size_bytes in (1024, 16 * 1024):
        for is_idempotent in (False, True):
            micros = asyncio.run(run(options.batches, options.group, size_bytes, is_idempotent=is_idempotent))
            kind = "idempotent" if is_idempotent else "plain"
            print(f"{size_bytes // 1024:3d} KiB {kind:10s} {micros:6.2f} us per batch (groups of {options.group})")
    if options.profile:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
