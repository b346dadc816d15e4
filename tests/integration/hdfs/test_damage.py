"""Rule 25 on a real HDFS: a manifest that was never finished is told from one that rotted, and a good replica is enough."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.damage import StateDamaged, accept
from bmq.log.damage_report import report_damage
from bmq.log.partition_log import StateSnapshot
from bmq.log.store import Durability
from testing.hdfs import replicas_of
from tests.unit.log.owned_log import PARTITION, Owner, batch_of

pytestmark = [pytest.mark.contract, pytest.mark.safety]


@pytest.fixture
async def stores(hdfs_config: HdfsConfig) -> AsyncIterator[list[HdfsStore]]:
    async with AsyncExitStack() as stack:
        opened = []
        for number in range(4):
            opened.append(await HdfsStore.open(hdfs_config, Random(number)))
            stack.push_async_callback(opened[-1].close)
        yield opened


def rot(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


async def written(store: HdfsStore) -> Owner:
    owner = await Owner(store, 1).start()
    for _ in range(2):
        await owner.produce(batch_of(2))
        await owner.roll_segment()
    await owner.files.write_manifest()
    return owner


@pytest.mark.parametrize("length", [0, 10, 150])
async def test_a_manifest_that_its_writer_never_closed_is_passed_over(stores: list[HdfsStore], length: int) -> None:
    old = await written(stores[0])
    half = old.files.manifest().encode()
    assert length < len(half)
    writer = await stores[0].create_segment(
        old.paths.manifest(2), holder=old.holder, durability=Durability.HFLUSH, segment_bytes=1 << 20
    )
    if length:
        await writer.append([half[:length]])
    writer.abandon()  # its process died
    new = await Owner(stores[1], 2).start()
    assert await new.read_all() == b"".join(old.acknowledged)


async def test_a_manifest_that_rotted_on_every_node_takes_the_partition_offline(
    hdfs: HdfsCluster, stores: list[HdfsStore]
) -> None:
    old = await written(stores[0])
    replicas = replicas_of(hdfs, old.files.manifest().encode())
    assert len(replicas) == 3
    for path in replicas[:2]:
        rot(path)
    new = await Owner(stores[1], 2).start()  # one good replica is enough
    assert await new.read_all() == b"".join(old.acknowledged)
    for path in replicas_of(hdfs, new.recovered.manifest(2).encode()):
        rot(path)
    with pytest.raises(StateDamaged, match=r"00000002/manifest\.00000000 is damaged"):
        await Owner(stores[2], 3).start()
    report = await report_damage(stores[2], PARTITION, is_state=False)
    assert (report.log_start_offset, report.end_offset) == (0, 4)
    await accept(stores[2], report.damages[0], holder="operator", now_ms=1)
    newest = await Owner(stores[3], 4).start()
    assert await newest.read_all() == b"".join(old.acknowledged)


async def test_a_snapshot_that_rotted_is_not_done_without(hdfs: HdfsCluster, stores: list[HdfsStore]) -> None:
    old = await written(stores[0])
    state = Random(7).randbytes(5_000)
    await old.files.save_snapshot(StateSnapshot(8, state))
    replicas = replicas_of(hdfs, state)
    assert len(replicas) == 3
    for path in replicas[:2]:
        rot(path)
    new = await Owner(stores[1], 2).start()
    assert await new.files.latest_snapshot(8) == StateSnapshot(8, state)
    for path in replicas_of(hdfs, state):
        rot(path)
    newer = await Owner(stores[2], 3).start()
    with pytest.raises(StateDamaged, match=r"snapshot\.00000000 is damaged"):
        await newer.files.latest_snapshot(8)
