"""Reads past the DataNodes of this machine: the same promises, also when a file is damaged or its DataNode is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Durability, FileMissing
from testing.hdfs import PATIENT, USER, config_of, fresh_root, new_cluster, running, until_replicated
from tests.unit.hdfs.replica_files import damage

pytestmark = pytest.mark.hurt

CONTENT = Random(17).randbytes(2_500_001)
PATH = "f"


@pytest.fixture(scope="module")
def open_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """Its DataNodes let us read their files."""
    cluster = new_cluster(tmp_path_factory.mktemp("open-hdfs"), local_reader=USER)
    with running(cluster):
        yield cluster


@pytest.fixture
def own_open_hdfs(tmp_path: Path) -> Iterator[HdfsCluster]:
    """As `open_hdfs`, to be hurt."""
    with running(new_cluster(tmp_path / "hdfs", local_reader=USER)) as cluster:
        yield cluster


@pytest.fixture
def open_config(open_hdfs: HdfsCluster, request: pytest.FixtureRequest) -> HdfsConfig:
    # So patient that a busy machine changes no test's outcome.
    return config_of(open_hdfs, fresh_root(request.node.name), **PATIENT, local_read_timeout_s=10.0)  # type: ignore[arg-type]


@pytest.fixture
async def store(open_config: HdfsConfig) -> AsyncIterator[HdfsStore]:
    store = await HdfsStore.open(open_config, Random(1))
    try:
        yield store
    finally:
        await store.close()


async def closed_segment(store: HdfsStore) -> int:
    """Its file id. Every DataNode has told the NameNode of its replica."""
    writer = await store.create_segment(PATH, holder="me", durability=Durability.HSYNC, segment_bytes=2**23)
    await writer.append([memoryview(CONTENT)])
    await writer.close()
    await until_replicated(lambda: store.blocks(PATH))
    return writer.file_id


async def read(store: HdfsStore, file_id: int, position: int = 0, length_bytes: int = len(CONTENT)) -> bytes:
    return bytes(await store.read(PATH, file_id=file_id, position=position, length_bytes=length_bytes))


async def replicas_of(store: HdfsStore, cluster: HdfsCluster) -> list[Path]:
    (block,) = (await store.blocks(PATH)).blocks
    return list(cluster.directory.rglob(f"blk_{block.block.block_id}"))


async def test_a_closed_segment_is_read_from_its_files(store: HdfsStore) -> None:
    file_id = await closed_segment(store)
    random = Random(3)
    for _ in range(50):
        position = random.randrange(len(CONTENT))
        length_bytes = random.randint(1, len(CONTENT) - position)
        assert await read(store, file_id, position, length_bytes) == CONTENT[position : position + length_bytes]
    counts = store.read_counts
    assert (counts.reads, counts.local_reads, counts.connections_opened) == (50, 50, 0)


async def test_an_open_segment_is_read_through_the_datanodes(store: HdfsStore) -> None:
    writer = await store.create_segment(PATH, holder="me", durability=Durability.HFLUSH, segment_bytes=2**23)
    await writer.append([memoryview(CONTENT)])
    assert await read(store, writer.file_id) == CONTENT
    assert store.read_counts.local_reads == 0
    await writer.close()


async def test_a_damaged_replica_is_read_from_another_datanode(store: HdfsStore, open_hdfs: HdfsCluster) -> None:
    file_id = await closed_segment(store)
    assert await read(store, file_id) == CONTENT
    first, *others = await replicas_of(store, open_hdfs)
    assert len(others) == 2
    # Whichever is read from its file, one of the two places is damaged in it.
    damage(str(first), 2_000_000)
    for replica in others:
        damage(str(replica), 1_000_000)
    for position in (900_000, 1_900_000, 900_000):
        assert await read(store, file_id, position, 200_000) == CONTENT[position : position + 200_000]
    assert store.read_counts.checksum_errors >= 1
    assert 1 <= store.read_counts.local_reads < 4  # left alone from then on


async def test_a_deleted_file_is_missing_for_who_never_read_it(store: HdfsStore, open_config: HdfsConfig) -> None:
    file_id = await closed_segment(store)
    assert await read(store, file_id) == CONTENT
    await store.delete(PATH)
    other = await HdfsStore.open(open_config, Random(2))
    try:
        with pytest.raises(FileMissing):
            await read(other, file_id)
    finally:
        await other.close()


async def test_without_the_right_datanodes_are_asked_as_ever(hdfs: HdfsCluster, hdfs_config: HdfsConfig) -> None:
    for config in (hdfs_config, replace(hdfs_config, root=f"{hdfs_config.root}-off", local_reads=False)):
        store = await HdfsStore.open(config, Random(1))
        try:
            file_id = await closed_segment(store)
            assert await read(store, file_id) == CONTENT
            assert (store.read_counts.reads, store.read_counts.local_reads) == (1, 0)
        finally:
            await store.close()


@pytest.mark.campaign("hdfs-faults")
async def test_a_dead_datanode_leaves_its_files_to_the_others(own_open_hdfs: HdfsCluster) -> None:
    store = await HdfsStore.open(config_of(own_open_hdfs, "/dead", **PATIENT), Random(1))  # type: ignore[arg-type]
    try:
        file_id = await closed_segment(store)
        for number in range(2):
            await own_open_hdfs.datanode(number).kill()
        assert await read(store, file_id) == CONTENT
    finally:
        await store.close()
