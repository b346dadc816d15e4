"""An owner closes its own broken segment, on a real HDFS whose DataNodes die, hang and come back meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.lease_renewal import LeaseRenewal
from bmq.hdfs.mending import SegmentMender
from bmq.hdfs.segment_opening import SegmentOpening
from bmq.hdfs.writer import BrokenSegment, HdfsWriter
from bmq.log.store import Durability, FencedWriter, StorageUnavailable, WriterBroken
from testing.hdfs import PATIENT, PATIENT_WITH_PAUSED, config_of, fresh_root
from tests.support.hdfs_rivals import BLOCK_BYTES, Client, Segment, append, clients, content

pytestmark = [pytest.mark.contract, pytest.mark.safety]


def broken(segment: Segment, acked_bytes: int) -> BrokenSegment:
    assert segment.located is not None
    return BrokenSegment(
        path="f",
        absolute_path=segment.path,
        file_id=segment.file_id,
        holder=segment.client.name,
        located=segment.located,
        failed=(),
        acked_bytes=acked_bytes,
    )


async def left_by_lengths(client: Client, path: str, lengths: list[int]) -> Segment:
    """The writer's connections are gone, its nodes hold these many bytes."""
    segment = await Segment.allocate(client, path)
    for stream, length_bytes in zip((await segment.connect_each()).values(), lengths, strict=True):
        await append(stream, length_bytes)
        stream.abort()
    return segment


async def test_replicas_of_different_lengths_are_closed_at_the_longest(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own") as (own,):
        recovery = SegmentMender(own.tools)
        for number, lengths in enumerate([[5_000, 9_000, 7_000], [8_192, 8_192, 8_192], [4_097, 1, 4_096]]):
            segment = await left_by_lengths(own, f"{hdfs_config.root}/{number}", lengths)
            assert await recovery.mend(broken(segment, min(lengths))) == (max(lengths), 3)
            await own.check_replicas(segment.path, segment.nodes, max(lengths))
            assert "recover_lease" not in own.namenode.called


async def test_nothing_was_written_yet(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own") as (own,):
        segment = await Segment.open(own, f"{hdfs_config.root}/f")
        segment.abort()
        assert await SegmentMender(own.tools).mend(broken(segment, 0)) == (0, 3)
        await own.check_replicas(segment.path, segment.nodes, 0)


async def test_a_replica_without_what_it_acknowledged_is_not_used(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own") as (own,):
        segment = await left_by_lengths(own, f"{hdfs_config.root}/f", [9_000, 5_000, 9_000])
        assert await SegmentMender(own.tools).mend(broken(segment, 9_000)) == (9_000, 2)
        await own.check_replicas(segment.path, (segment.nodes[0], segment.nodes[2]), 9_000)


async def test_a_block_is_not_closed_below_what_was_acknowledged(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own", "new") as (own, new):
        segment = await left_by_lengths(own, f"{hdfs_config.root}/f", [5_000, 5_000, 5_000])
        length_bytes, _ = await SegmentMender(own.tools).mend(broken(segment, 9_000))
        assert length_bytes == 5_000
        assert {"complete", "update_pipeline", "recover_lease"}.isdisjoint(own.namenode.called)
        assert (await own.blocks(segment.path)).is_open
        # A new owner does not know; it has the floor (rule 5).
        assert await new.take_over(segment.path, own.name) == 5_000


async def test_an_empty_block_is_not_closed_below_what_was_acknowledged(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own") as (own,):
        segment = await Segment.allocate(own, f"{hdfs_config.root}/f")
        assert await SegmentMender(own.tools).mend(broken(segment, 1)) == (0, 0)
        assert {"complete", "update_pipeline", "recover_lease"}.isdisjoint(own.namenode.called)


async def test_a_rotten_longest_replica_is_left_out(hdfs: HdfsCluster, hdfs_config: HdfsConfig) -> None:
    """Its bytes beyond the others were acknowledged to nobody, and its checksums tell."""
    async with clients(hdfs_config, "own") as (own,):
        segment = await left_by_lengths(own, f"{hdfs_config.root}/f", [19_000, 5_000, 5_000])
        rotten = hdfs.plan.datanodes[hdfs.datanodes.index(segment.nodes[0].transfer)]
        (replica,) = (hdfs.directory / rotten.name).rglob(f"blk_{segment.block.block_id}")
        content = bytearray(replica.read_bytes())
        content[15_000] ^= 1
        replica.write_bytes(content)
        assert await SegmentMender(own.tools).mend(broken(segment, 5_000)) == (5_000, 2)
        await own.check_replicas(segment.path, segment.nodes[1:], 5_000)
        assert "recover_lease" not in own.namenode.called


async def test_mending_again_gives_the_same_answer(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own") as (own,):
        segment = await left_by_lengths(own, f"{hdfs_config.root}/f", [5_000, 9_000, 7_000])
        for _ in range(3):
            assert await SegmentMender(own.tools).mend(broken(segment, 5_000)) == (9_000, 3)


async def test_a_stream_that_broke_while_it_was_finished(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own") as (own,):
        for finalized in (1, 2, 3):
            segment = await Segment.allocate(own, f"{hdfs_config.root}/{finalized}")
            streams = list((await segment.connect_each()).values())
            for stream in streams:
                await append(stream, 9_000)
            for stream in streams[:finalized]:
                await stream.finish()
            for stream in streams:
                stream.abort()
            assert await SegmentMender(own.tools).mend(broken(segment, 9_000)) == (9_000, 3)
            await own.check_replicas(segment.path, segment.nodes, 9_000)


@pytest.mark.parametrize("step", ["file_info", "bump", "update_pipeline", "complete"])
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_namenode_that_is_lost_at_any_step_is_asked_again_later(
    hdfs_config: HdfsConfig, step: str, is_done: bool
) -> None:
    """The call may have been carried out: then the file may be closed already."""

    async def lost() -> None:
        raise StorageUnavailable("no NameNode answers")

    async with clients(hdfs_config, "own") as (own,):
        segment = await left_by_lengths(own, f"{hdfs_config.root}/f", [5_000, 9_000, 7_000])
        (own.namenode.after if is_done else own.namenode.before)[step] = [lost]
        with pytest.raises(StorageUnavailable):
            await SegmentMender(own.tools).mend(broken(segment, 5_000))
        assert await SegmentMender(own.tools).mend(broken(segment, 5_000)) == (9_000, 3)
        await own.check_replicas(segment.path, segment.nodes, 9_000)
        assert "recover_lease" not in own.namenode.called


# --- fenced


async def test_an_owner_whose_directory_was_renamed_touches_nothing(hdfs_config: HdfsConfig) -> None:
    root = hdfs_config.root
    async with clients(hdfs_config, "own", "new") as (own, new):
        await own.namenode.make_directory(f"{root}/5.open", with_parents=False)
        segment = await Segment.open(own, f"{root}/5.open/f", 5_000)
        await new.namenode.rename(f"{root}/5.open", f"{root}/5")
        segment.abort()
        own.namenode.called.clear()
        with pytest.raises(FencedWriter):
            await SegmentMender(own.tools).mend(broken(segment, 5_000))
        assert own.namenode.called == ["file_info"]
        assert await new.take_over(f"{root}/5/f", own.name) == 5_000


async def test_an_owner_whose_path_names_another_file_touches_nothing(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "own", "new") as (own, new):
        segment = await Segment.open(own, f"{hdfs_config.root}/f", 5_000)
        await new.namenode.rename(segment.path, f"{segment.path}.away")
        other = await Segment.open(new, segment.path, 100)
        segment.abort()
        with pytest.raises(FencedWriter):
            await SegmentMender(own.tools).mend(broken(segment, 5_000))
        assert await other.append(100) == 200
        other.abort()


@pytest.mark.parametrize("step", ["bump", "update_pipeline", "complete"])
@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_an_owner_that_is_replaced_while_it_repairs_ends_up_fenced(
    hdfs_config: HdfsConfig, step: str, is_taken_over: bool
) -> None:
    root = hdfs_config.root
    async with clients(hdfs_config, "own", "new") as (own, new):
        await own.namenode.make_directory(f"{root}/5.open", with_parents=False)
        segment = await left_by_lengths(own, f"{root}/5.open/f", [5_000, 9_000, 7_000])
        taken: list[int] = []

        async def replace() -> None:
            await new.namenode.rename(f"{root}/5.open", f"{root}/5")
            if is_taken_over:
                taken.append(await new.take_over(f"{root}/5/f", own.name))

        own.namenode.before[step] = [replace]
        with pytest.raises(FencedWriter):
            await SegmentMender(own.tools).mend(broken(segment, 5_000))
        length_bytes = await new.take_over(f"{root}/5/f", own.name)
        assert taken in ([], [length_bytes])
        last = (await new.blocks(f"{root}/5/f")).last
        assert last is not None
        await new.check_replicas(f"{root}/5/f", last.nodes, length_bytes)


# --- with DataNodes that die and hang


@asynccontextmanager
async def opening(client: Client) -> AsyncIterator[SegmentOpening]:
    leases = LeaseRenewal(client.namenode, client.config.lease_renewal_s)
    segments = SegmentOpening(client.config, client.namenode, client.bad_nodes, leases, SegmentMender(client.tools))
    try:
        yield segments
    finally:
        for writer in tuple(segments.writers):
            writer.abandon()
        await leases.close()


async def open_writer(segments: SegmentOpening, client: Client, name: str) -> HdfsWriter:
    return await segments.open(
        name,
        absolute_path=f"{client.config.root}/{name}",
        holder=client.name,
        durability=Durability.HFLUSH,
        segment_bytes=BLOCK_BYTES,
    )


async def write_until_broken(writer: HdfsWriter, is_acked: asyncio.Event) -> int:
    """The last acknowledged length; appends go on being under way until one fails. `is_acked`: set once there is a length."""
    acked = 0
    position = 0
    under_way: list[asyncio.Future[int]] = []
    while True:
        under_way.append(writer.append([content(position, position + 5_003)]))
        position += 5_003
        try:
            if len(under_way) >= 8:
                acked = await under_way.pop(0)
                is_acked.set()
        except WriterBroken:
            return acked
        await asyncio.sleep(0.002)


def survivors(nodes: tuple[DataNode, ...], cluster: HdfsCluster, *gone: int) -> list[DataNode]:
    return [node for node in nodes if node.transfer not in {cluster.datanodes[index] for index in gone}]


async def check_mended(client: Client, name: str, length_bytes: int, replicas: int) -> None:
    path = f"{client.config.root}/{name}"
    last = (await client.blocks(path)).last
    assert last is not None
    assert 1 <= len(last.nodes) <= replicas
    await client.check_replicas(path, last.nodes, length_bytes)


@pytest.mark.hurt
async def test_a_killed_datanode_costs_one_replica_and_no_byte(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("killed"), **PATIENT)  # type: ignore[arg-type]
    async with clients(config, "own") as (own,), opening(own) as segments:
        writer = await open_writer(segments, own, "f")
        is_acked = asyncio.Event()
        writing = asyncio.create_task(write_until_broken(writer, is_acked))
        async with asyncio.timeout(30):
            await is_acked.wait()
        await own_hdfs.datanode(1).kill()
        async with asyncio.timeout(30):
            acked = await writing
        length_bytes = await writer.mend()
        assert length_bytes >= acked > 0
        assert writer.replicas == 2
        await check_mended(own, "f", length_bytes, 2)
        assert "recover_lease" not in own.namenode.called


@pytest.mark.campaign("hdfs-faults")
async def test_a_hung_datanode_costs_its_timeouts_and_no_byte(own_hdfs: HdfsCluster) -> None:
    # Short enough to be waited for once, and long enough for the nodes that do not hang.
    config = config_of(own_hdfs, fresh_root("hung"), **{**PATIENT, "ack_timeout_s": 4.0})  # type: ignore[arg-type]
    loop = asyncio.get_running_loop()
    async with clients(config, "own") as (own,), opening(own) as segments:
        writer = await open_writer(segments, own, "f")
        is_acked = asyncio.Event()
        writing = asyncio.create_task(write_until_broken(writer, is_acked))
        async with asyncio.timeout(30):
            await is_acked.wait()
        await own_hdfs.datanode(1).pause()
        try:
            async with asyncio.timeout(30):
                acked = await writing
            start_s = loop.time()
            length_bytes = await writer.mend()
            # The stream's own timeout found the node, so no other is spent on it.
            assert loop.time() - start_s < 0.9 * config.connect_timeout_s
            assert length_bytes >= acked > 0
            assert writer.replicas == 2
            await check_mended(own, "f", length_bytes, 2)
        finally:
            await own_hdfs.datanode(1).resume()


@pytest.mark.campaign("hdfs-faults")
async def test_a_hung_datanode_that_has_what_was_acknowledged_is_waited_for(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("waited"), **PATIENT_WITH_PAUSED)  # type: ignore[arg-type]
    async with clients(config, "own") as (own,):
        segment = await left_by_lengths(own, f"{config.root}/f", [9_000, 5_000, 5_000])
        hung = own_hdfs.datanode_at(segment.nodes[0].transfer)
        await hung.pause()
        try:
            with pytest.raises(StorageUnavailable, match="may hold all of it"):
                await SegmentMender(own.tools).mend(broken(segment, 9_000))
        finally:
            await hung.resume()
        assert {"complete", "update_pipeline", "recover_lease"}.isdisjoint(own.namenode.called)
        assert await SegmentMender(own.tools).mend(broken(segment, 9_000)) == (9_000, 1)
        await own.check_replicas(segment.path, segment.nodes[:1], 9_000)


@pytest.mark.hurt
async def test_a_datanode_that_dies_during_the_repair_is_left_out_too(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("during"), **PATIENT)  # type: ignore[arg-type]
    async with clients(config, "own") as (own,):
        segment = await left_by_lengths(own, f"{config.root}/f", [9_000, 9_000, 9_000])
        own.namenode.before["update_pipeline"] = [own_hdfs.datanode(0).kill]
        own.namenode.before["bump"] = [own_hdfs.datanode(1).kill]
        assert await SegmentMender(own.tools).mend(broken(segment, 9_000)) == (9_000, 1)
        await own.check_replicas(segment.path, survivors(segment.nodes, own_hdfs, 0, 1), 9_000)
        assert "recover_lease" not in own.namenode.called


@pytest.mark.campaign("hdfs-faults")
async def test_without_any_datanode_it_is_tried_again_until_they_are_back(own_hdfs: HdfsCluster) -> None:
    """They come back with replicas that only lease recovery can use: the last resort."""
    config = config_of(own_hdfs, fresh_root("none"), **PATIENT)  # type: ignore[arg-type]
    async with clients(config, "own") as (own,):
        segment = await left_by_lengths(own, f"{config.root}/f", [9_000, 9_000, 9_000])
        for index in range(3):
            await own_hdfs.datanode(index).kill()
        for _ in range(2):
            with pytest.raises(StorageUnavailable, match="none of its DataNodes"):
                async with asyncio.timeout(30):
                    await SegmentMender(own.tools).mend(broken(segment, 9_000))
        for index in range(3):
            await own_hdfs.datanode(index).start()
        length_bytes, replicas = await SegmentMender(own.tools).mend(broken(segment, 9_000))
        assert length_bytes == 9_000
        assert replicas >= 1
        assert "recover_lease" in own.namenode.called
        await check_mended(own, "f", 9_000, 3)
