"""A small world for the broker: partition managers over the fake store, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, TopicPartition
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader, batches, verify_crc
from tests.fakes.clock import FakeClock
from tests.fakes.namespace import files_below
from tests.fakes.opener import FakeOpener
from tests.fakes.store import FakeClient, FakeStore, Faults
from tests.simulation.loop import VirtualTimeLoop
from tests.support.flagged_batch import flagged_batch
from tests.support.produced_batch import produced_batch

T = TypeVar("T")

KEY = TopicPartition(UUID(int=7), 0)
CONFIG = LogConfig(segment_bytes=1 << 20)
SETTINGS = BrokerSettings(tail_cache_bytes_max=1 << 20, backoff_first_s=0.01, backoff_max_s=1.0, idle_starts_max=0)


def virtual(main: Callable[[], Coroutine[Any, Any, T]], *, time_limit_s: float = 3600.0) -> T:
    """Run it on virtual time; whatever failed unheard fails the test."""
    loop = VirtualTimeLoop(time_limit_s=time_limit_s)
    try:
        result = loop.run_until_complete(main())
        assert not loop.failures, loop.failures
        return result
    finally:
        loop.discard()


class Owner:
    """One process with one manager. Made anew for each leader epoch, as a restarted process would be."""

    def __init__(self, world: World, leader_epoch: int, config: LogConfig, floor: int) -> None:
        self.name = f"owner-{leader_epoch}"
        self.client: FakeClient = world.store.client(self.name)
        self.manager = PartitionManager(self.client, self.name, world.clock, Random(leader_epoch), world.settings)
        self.manager.context.opener = FakeOpener(asyncio.get_running_loop(), Random(leader_epoch))
        self.manager.assign(KEY, leader_epoch, "topic", config, floor)

    async def log(self) -> PartitionRuntime:
        return await self.manager.leader_of(KEY)

    def kill(self) -> None:
        """kill -9: nothing it waits for ever ends."""
        self.client.kill()
        self.manager._upkeep_timer.cancel()
        self.manager._retention_timer.cancel()


class World:
    """A store, a clock, and owners one after the other."""

    def __init__(self, seed: int = 0, faults: Faults | None = None, *, node_count: int = 3, **settings: Any) -> None:
        self.random = Random(seed)
        self.store = FakeStore(Random(seed + 1), faults, node_count=node_count)
        self.clock = FakeClock()
        self.settings = replace(SETTINGS, **settings)
        self.leader_epoch = 0
        self.owners: list[Owner] = []  # a dead process's tasks must not be collected as garbage

    def owner(self, config: LogConfig = CONFIG, floor: int = 0) -> Owner:
        self.leader_epoch += 1
        self.owners.append(Owner(self, self.leader_epoch, config, floor))
        return self.owners[-1]

    def lose_nodes(self, count: int, *, is_hung: bool = False) -> None:
        """So many of those that are up."""
        for name in self.store.nodes.up()[:count]:
            self.store.lose_node(name, is_hung=is_hung)

    def return_nodes(self) -> None:
        for name in self.store.nodes.states:
            self.store.return_node(name)

    def open_files(self) -> list[str]:
        return [path for path, file in files_below(self.store.namespace.root, "") if file.is_open]

    def calm(self) -> None:
        self.store.faults.__init__()  # type: ignore[misc]


def batch_of(*values: bytes, clock: FakeClock | None = None, **options: Any) -> bytearray:
    now_ms = (clock or FakeClock()).now_ms()
    return flagged_batch([Record(b"k", value, timestamp_ms=now_ms) for value in values], **options)


def sequenced(sequence: int, *values: bytes, producer_epoch: int = 0) -> bytearray:
    return batch_of(*values, producer_id=9, producer_epoch=producer_epoch, base_sequence=sequence)


def append(log: PartitionRuntime, data: bytes | bytearray, **options: Any) -> asyncio.Future[AppendResult]:
    """The result of one produce. The bytes are copied, so they may be sent again."""
    result: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()

    def done(answer: AppendResult) -> None:
        assert not result.done(), "answered twice"
        result.set_result(answer)

    log.append(produced_batch(log.topic_partition, memoryview(bytearray(data)), done, **options))
    return result


async def produce(log: PartitionRuntime, *values: bytes) -> int:
    """One batch; its base offset."""
    result = await append(log, batch_of(*values))
    assert result.error_code is ErrorCode.NONE, result
    return result.base_offset


async def read_all(log: PartitionRuntime, chunk_bytes: int = 2000) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record from the log start to the high watermark, checked batch by batch."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while (chunk := await log.read(offset, chunk_bytes)) is not None:
        for position, header in batches(chunk.data):
            verify_crc(chunk.data, position, header)
            assert header.base_offset <= offset < header.end_offset, "batches do not follow each other"
            found.extend(
                (record.offset, record.value)
                for record in decode_records(chunk.data, position)
                if record.offset >= log.log_start_offset
            )
            offset = header.end_offset
    assert offset == log.high_watermark
    return found


async def read_from_store(owner: Owner) -> list[tuple[int, bytes | None]]:
    """As read_all, but nothing comes from memory."""
    log = await owner.log()
    log.inspect().tail.clear()
    return await read_all(log)


def header_of(view: memoryview) -> BatchHeader:
    return BatchHeader.parse(view)
