"""Reading from real DataNodes: closed and open files, of any chunk size, with replicas that are wrong, hung or gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import hdfs_native
import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_stream import BlockStream
from bmq.hdfs.blocks import LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.proto.transfer_pb2 import OpWriteBlock
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.reader import BlockReader
from bmq.log.store import CorruptFile, FileMissing, StorageUnavailable
from testing.hdfs import PATIENT_WITH_PAUSED, config_of, fresh_root, until_replicated

pytestmark = pytest.mark.contract

HOLDER = "test-reader"
CONTENT = Random(5).randbytes(3_000_001)


@dataclass
class OpenFile:
    path: str
    file_id: int
    located: LocatedBlock
    stream: BlockStream


@dataclass
class Client:
    config: HdfsConfig
    namenode: NameNode
    counts: ReadCounts
    reader: BlockReader

    async def create(self, name: str, content: bytes) -> OpenFile:
        """A file being written, with `content` acknowledged by every DataNode."""
        path = f"{self.config.root}/{name}"
        await self.namenode.make_directory(self.config.root, with_parents=True)
        file_id = await self.namenode.create(path, holder=HOLDER, block_bytes=64 * 2**20, replication=3)
        located = await self.namenode.add_block(path, holder=HOLDER, file_id=file_id)
        stream = await BlockStream.open(
            located, holder=HOLDER, config=self.config, stage=OpWriteBlock.Stage.PIPELINE_SETUP_CREATE
        )
        await stream.send([content])
        return OpenFile(path, file_id, located, stream)

    async def close(self, file: OpenFile) -> None:
        await file.stream.finish()
        last = file.located.block.with_length(file.stream.position)
        async with asyncio.timeout(30):
            while not await self.namenode.complete(  # noqa: ASYNC110 - the NameNode announces nothing
                file.path, holder=HOLDER, file_id=file.file_id, last=last
            ):
                await asyncio.sleep(0.01)

        await until_replicated(lambda: self.namenode.locations(file.path))

    async def read(self, file: OpenFile, position: int, length_bytes: int) -> bytes:
        data = await self.reader.read(file.path, file_id=file.file_id, position=position, length_bytes=length_bytes)
        return bytes(data)


@asynccontextmanager
async def client(config: HdfsConfig) -> AsyncIterator[Client]:
    namenode, lengths, counts = NameNode(config, Random(1)), DataNodeRpc(config), ReadCounts()
    reader = BlockReader(namenode, lengths, config, BadNodes(config.bad_node_expiry_s), Random(2), counts)
    try:
        yield Client(config, namenode, counts, reader)
    finally:
        reader.close()
        lengths.close()
        await namenode.close()


def ranges(random: Random, count: int) -> list[tuple[int, int]]:
    chosen = []
    for _ in range(count):
        position = random.randrange(len(CONTENT))
        chosen.append((position, min(random.choice((1, 4096, 5000, 65536, 1_000_000)), len(CONTENT) - position)))
    return chosen


async def test_a_closed_file_is_read_in_any_ranges_over_few_connections(hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as here:
        file = await here.create("file", CONTENT)
        await here.close(file)
        assert await here.read(file, 0, len(CONTENT)) == CONTENT
        for position, length_bytes in ranges(Random(1), 100):
            assert await here.read(file, position, length_bytes) == CONTENT[position : position + length_bytes]
        # One does. Each second DataNode that was asked costs one, and one more for the loser's, which is cut off.
        seconds = here.counts.hedges + here.counts.failovers
        assert here.counts.connections_opened <= 1 + 2 * seconds + here.counts.stale_connections, here.counts
        with pytest.raises(CorruptFile):
            await here.read(file, len(CONTENT) - 1, 2)
        assert await here.reader.read_all(file.path, length_bytes_max=len(CONTENT)) == CONTENT
        with pytest.raises(FileMissing):
            await here.reader.read(file.path, file_id=file.file_id + 1, position=0, length_bytes=1)


async def test_many_reads_at_once(hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as here:
        file = await here.create("file", CONTENT)
        await here.close(file)
        wanted = ranges(Random(2), 200)
        got = await asyncio.gather(*(here.read(file, *one) for one in wanted))
        assert got == [CONTENT[position : position + length_bytes] for position, length_bytes in wanted]


async def test_a_file_of_another_client_with_other_chunks(hdfs: HdfsCluster, hdfs_config: HdfsConfig) -> None:
    """Its default: 512 bytes under a checksum; several blocks of 1 MiB."""
    path = f"{hdfs_config.root}/foreign"

    def write() -> None:
        options = hdfs_native.WriteOptions(block_size=2**20, replication=3)
        with hdfs_native.Client(hdfs.url).create(path, options) as file:
            file.write(CONTENT)

    await asyncio.to_thread(write)
    async with client(hdfs_config) as here:
        assert await here.reader.read_all(path, length_bytes_max=len(CONTENT)) == CONTENT
        status = await here.namenode.file_info(path)
        assert status is not None
        for position, length_bytes in [(2**20 - 1, 2), (2**20 - 5000, 1_500_000), (len(CONTENT) - 1, 1)]:
            got = await here.reader.read(path, file_id=status.file_id, position=position, length_bytes=length_bytes)
            assert bytes(got) == CONTENT[position : position + length_bytes]


async def test_an_open_file_is_read_as_it_grows(hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as here:
        file = await here.create("file", CONTENT[:100_000])
        assert await here.read(file, 0, 100_000) == CONTENT[:100_000]
        end = 100_000
        for size_bytes in (1, 7, 4096, 5000, 100_000, 333):
            end = await file.stream.send([CONTENT[end : end + size_bytes]])
            position = max(0, end - 6000)
            assert await here.read(file, position, end - position) == CONTENT[position:end]
        with pytest.raises(CorruptFile, match=f"{end} bytes of the block are there"):
            await here.read(file, 0, end + 1)
        await here.close(file)
        assert await here.read(file, 0, end) == CONTENT[:end]
        with pytest.raises(CorruptFile, match=f"ends at byte {end}"):
            await here.read(file, 0, end + 1)


async def test_a_renamed_file_is_read_from_what_is_known_and_missing_where_it_is_not(hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as here:
        file = await here.create("file", CONTENT[:5000])
        await here.close(file)
        await here.read(file, 0, 10)
        await here.namenode.rename(file.path, f"{file.path}.sealed")
        assert await here.read(file, 100, 4000) == CONTENT[100:4100]
        here.reader.forget(file.file_id)
        with pytest.raises(FileMissing):
            await here.read(file, 100, 4000)
        await here.namenode.delete(f"{file.path}.sealed", recursive=False)
        with pytest.raises(FileMissing):
            await here.read(replace(file, path=f"{file.path}.sealed"), 0, 10)


def flip_byte(cluster: HdfsCluster, index: int, block_id: int, at: int) -> None:
    """Change a byte of a replica on its DataNode's disk."""
    (path,) = (cluster.directory / f"dn{index}").rglob(f"blk_{block_id}")
    _flip(path, at)


def _flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


async def test_replicas_that_rotted_on_disk_are_noticed(hdfs: HdfsCluster, hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as here:
        file = await here.create("file", CONTENT)
        await here.close(file)
        assert {node.transfer for node in file.located.nodes} == set(hdfs.datanodes)
        for index in (0, 1):
            flip_byte(hdfs, index, file.located.block.block_id, 1_000_000)
        for node in file.located.nodes:
            is_rotten = node.transfer != hdfs.datanodes[2]
            reading = here.reader.read_replica(
                file.located, node, position=999_999, length_bytes=10, visible_bytes=len(CONTENT)
            )
            if is_rotten:
                with pytest.raises(CorruptFile):
                    await reading
            else:
                assert bytes(await reading) == CONTENT[999_999:1_000_009]
        for _ in range(5):
            here.reader.forget(file.file_id)
            assert await here.read(file, 0, len(CONTENT)) == CONTENT
        flip_byte(hdfs, 2, file.located.block.block_id, 1_000_001)
        with pytest.raises(CorruptFile):
            await here.read(file, 0, len(CONTENT))
        assert await here.read(file, 1_100_000, 5000) == CONTENT[1_100_000:1_105_000]


@pytest.mark.hurt
async def test_hung_and_dead_daemons(own_hdfs: HdfsCluster) -> None:
    config = replace(config_of(own_hdfs, fresh_root("hung-and-dead"), **PATIENT_WITH_PAUSED), retry_max_s=10.0)  # type: ignore[arg-type]
    async with client(config) as here:
        file = await here.create("file", CONTENT)
        await here.close(file)
        other = await here.create("other", CONTENT[:5000])
        await here.close(other)
        loop = asyncio.get_running_loop()
        for index in range(3):
            await own_hdfs.datanode(index).pause()
            try:
                for position, length_bytes in ranges(Random(index), 10):
                    here.reader.forget(file.file_id)
                    start_s = loop.time()
                    assert await here.read(file, position, length_bytes) == CONTENT[position : position + length_bytes]
                    assert loop.time() - start_s < config.read_timeout_s
            finally:
                await own_hdfs.datanode(index).resume()
        assert here.counts.hedges + here.counts.failovers > 0
        await own_hdfs.datanode(0).kill()
        await own_hdfs.datanode(1).kill()
        for position, length_bytes in ranges(Random(9), 10):
            assert await here.read(file, position, length_bytes) == CONTENT[position : position + length_bytes]
        await own_hdfs.namenode(0).kill()
        assert await here.read(file, 0, len(CONTENT)) == CONTENT
        with pytest.raises(StorageUnavailable):
            await here.read(other, 0, 10)
        await own_hdfs.datanode(2).kill()
        with pytest.raises(StorageUnavailable):
            await here.read(file, 0, 10)
