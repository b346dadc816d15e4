"""Calls that were given up and that the NameNode carries out late: who owns a partition, and what is in it, stays the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

import pytest

from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Fenced
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.config import LogConfig
from bmq.log.store import FencedWriter, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.clock import FakeClock
from tests.support.given_up import GivenUp
from tests.unit.broker.world import KEY, append, batch_of, produce, read_all

pytestmark = [pytest.mark.contract, pytest.mark.safety]


@dataclass(slots=True)
class Process:
    """One server process: its own client of HDFS, and the partition at one epoch."""

    store: HdfsStore
    manager: PartitionManager

    @classmethod
    async def start(cls, config: HdfsConfig, epoch: int) -> Process:
        store = await HdfsStore.open(config, Random(epoch))
        manager = PartitionManager(store, f"owner-{epoch}", FakeClock(), Random(epoch))
        manager.assign(KEY, epoch, "topic", LogConfig(segment_bytes=1 << 20))
        return cls(store, manager)

    async def close(self) -> None:
        await self.manager.close()
        await self.store.close()


@pytest.fixture
async def pair(hdfs_config: HdfsConfig) -> AsyncIterator[tuple[Process, Process]]:
    first, second = await Process.start(hdfs_config, 1), await Process.start(hdfs_config, 2)
    try:
        yield first, second
    finally:
        await second.close()
        await first.close()


async def test_a_directory_that_the_namenode_makes_again_late_makes_no_owner(pair: tuple[Process, Process]) -> None:
    first, second = pair
    log = await first.manager.leader_of(KEY)
    await produce(log, b"one")
    log2 = await second.manager.leader_of(KEY)
    await first.store.make_directory(log.inspect().paths.own)
    with pytest.raises(KafkaError) as raised:
        await log.delete_records(1)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(FencedWriter):
        await log.prove_ownership()
    assert isinstance(log.state, Fenced)
    assert (await append(log, batch_of(b"zombie"))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log2.log_start_offset == 0
    assert await produce(log2, b"two") == 1
    assert [value for _, value in await read_all(log2)] == [b"one", b"two"]


async def test_a_start_whose_calls_are_given_up_goes_on_under_other_names(pair: tuple[Process, Process]) -> None:
    first, second = pair
    log = await first.manager.leader_of(KEY)
    await produce(log, b"one")
    given_up = [GivenUp(second.store, name) for name in ("make_directory", "write_file", "create_segment", "rename")]
    log2 = await second.manager.leader_of(KEY)
    assert await produce(log2, b"two") == 1
    assert all(not each.count for each in given_up)
    for each in given_up:
        await each.carry_out()
    assert await produce(log2, b"three") == 2
    await log2.prove_ownership()
    log2.inspect().tail.clear()
    assert [value for _, value in await read_all(log2)] == [b"one", b"two", b"three"]


async def test_an_owners_name_is_not_removed_when_writing_it_fails(hdfs_config: HdfsConfig) -> None:
    """A removal could be carried out after the claim has passed, and open the epoch to another claimer."""
    store = await HdfsStore.open(hdfs_config, Random(1))
    try:
        await store.make_directories("topics/t/0/00000001.open")
        path = "topics/t/0/00000001.open/owner.a"
        GivenUp(store.namenode, "complete")
        with pytest.raises(StorageUnavailable):
            await store.write_file(path, b"", holder="a")
        status = await store.status(path)
        assert status is not None and status.is_open
        assert await store.take_over(path, previous_holder="a") == 0
    finally:
        await store.close()
