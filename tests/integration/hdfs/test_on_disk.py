"""What is to be on the disks of the DataNodes is synced there, whoever closes it (rule 26); by their own count of syncs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from bmq.dev.hadoop_configuration import METRICS_AGE_MAX_MS
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.http_get import http_get
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.mending import SegmentMender
from bmq.hdfs.store import HdfsStore
from bmq.hdfs.writer import BrokenSegment
from bmq.log.store import Durability, StorageUnavailable, StoreError
from testing.hdfs import PATIENT, config_of, fresh_root
from tests.support.hdfs_rivals import Client, Segment, append, clients

pytestmark = [pytest.mark.hurt, pytest.mark.safety]

LENGTH_BYTES = 70_001


@pytest.fixture
def hdfs(own_hdfs: HdfsCluster) -> HdfsCluster:
    """No other test has something synced there: DataNodes count all syncs together."""
    return own_hdfs


async def syncs_of(cluster: HdfsCluster, without: Address | None) -> dict[Address, int]:
    """How often each DataNode has put a replica on its disk, by transfer address. What it told before may be told again for a moment."""
    await asyncio.sleep(2 * METRICS_AGE_MAX_MS / 1000)
    found = {}
    for node in cluster.plan.datanodes:
        if node.transfer != without:
            answer = json.loads(await http_get(node.http, "/jmx?qry=Hadoop:service=DataNode,name=DataNodeActivity-*"))
            found[node.transfer] = sum(bean["FsyncCount"] for bean in answer["beans"])
    return found


class Syncs:
    """`nodes`: those that synced something inside the `with` block."""

    nodes: frozenset[Address] = frozenset()


@asynccontextmanager
async def syncs(cluster: HdfsCluster, without: Address | None = None) -> AsyncIterator[Syncs]:
    found = Syncs()
    before = await syncs_of(cluster, without)
    yield found
    after = await syncs_of(cluster, without)
    found.nodes = frozenset(address for address, count in after.items() if count > before[address])


def transfers(segment: Segment) -> frozenset[Address]:
    return frozenset(node.transfer for node in segment.nodes)


def broken(segment: Segment, acked_bytes: int, *, is_synced: bool = True) -> BrokenSegment:
    assert segment.located is not None
    return BrokenSegment(
        path="f",
        absolute_path=segment.path,
        file_id=segment.file_id,
        holder=segment.client.name,
        located=segment.located,
        failed=(),
        acked_bytes=acked_bytes,
        is_synced=is_synced,
    )


async def finalized(client: Client, path: str, count: int = 3) -> Segment:
    """Its writer died when this many of the replicas were finalized, and before the file was completed."""
    segment = await Segment.allocate(client, path)
    streams = list((await segment.connect_each()).values())
    for stream in streams:
        await append(stream, LENGTH_BYTES)
    for stream in streams[:count]:
        await stream.finish()
    for stream in streams:
        stream.abort()
    return segment


async def test_what_a_new_owner_closes_is_synced_only_where_that_is_asked_for(
    hdfs: HdfsCluster, hdfs_config: HdfsConfig
) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        for is_sync in (False, True):
            segment = await Segment.open(old, f"{hdfs_config.root}/{is_sync}", LENGTH_BYTES)
            async with syncs(hdfs) as synced:
                assert await new.take_over(segment.path, old.name, is_sync=is_sync) == LENGTH_BYTES
            assert synced.nodes == (transfers(segment) if is_sync else frozenset())
            await new.check_replicas(segment.path, segment.nodes, LENGTH_BYTES)
            segment.abort()
        assert {"append", "recover_lease"}.isdisjoint(new.namenode.called)


async def test_what_lease_recovery_closes_is_synced(hdfs: HdfsCluster, hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", LENGTH_BYTES)
        async with syncs(hdfs) as synced:
            assert await new.take_over(segment.path, None, is_sync=True) == LENGTH_BYTES
        assert "recover_lease" in new.namenode.called
        last = (await new.blocks(segment.path)).last
        assert last is not None
        assert synced.nodes >= {node.transfer for node in last.nodes} > set()
        await new.check_replicas(segment.path, [n for n in segment.nodes if n.transfer in synced.nodes], LENGTH_BYTES)
        with pytest.raises(StoreError):
            await segment.append(1)
        with pytest.raises(StoreError):
            await segment.complete(LENGTH_BYTES)
        segment.abort()


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_replicas_that_their_writer_had_finalized_are_synced(
    hdfs: HdfsCluster, hdfs_config: HdfsConfig, count: int
) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        taken = await finalized(old, f"{hdfs_config.root}/taken", count)
        async with syncs(hdfs) as synced:
            assert await new.take_over(taken.path, old.name, is_sync=True) == LENGTH_BYTES
        assert synced.nodes == transfers(taken)
        await new.check_replicas(taken.path, taken.nodes, LENGTH_BYTES)
        mended = await finalized(old, f"{hdfs_config.root}/mended", count)
        async with syncs(hdfs) as synced:
            assert await SegmentMender(old.tools).mend(broken(mended, LENGTH_BYTES)) == (LENGTH_BYTES, 3)
        assert synced.nodes == transfers(mended)
        await new.check_replicas(mended.path, mended.nodes, LENGTH_BYTES)


async def test_a_block_that_was_committed_before_its_replicas_were_reported_is_synced(
    hdfs: HdfsCluster, hdfs_config: HdfsConfig
) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", LENGTH_BYTES)
        assert not await segment.complete(LENGTH_BYTES)
        await segment.writing.finish()
        async with syncs(hdfs) as synced:
            assert await new.take_over(segment.path, old.name, is_sync=True) == LENGTH_BYTES
        last = (await new.blocks(segment.path)).last
        assert last is not None
        assert synced.nodes >= {node.transfer for node in last.nodes} > set()
        await new.check_replicas(segment.path, last.nodes, LENGTH_BYTES)


@pytest.mark.parametrize("is_synced", [False, True])
async def test_what_its_owner_mends_is_synced_where_it_was_written_so(
    hdfs: HdfsCluster, hdfs_config: HdfsConfig, is_synced: bool
) -> None:
    async with clients(hdfs_config, "own") as (own,):
        segment = await Segment.open(own, f"{hdfs_config.root}/f", LENGTH_BYTES)
        segment.abort()
        async with syncs(hdfs) as synced:
            assert await SegmentMender(own.tools).mend(broken(segment, LENGTH_BYTES, is_synced=is_synced)) == (
                LENGTH_BYTES,
                3,
            )
        assert synced.nodes == (transfers(segment) if is_synced else frozenset())


@pytest.mark.parametrize("step", ["complete", "append", "update_pipeline"])
async def test_a_namenode_that_is_lost_meanwhile_leaves_nothing_unsynced(
    hdfs: HdfsCluster, hdfs_config: HdfsConfig, step: str
) -> None:
    """The file may be closed already, or open again; the next call does what is missing."""

    async def lost() -> None:
        raise StorageUnavailable("no NameNode answers")

    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await finalized(old, f"{hdfs_config.root}/f")
        new.namenode.after[step] = [lost]
        with pytest.raises(StorageUnavailable):
            await new.take_over(segment.path, old.name, is_sync=True)
        async with syncs(hdfs) as synced:
            assert await new.take_over(segment.path, old.name, is_sync=True) == LENGTH_BYTES
        assert len(synced.nodes) == 3
        await new.check_replicas(segment.path, segment.nodes, LENGTH_BYTES)


async def test_an_owner_that_closes_its_segment_syncs_that_it_is_finalized(
    hdfs: HdfsCluster, hdfs_config: HdfsConfig
) -> None:
    """Data alone is not enough: a replica that is not in its final directory after a power loss counts as corrupt."""
    store = await HdfsStore.open(hdfs_config, Random(1))
    try:
        for durability in Durability:
            writer = await store.create_segment(
                str(durability), holder="h", durability=durability, segment_bytes=LENGTH_BYTES
            )
            await writer.append([bytes(LENGTH_BYTES)])
            async with syncs(hdfs) as synced:
                assert await writer.close() == LENGTH_BYTES
            assert bool(synced.nodes) is (durability is Durability.HSYNC)
    finally:
        await store.close()


async def test_a_segment_that_is_full_can_still_be_synced(hdfs: HdfsCluster, hdfs_config: HdfsConfig) -> None:
    store = await HdfsStore.open(hdfs_config, Random(1))
    try:
        segment_bytes = 2 * 1024 * 1024
        writer = await store.create_segment(
            "full", holder="h", durability=Durability.HFLUSH, segment_bytes=segment_bytes
        )
        await writer.append([bytes(segment_bytes)])
        assert await writer.close() == segment_bytes
        async with syncs(hdfs) as synced:
            assert await store.take_over("full", previous_holder="h", durability=Durability.HSYNC) == segment_bytes
        assert len(synced.nodes) == writer.replicas
    finally:
        await store.close()


@pytest.mark.hurt
async def test_a_node_that_is_down_is_left_out_when_a_closed_file_is_synced(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("down"), **PATIENT)  # type: ignore[arg-type]
    async with clients(config, "old", "new") as (old, new):
        segment = await finalized(old, f"{config.root}/f")
        await segment.complete_at_last(LENGTH_BYTES)
        dead = own_hdfs.datanodes[1]
        await own_hdfs.datanode(1).kill()
        async with syncs(own_hdfs, without=dead) as synced:
            assert await new.take_over(segment.path, old.name, is_sync=True) == LENGTH_BYTES
        assert synced.nodes == transfers(segment) - {dead}
        survivors = [node for node in segment.nodes if node.transfer != dead]
        await new.check_replicas(segment.path, survivors, LENGTH_BYTES)
