"""All DataNodes lose their power at once: what a topic with bmq.durability=hsync acknowledged is there afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.store import HdfsStore
from bmq.log.padding import padded_end
from bmq.log.store import Durability, StorageUnavailable, StoreError
from testing import wire
from testing.hdfs import PATIENT, config_of, new_cluster, outside_any_loop, running, until
from testing.wire import WireClient
from tests.soak.hazards import HSYNC, disks_of, lose_power
from tests.support.hdfs_rivals import Client, Segment, clients, content
from tests.support.hdfs_servers import server_on
from tests.support.unsafe_disk import UnsafeDisk

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(400), pytest.mark.safety]

TOPIC = "kept"
SIZES_BYTES = (1, 5_000, 700_000)
LENGTH_BYTES = 70_001
TAKEOVER_S_MAX = 60.0
# The NameNode recovers one lease after the other before a start has what it reads, or a partition is served.
START_S_MAX = 90.0
PRODUCE_S_MAX = 120.0


@pytest.fixture
def unsafe_hdfs(tmp_path: Path) -> Iterator[tuple[HdfsCluster, tuple[UnsafeDisk, ...]]]:
    cluster = new_cluster(tmp_path / "hdfs")
    disks = disks_of(cluster)
    try:
        for disk in disks:
            disk.make()
        with running(cluster):
            for disk in disks:
                disk.sync()
            yield cluster, disks
    finally:
        for disk in disks:
            disk.close()


async def power_loss(cluster: HdfsCluster, disks: Sequence[UnsafeDisk]) -> None:
    """Of all DataNodes; they are back when this returns."""
    await lose_power(cluster, disks, 0.0)
    await cluster.wait_live(3)


async def check_taken_over(client: Client, path: str, previous_holder: str, length_bytes: int) -> None:
    """Whole, on every node that the NameNode names."""
    assert await taken_over(client, path, previous_holder) == length_bytes
    last = (await client.blocks(path)).last
    assert last is not None
    await client.check_replicas(path, last.nodes, length_bytes)


async def taken_over(client: Client, path: str, previous_holder: str) -> int:
    return await until_ready(lambda: client.take_over(path, previous_holder, is_sync=True))


async def until_ready(take_over: Callable[[], Awaitable[int]]) -> int:
    """Tried again while the store is not ready, as an owner does."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + TAKEOVER_S_MAX
    while True:
        try:
            return await take_over()
        except StorageUnavailable:
            if loop.time() > deadline_s:
                raise
            await asyncio.sleep(0.2)


@pytest.mark.hurt
@pytest.mark.parametrize("is_server_killed", [True, False], ids=["the server too", "the server goes on"])
def test_a_synced_topic_outlives_it(
    tmp_path: Path, unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]], is_server_killed: bool
) -> None:
    """With all that it takes to find it again: the metadata log is synced whatever topics ask for."""
    cluster, disks = unsafe_hdfs
    server = server_on(cluster, tmp_path / "server", "/bmq")
    server.ready_timeout_s = START_S_MAX
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=dict(HSYNC))])[TOPIC].result(timeout=30)
        with WireClient(server.port) as client:
            answers = [client.produce(TOPIC, wire.record_batch([b"%d" % number])) for number in range(50)]
        assert [answer.error_code for answer in answers] == [wire.NONE] * 50
        if is_server_killed:
            server.kill()
        outside_any_loop(power_loss(cluster, disks))
        if is_server_killed:
            server.start()
        with WireClient(server.port, timeout_s=PRODUCE_S_MAX + 10) as client:
            after = client.produce(TOPIC, wire.record_batch([b"after"]), timeout_ms=int(PRODUCE_S_MAX * 1000))
            assert (after.error_code, after.base_offset) == (wire.NONE, 50)
            end_offset = 0
            while end_offset < 51:  # a fetch ends with a segment
                found = client.fetch(TOPIC, end_offset)
                assert (found.error_code, found.high_watermark) == (wire.NONE, 51)
                assert found.records
                end_offset = wire.end_offset_of(found.records)
    finally:
        server.close()


def test_a_whole_file_outlives_it(unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]]) -> None:
    """A manifest, a snapshot or an index that was written is there, whether or not anything was synced after it."""
    cluster, disks = unsafe_hdfs
    contents = {f"manifest.{number}": Random(number).randbytes(size) for number, size in enumerate(SIZES_BYTES)}

    async def write_and_read() -> dict[str, bytes]:
        store = await HdfsStore.open(config_of(cluster, "/whole", **PATIENT), Random(1))  # type: ignore[arg-type]
        try:
            for name, content in contents.items():
                await store.write_file(name, content, holder="owner")
            await power_loss(cluster, disks)
            return {name: await store.read_file(name, length_bytes_max=1 << 20) for name in contents}
        finally:
            await store.close()

    assert outside_any_loop(write_and_read()) == contents


@pytest.mark.parametrize("is_padded", [True, False], ids=["padded", "not padded"])
def test_what_was_synced_outlives_an_append_behind_it(
    unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]], is_padded: bool
) -> None:
    """The next append's checksum is on the disks, its bytes are not: the chunk that both share is gone (rule 27)."""
    cluster, disks = unsafe_hdfs
    path = "t/00000000.log"
    synced = b"s" * 10_000

    async def write_and_close() -> int:
        store = await HdfsStore.open(config_of(cluster, "/rewritten", **PATIENT), Random(1))  # type: ignore[arg-type]
        try:
            await store.make_directory("t")
            writer = await store.create_segment(
                path, holder="owner", durability=Durability.HSYNC, segment_bytes=1 << 20
            )
            padded_bytes = padded_end(len(synced), store.append_alignment_bytes(Durability.HSYNC))
            data = synced.ljust(padded_bytes, b"\0") if is_padded else synced
            assert await writer.append([data]) == len(data)
            await writer._stream.send([b"u" * 300], is_sync=False)
            for meta in (meta for disk in disks for meta in disk.directory.rglob("rbw/*.meta")):
                descriptor = os.open(meta, os.O_RDWR)
                os.fsync(descriptor)
                os.close(descriptor)
            writer.abandon()
            await power_loss(cluster, disks)
            return await until_ready(
                lambda: store.take_over(path, previous_holder="owner", durability=Durability.HSYNC)
            )
        finally:
            await store.close()

    length_bytes = outside_any_loop(write_and_close())
    if is_padded:
        assert length_bytes >= len(synced)
    else:
        assert length_bytes == 8192  # what HDFS does with it: the reason for the rule


@pytest.mark.parametrize("is_finalized", [False, True], ids=["being written", "finalized"])
@pytest.mark.parametrize("step", ["bump", "update_pipeline"])
def test_a_file_that_is_being_closed_outlives_it(
    unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]], step: str, is_finalized: bool
) -> None:
    """Its block has a new stamp: the NameNode must not hear of one that no disk knows, or it takes all replicas for old."""
    cluster, disks = unsafe_hdfs

    async def cut_short_and_repeated() -> None:
        config = config_of(cluster, "/closed", **PATIENT)  # type: ignore[arg-type]
        async with clients(config, "old", "new") as (old, new):
            segment = await Segment.open(old, f"{config.root}/f")
            length_bytes = await segment.writing.send([content(0, LENGTH_BYTES)], is_sync=True)
            if is_finalized:
                await segment.writing.finish(is_sync=True)
            new.namenode.after[step] = [partial(power_loss, cluster, disks)]
            with suppress(StoreError):
                await new.take_over(segment.path, old.name, is_sync=True)
            assert new.namenode.after[step] == []
            await check_taken_over(new, segment.path, old.name, length_bytes)

    outside_any_loop(cut_short_and_repeated())


def test_a_file_that_lease_recovery_has_closed_outlives_it(
    unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]],
) -> None:
    """Nobody syncs the stamp that it gave the replicas, and the NameNode takes them for corrupt ones."""
    cluster, disks = unsafe_hdfs

    async def closed_and_repeated() -> None:
        config = config_of(cluster, "/recovered", **PATIENT)  # type: ignore[arg-type]
        async with clients(config, "old", "new") as (old, new):
            segment = await Segment.open(old, f"{config.root}/f")
            length_bytes = await segment.writing.send([content(0, LENGTH_BYTES)], is_sync=True)
            new.namenode.before["append"] = [partial(power_loss, cluster, disks)]
            with suppress(StoreError):
                await new.take_over(segment.path, None, is_sync=True)
            assert new.namenode.before["append"] == []
            await check_taken_over(new, segment.path, old.name, length_bytes)

    outside_any_loop(closed_and_repeated())


def test_a_file_closed_with_more_than_the_disks_had_waits_as_it_is(
    unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]],
) -> None:
    """Lease recovery has counted bytes that nobody had synced, and they are gone: no replica can be what it says."""
    cluster, disks = unsafe_hdfs

    async def closed_and_repeated() -> None:
        config = config_of(cluster, "/short", **PATIENT)  # type: ignore[arg-type]
        async with clients(config, "old", "new") as (old, new):
            segment = await Segment.open(old, f"{config.root}/f")
            await segment.writing.send([content(0, LENGTH_BYTES)], is_sync=True)
            length_bytes = await segment.append(LENGTH_BYTES)
            assert await new.take_over(segment.path, None) == length_bytes
            await power_loss(cluster, disks)

            async def is_corrupt() -> bool:
                last = (await new.blocks(segment.path)).last
                return last is not None and last.is_corrupt

            await until(is_corrupt, 60, "the NameNode has heard of the old replicas")
            for _ in range(2):
                with pytest.raises(StorageUnavailable):
                    await new.take_over(segment.path, old.name, is_sync=True)
            blocks = await new.blocks(segment.path)
            assert (blocks.is_open, blocks.length_bytes) == (False, length_bytes)

    outside_any_loop(closed_and_repeated())


def test_a_deletion_of_records_outlives_it(
    tmp_path: Path, unsafe_hdfs: tuple[HdfsCluster, tuple[UnsafeDisk, ...]]
) -> None:
    """DeleteRecords is answered on the strength of a manifest, and no record is synced after that."""
    cluster, disks = unsafe_hdfs
    server = server_on(cluster, tmp_path / "server", "/bmq")
    server.ready_timeout_s = START_S_MAX
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=dict(HSYNC))])[TOPIC].result(timeout=30)
        with WireClient(server.port) as client:
            for number in range(20):
                assert client.produce(TOPIC, wire.record_batch([b"%d" % number])).error_code == wire.NONE
        wanted = TopicPartition(TOPIC, 0, 7)
        assert admin.delete_records([wanted])[wanted].result(timeout=30).low_watermark == 7
        server.kill()
        outside_any_loop(power_loss(cluster, disks))
        server.start()
        with WireClient(server.port, timeout_s=PRODUCE_S_MAX + 10) as client:
            after = client.produce(TOPIC, wire.record_batch([b"after"]), timeout_ms=int(PRODUCE_S_MAX * 1000))
            assert after.base_offset == 20
            assert client.fetch(TOPIC, 6).error_code == wire.OFFSET_OUT_OF_RANGE
            assert client.fetch(TOPIC, 7).error_code == wire.NONE
    finally:
        server.close()
