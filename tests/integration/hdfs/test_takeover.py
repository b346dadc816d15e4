"""A new owner closes the files of one that is busy, idle or gone, on a real HDFS."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.store import FileMissing, StorageUnavailable, StoreError
from testing.hdfs import PATIENT, PATIENT_WITH_PAUSED, config_of, fresh_root, until
from tests.support.hdfs_rivals import Client, Segment, clients

pytestmark = [pytest.mark.contract, pytest.mark.safety]

# Longer than the tests take that look at what a client still remembers.
BAD_NODE_EXPIRY_S = 120.0


async def test_a_busy_writer_is_stopped_and_keeps_what_it_was_acknowledged(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        for number in range(5):
            segment = await Segment.open(old, f"{hdfs_config.root}/{number}", 3_000)
            writing = asyncio.create_task(segment.append_until_broken(10_007))
            await segment.until_acked(200_000)
            length_bytes = await new.take_over(segment.path, old.name)
            async with asyncio.timeout(30):
                await writing
            assert length_bytes >= segment.acked
            # A DataNode may not take its replica up again after its writer was interrupted in the middle: it is left out.
            last = (await new.blocks(segment.path)).last
            assert last is not None
            assert len(last.nodes) >= 2
            await new.check_replicas(segment.path, last.nodes, length_bytes)
        assert "recover_lease" not in new.namenode.called


async def test_an_idle_writer_is_stopped(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 12_345)
        assert await new.take_over(segment.path, old.name) == 12_345
        with pytest.raises(StoreError):
            await segment.append(1)
        with pytest.raises(StoreError):
            await segment.writing.heartbeat()
        with pytest.raises(StoreError):
            await old.namenode.add_block(segment.path, holder=old.name, file_id=segment.file_id, previous=segment.block)
        with pytest.raises(StoreError):
            await segment.complete(12_345)
        late = await Segment.create(old, f"{hdfs_config.root}/g")
        late.located = segment.located
        with pytest.raises(StoreError):
            await late.connect()
        await new.check_replicas(segment.path, segment.nodes, 12_345)
        assert "recover_lease" not in new.namenode.called


@pytest.mark.parametrize("length_bytes", [0, 1, 4_096, 4_097, 300_000])
async def test_a_dead_writer_leaves_what_it_wrote(hdfs_config: HdfsConfig, length_bytes: int) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", length_bytes)
        segment.abort()
        assert await new.take_over(segment.path, old.name) == length_bytes
        await new.check_replicas(segment.path, segment.nodes, length_bytes)
        assert "recover_lease" not in new.namenode.called


async def test_a_closed_file_is_as_long_as_it_is_and_nothing_is_asked_of_it(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 5_000)
        await segment.writing.finish()
        await segment.complete_at_last(5_000)
        assert await new.take_over(segment.path, old.name) == 5_000
        assert await new.take_over(segment.path, None) == 5_000
        assert set(new.namenode.called) <= {"make_directory", "file_info"}


async def test_the_file_is_found_under_its_new_path_after_a_rename(hdfs_config: HdfsConfig) -> None:
    root = hdfs_config.root
    async with clients(hdfs_config, "old", "new") as (old, new):
        await new.namenode.make_directory(f"{root}/5.open", with_parents=False)
        segment = await Segment.open(old, f"{root}/5.open/f", 5_000)
        await new.namenode.rename(f"{root}/5.open", f"{root}/5")
        assert await segment.append(100) == 5_100  # a rename alone stops nobody
        with pytest.raises(FileMissing):
            await new.take_over(segment.path, old.name)
        assert await new.take_over(f"{root}/5/f", old.name) == 5_100
        await new.check_replicas(f"{root}/5/f", segment.nodes, 5_100)
        segment.abort()


async def test_a_file_that_is_not_there_is_missing(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "new") as (new,):
        for previous_holder in ("old", None):
            with pytest.raises(FileMissing):
                await new.take_over(f"{hdfs_config.root}/f", previous_holder)
            with pytest.raises(FileMissing):
                await new.take_over(hdfs_config.root, previous_holder)


async def test_own_files_are_taken_over_the_same_way(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "new") as (new,):
        segment = await Segment.open(new, f"{hdfs_config.root}/f", 5_000)
        assert await new.take_over(segment.path, new.name) == 5_000
        await new.check_replicas(segment.path, segment.nodes, 5_000)
        segment.abort()


@pytest.mark.parametrize("holder", [None, "somebody else"])
async def test_without_the_right_name_the_lease_is_recovered(hdfs_config: HdfsConfig, holder: str | None) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 5_000)
        writing = asyncio.create_task(segment.append_until_broken(1_000))
        length_bytes = await new.take_over(segment.path, holder)
        async with asyncio.timeout(30):
            await writing
        assert length_bytes >= segment.acked
        # The recovering DataNode may go on without one of the others, whose replica is then stale.
        last = (await new.blocks(segment.path)).last
        assert last is not None and last.nodes
        await new.check_replicas(segment.path, last.nodes, length_bytes)
        assert "recover_lease" in new.namenode.called


async def test_another_checksum_chunk_in_the_new_owners_configuration_does_no_harm(hdfs_config: HdfsConfig) -> None:
    """DataNodes refuse a writer with another chunk only after they took its generation stamp."""
    changed = replace(hdfs_config, checksum_chunk_bytes=512)
    async with clients(hdfs_config, "old") as (old,), clients(changed, "new") as (new,):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 70_001)
        assert await new.take_over(segment.path, old.name) == 70_001
        with pytest.raises(StoreError):
            await segment.append(1)
        last = (await new.blocks(segment.path)).last
        assert last is not None
        await new.check_replicas(segment.path, last.nodes, 70_001)


async def test_nodes_that_are_only_suspected_are_used_rather_than_to_close_on_one(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        for node in segment.nodes[1:]:
            new.bad_nodes.add(node)
        assert await new.take_over(segment.path, old.name) == 9_000
        await new.check_replicas(segment.path, segment.nodes, 9_000)
        assert "recover_lease" not in new.namenode.called
        segment.abort()


# --- DataNodes that are gone


@pytest.mark.hurt
async def test_a_hung_datanode_that_comes_back_with_a_stale_replica_harms_nothing(own_hdfs: HdfsCluster) -> None:
    """It even goes on answering its old writer; the NameNode drops what it has, and copies the block anew."""
    config = config_of(own_hdfs, fresh_root("back"), **PATIENT_WITH_PAUSED)  # type: ignore[arg-type]
    store = await HdfsStore.open(config, Random(1))
    try:
        async with clients(config, "old") as (old,):
            segment = await Segment.open(old, f"{config.root}/f", 9_000)
            assert await store.count_replicas("f") == 3
            hung = own_hdfs.datanode_at(segment.nodes[0].transfer)
            await hung.pause()
            try:
                assert await store.take_over("f", previous_holder=old.name) == 9_000
                assert await store.count_replicas("f") <= 2
            finally:
                await hung.resume()

            async def is_copied() -> bool:
                return await store.count_replicas("f") == 3

            await until(is_copied, 60, "three replicas again")
            last = (await old.blocks(segment.path)).last
            assert last is not None
            assert len(last.nodes) == 3
            await old.check_replicas(segment.path, last.nodes, 9_000)
            segment.abort()
    finally:
        await store.close()


@pytest.mark.campaign("hdfs-faults")
async def test_a_dead_datanode_does_not_count_although_it_is_listed(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("counted"), **PATIENT)  # type: ignore[arg-type]
    store = await HdfsStore.open(config, Random(1))
    try:
        async with clients(config, "old") as (old,):
            segment = await Segment.open(old, f"{config.root}/f", 9_000)
            assert await store.take_over("f", previous_holder=old.name) == 9_000

            async def are_listed() -> bool:
                return len(await store.locate("f")) == 3

            await until(are_listed, 30, "all replicas are listed")
            assert await store.count_replicas("f") == 3
            await own_hdfs.datanode(1).kill()
            assert await store.count_replicas("f") == 2
            assert len(await store.locate("f")) == 3  # for as long as the NameNode takes it for alive
            segment.abort()
    finally:
        await store.close()


@pytest.mark.hurt
async def test_with_a_killed_datanode_the_others_close_the_file(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("killed"), **PATIENT, bad_node_expiry_s=BAD_NODE_EXPIRY_S)  # type: ignore[arg-type]
    async with clients(config, "old", "new") as (old, new):
        segments = [await Segment.open(old, f"{config.root}/{number}", 1_000 + number) for number in range(4)]
        empty = await Segment.allocate(old, f"{config.root}/empty")
        finished = await Segment.open(old, f"{config.root}/finished", 7_000)
        await finished.writing.finish()
        dead = own_hdfs.datanodes[1]
        await own_hdfs.datanode(1).kill()
        for segment in [*segments, empty, finished]:
            length_bytes = await new.take_over(segment.path, old.name)
            assert length_bytes == (7_000 if segment is finished else segment.acked)
            survivors = [node for node in segment.nodes if node.transfer != dead]
            await new.check_replicas(segment.path, survivors, length_bytes)
            segment.abort()
        assert "recover_lease" not in new.namenode.called
        assert [node.transfer for node in new.bad_nodes.current()] == [dead]
        # What the dead node has is stale: it is dropped, and harms nothing.
        await own_hdfs.datanode(1).start()
        for segment in segments:
            await new.check_replicas(segment.path, [n for n in segment.nodes if n.transfer != dead], segment.acked)


@pytest.mark.campaign("hdfs-faults")
async def test_a_hung_datanode_costs_one_timeout_and_the_next_takeover_skips_it(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("hung"), **PATIENT_WITH_PAUSED, bad_node_expiry_s=BAD_NODE_EXPIRY_S)  # type: ignore[arg-type]
    async with clients(config, "old", "new") as (old, new):
        segments = [await Segment.open(old, f"{config.root}/{number}", 1_000 + number) for number in range(3)]
        await own_hdfs.datanode(2).pause()
        hung = own_hdfs.datanodes[2]
        try:
            suspicions = suspicions_of(new)
            for segment in segments:
                assert await new.take_over(segment.path, old.name) == segment.acked
                if segment is segments[0]:
                    assert {node.transfer for node in suspicions} == {hung}
                    suspicions.clear()
                survivors = [node for node in segment.nodes if node.transfer != hung]
                await new.check_replicas(segment.path, survivors, segment.acked)
                segment.abort()
        finally:
            await own_hdfs.datanode(2).resume()
        assert suspicions == [], "it was asked again, and waited for again"
        assert "recover_lease" not in new.namenode.called


def suspicions_of(client: Client) -> list[DataNode]:
    """Filled from now on: a DataNode for each time that it was waited for in vain."""
    found: list[DataNode] = []
    remember = client.bad_nodes.add

    def add(node: DataNode) -> None:
        found.append(node)
        remember(node)

    client.bad_nodes.add = add  # type: ignore[method-assign]
    return found


@pytest.mark.campaign("hdfs-faults")
async def test_no_datanode_at_all_is_said_at_once_and_a_later_call_works(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("none"), **PATIENT_WITH_PAUSED)  # type: ignore[arg-type]
    async with clients(config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{config.root}/f", 5_000)
        for index in range(3):
            await own_hdfs.datanode(index).pause()
        try:
            async with asyncio.timeout(10 * config.connect_timeout_s):
                with pytest.raises(StorageUnavailable, match="none of its DataNodes"):
                    await new.take_over(segment.path, old.name)
        finally:
            for index in range(3):
                await own_hdfs.datanode(index).resume()
        assert await new.take_over(segment.path, old.name) == 5_000
        await new.check_replicas(segment.path, segment.nodes, 5_000)
        assert "recover_lease" not in new.namenode.called
        segment.abort()


@pytest.mark.hurt
async def test_a_restarted_datanode_waits_for_recovery_and_is_left_out(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("restarted"), **PATIENT)  # type: ignore[arg-type]
    async with clients(config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{config.root}/f", 5_000)
        everywhere = await Segment.open(old, f"{config.root}/g", 6_000)
        restarted = own_hdfs.datanodes[0]
        await own_hdfs.datanode(0).restart()
        assert await new.take_over(segment.path, old.name) == 5_000
        await new.check_replicas(segment.path, [n for n in segment.nodes if n.transfer != restarted], 5_000)
        assert "recover_lease" not in new.namenode.called
        store = await HdfsStore.open(config, Random(1))
        assert await store.visible_length("g") == 6_000
        # All of them restarted: only lease recovery can use such replicas.
        for index in (1, 2):
            await own_hdfs.datanode(index).restart()
        assert await store.visible_length("g") == 0, "none of them says how much it has"
        await store.close()
        assert await new.take_over(everywhere.path, old.name) == 6_000
        assert "recover_lease" in new.namenode.called
        segment.abort()
        everywhere.abort()
