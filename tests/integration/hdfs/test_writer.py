"""Segments written to a real HDFS, read back by another client that checks every checksum."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import hdfs_native
import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.block_stream import BlockStream, Stage, StreamOpenFailed
from bmq.hdfs.config import HdfsConfig, WriteMode
from bmq.hdfs.store import HdfsStore
from bmq.log.store import AlreadyExists, Durability, FencedWriter, FileMissing, WriterBroken
from testing.hdfs import (
    PATIENT,
    PATIENT_WITH_PAUSED,
    config_of,
    fresh_root,
    is_heard,
    replicas_of,
    reserved_bytes,
    until,
)

pytestmark = pytest.mark.contract

SEGMENT_BYTES = 16 * 1024 * 1024
# What the DataNodes reserve has settled once so many looks in a row, with such pauses, have found the same.
SETTLED_LOOKS = 10
SETTLED_PAUSE_S = 0.2
# Longer than a busy machine takes for what follows.
BAD_NODE_EXPIRY_S = 120.0
MODES = pytest.mark.parametrize("mode", list(WriteMode))


@asynccontextmanager
async def store_of(config: HdfsConfig) -> AsyncIterator[HdfsStore]:
    store = await HdfsStore.open(config, Random(1))
    try:
        yield store
    finally:
        await store.close()


async def settled_reserved_bytes(cluster: HdfsCluster) -> list[int]:
    """Other tests' files are let go late by a node that hung, and some bytes of them never are: wait, and count from there."""
    seen: list[list[int]] = []

    async def are_settled() -> bool:
        seen.append(await reserved_bytes(cluster))
        await asyncio.sleep(SETTLED_PAUSE_S)
        return seen[-SETTLED_LOOKS:] == [seen[-1]] * SETTLED_LOOKS

    await until(are_settled, 60, "the DataNodes reserve the same for a while")
    return seen[-1]


async def read_back(config: HdfsConfig, path: str) -> bytes:
    """By a client that shares no code with ours and verifies checksums."""
    host, port = config.namenodes[0]

    def read() -> bytes:
        client = hdfs_native.Client(f"hdfs://{host}:{port}")
        with client.read(f"{config.root}/{path}") as file:
            return bytes(file.read())

    return await asyncio.to_thread(read)


@MODES
@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("seed", range(3))
async def test_appends_of_any_size_are_read_back_by_another_client(
    hdfs_config: HdfsConfig, mode: WriteMode, durability: Durability, seed: int
) -> None:
    random = Random(seed)
    config = replace(hdfs_config, write_mode=mode, packet_bytes_max=random.choice((4096, 65536, 131072)))
    sizes = (0, 1, 100, 4095, 4096, 4097, random.randint(0, 20_000), random.randint(0, 300_000))
    async with store_of(config) as store:
        writer = await store.create_segment("s", holder="me", durability=durability, segment_bytes=SEGMENT_BYTES)
        # A NameNode may take one of three idle nodes for busier than the average.
        assert writer.replicas >= 2
        want = bytearray()
        answers: list[tuple[int, asyncio.Future[int]]] = []
        for _ in range(60):
            buffers = [memoryview(random.randbytes(random.choice(sizes))) for _ in range(random.randint(1, 3))]
            for buffer in buffers:
                want += buffer
            answers.append((len(want), writer.append(buffers)))
            match random.randrange(4):
                case 0:
                    assert await answers[-1][1] == len(want)
                case 1:
                    await writer.prove_ownership()
                case 2:
                    await asyncio.sleep(0)
        assert [await answer for _, answer in answers] == [position for position, _ in answers]
        assert writer.accepted_bytes == len(want)
        assert await writer.close() == len(want)
    assert await read_back(config, "s") == want


@pytest.mark.hurt
async def test_the_other_client_does_check(own_hdfs: HdfsCluster) -> None:
    """Guards the test above: with one bit of every replica flipped on disk the file can no longer be read."""
    config = config_of(own_hdfs, fresh_root("checks"), **PATIENT)  # type: ignore[arg-type]
    async with store_of(config) as store:
        writer = await store.create_segment("s", holder="me", durability=Durability.HSYNC, segment_bytes=SEGMENT_BYTES)
        data = Random(5).randbytes(50_000)
        await writer.append([data])
        await writer.close()
        assert await read_back(config, "s") == data
    replicas = replicas_of(own_hdfs, data)
    assert len(replicas) == 3
    for replica in replicas:
        content = bytearray(replica.read_bytes())
        content[20_000] ^= 1
        replica.write_bytes(content)
    with pytest.raises(Exception, match=r"(?i)checksum|crc|block"):
        await read_back(config, "s")


@MODES
async def test_many_segments_are_written_at_once(hdfs_config: HdfsConfig, mode: WriteMode) -> None:
    config = replace(hdfs_config, write_mode=mode)
    async with store_of(config) as store:

        async def fill(number: int) -> bytes:
            random = Random(number)
            writer = await store.create_segment(
                f"s{number}", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES
            )
            content = bytearray()
            for _ in range(20):
                content += (data := random.randbytes(random.randint(1, 30_000)))
                await writer.append([data])
            assert await writer.close() == len(content)
            return bytes(content)

        contents = await asyncio.gather(*(fill(number) for number in range(20)))
    for number in (0, 7, 19):
        assert await read_back(config, f"s{number}") == contents[number]


@MODES
async def test_an_empty_segment_can_be_closed(hdfs_config: HdfsConfig, mode: WriteMode) -> None:
    async with store_of(replace(hdfs_config, write_mode=mode)) as store:
        writer = await store.create_segment("s", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)
        await writer.prove_ownership()
        assert await writer.close() == 0
        status = await store.status("s")
        assert status is not None
        assert (status.length_bytes, status.is_open) == (0, False)


async def test_a_segment_is_created_once_and_only_in_a_directory_that_is_there(hdfs_config: HdfsConfig) -> None:
    async with store_of(hdfs_config) as store:
        await store.make_directory("d")
        writer = await store.create_segment(
            "d/s", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES
        )
        with pytest.raises(AlreadyExists):
            await store.create_segment("d/s", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)
        await store.rename("d", "e")
        with pytest.raises(FileMissing):
            await store.create_segment("d/t", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)
        assert await writer.append([b"still counts"]) == 12
        with pytest.raises(FencedWriter):
            await writer.close()
        assert await store.status("d") is None


async def test_a_writer_that_was_taken_over_breaks_and_blames_no_node(hdfs_config: HdfsConfig) -> None:
    async with store_of(hdfs_config) as old, store_of(hdfs_config) as new:
        writer = await old.create_segment("s", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)
        assert await writer.append([b"abc"]) == 3
        assert await new.take_over("s", previous_holder="me") == 3
        with pytest.raises((WriterBroken, FencedWriter)):
            await writer.append([b"def"])
        with pytest.raises((WriterBroken, FencedWriter)):
            await writer.prove_ownership()
        assert old.bad_nodes.current() == ()
        writer.abandon()
    assert await read_back(hdfs_config, "s") == b"abc"


@MODES
async def test_a_late_connection_with_an_old_stamp_is_refused(hdfs_config: HdfsConfig, mode: WriteMode) -> None:
    config = replace(hdfs_config, write_mode=mode)
    async with store_of(config) as old, store_of(config) as new:
        writer = await old.create_segment("s", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)
        await writer.append([b"abc"])
        blocks = await old.namenode.locations(f"{config.root}/s")
        assert blocks.last is not None
        await new.take_over("s", previous_holder="me")
        with pytest.raises(StreamOpenFailed) as caught:
            await BlockStream.open(blocks.last, holder="me", config=config, stage=Stage.PIPELINE_SETUP_CREATE)
        assert caught.value.unreachable == ()
        writer.abandon()


@pytest.mark.hurt
@MODES
async def test_a_killed_datanode_breaks_the_writer_and_is_left_out_of_the_next_segment(
    own_hdfs: HdfsCluster, mode: WriteMode
) -> None:
    config = replace(config_of(own_hdfs, fresh_root("killed"), **PATIENT), write_mode=mode)  # type: ignore[arg-type]
    async with store_of(config) as store:
        writer = await store.create_segment("s", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)
        first = Random(2).randbytes(100_000)
        await writer.append([first])
        blocks = await store.namenode.locations(f"{config.root}/s")
        assert blocks.last is not None
        replicas = writer.replicas
        killed = own_hdfs.datanode_at(blocks.last.nodes[-1].transfer)
        await killed.kill()
        try:
            with pytest.raises(WriterBroken):
                for _ in range(1000):
                    await writer.append([b"x" * 1000])
            length_bytes = await writer.mend()
            assert length_bytes >= len(first)
            assert writer.replicas == replicas - 1
            following = await store.create_segment(
                "t", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES
            )
            assert following.replicas == 2
            await following.append([b"abc"])
            assert await following.close() == 3
        finally:
            await killed.start()
            await own_hdfs.wait_live(3)
    assert (await read_back(config, "s"))[: len(first)] == first
    assert await read_back(config, "t") == b"abc"


@pytest.mark.hurt
@MODES
async def test_a_hung_datanode_is_found_in_time(own_hdfs: HdfsCluster, mode: WriteMode) -> None:
    # Nodes that do not hang have to answer in that time on a busy machine, too.
    config = config_of(own_hdfs, fresh_root("hung"), **{**PATIENT_WITH_PAUSED, "ack_timeout_s": 3.0})  # type: ignore[arg-type]
    config = replace(config, write_mode=mode, bad_node_expiry_s=BAD_NODE_EXPIRY_S)
    loop = asyncio.get_running_loop()
    async with store_of(config) as store:
        writer = await store.create_segment("s", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)
        await writer.append([b"abc"])
        blocks = await store.namenode.locations(f"{config.root}/s")
        assert blocks.last is not None
        hung_node = blocks.last.nodes[1]
        hung = own_hdfs.datanode_at(hung_node.transfer)
        await hung.pause()
        try:
            acked_bytes = 3
            with pytest.raises(WriterBroken, match="no acknowledgement in"):
                while True:  # a process stops a little after it was told to
                    start_s = loop.time()
                    acked_bytes = await writer.append([b"def"])
            assert loop.time() - start_s > 2.6
            replicas = writer.replicas
            assert await writer.mend() in (acked_bytes, acked_bytes + 3)
            assert writer.replicas == replicas - 1
            assert store.bad_nodes.is_bad(hung_node)
            following = await store.create_segment(
                "t", holder="me", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES
            )
            assert await following.append([b"abc"]) == 3
            blocks = await store.namenode.locations(f"{config.root}/t")
            assert blocks.last is not None
            assert hung_node.uuid not in {node.uuid for node in blocks.last.nodes}
            following.abandon()
        finally:
            await hung.resume()
            # The next test wants all of them.
            await until(lambda: is_heard(own_hdfs, hung_node.transfer), 60, "the NameNode hears of it again")


@pytest.mark.hurt
@MODES
async def test_a_datanode_reserves_a_segments_own_size(own_hdfs: HdfsCluster, mode: WriteMode) -> None:
    """Not its default block size: hundreds of partitions with small segments fit on a small disk.

    One chunk more, so that the block is never full and can be opened again.
    """
    config = replace(config_of(own_hdfs, fresh_root(f"reserved-{mode}"), **PATIENT), write_mode=mode)  # type: ignore[arg-type]
    segment_bytes = 3 * 1024 * 1024
    async with store_of(config) as store:
        before = await settled_reserved_bytes(own_hdfs)
        writer = await store.create_segment("s", holder="me", durability=Durability.HFLUSH, segment_bytes=segment_bytes)
        assert writer.replicas == 3
        after = await reserved_bytes(own_hdfs)
        assert [now - then for now, then in zip(after, before, strict=True)] == [
            segment_bytes + config.checksum_chunk_bytes
        ] * 3
        await writer.append([b"x" * 1_000])
        await writer.close()

        async def is_given_back() -> bool:
            return await reserved_bytes(own_hdfs) == before

        await until(is_given_back, 30, "the room is given back")
