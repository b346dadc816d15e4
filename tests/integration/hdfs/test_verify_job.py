"""What `bmq spark verify` does with one segment on a real HDFS: replicas that rot, and replicas that differ."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from random import Random

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig, HdfsSettings
from bmq.hdfs.store import HdfsStore
from bmq.log.padding import padded_end
from bmq.log.store import Durability
from bmq.protocol.batch_records import Record, encode_batch
from bmq.spark.jobs.segment_check import Kind
from bmq.spark.jobs.stored_segments import SegmentTask
from bmq.spark.jobs.stores import StoreAddress
from bmq.spark.jobs.verify import check_segment
from bmq.spark.jobs.verify_report import SegmentResult
from testing.hdfs import PATIENT, USER, config_of, fresh_root, until_replicated

pytestmark = pytest.mark.hurt

SEGMENTS = 3


def batches(fill: bytes) -> bytes:
    """All segments are equally long, of whole chunks: DataNodes remember the checksum of one that is not."""
    records = [Record(key=None, value=fill * 100, headers=(), timestamp_ms=n, offset=0) for n in range(50)]
    data = b"".join(encode_batch(records, base_offset=50 * number, leader_epoch=1) for number in range(400))
    return data.ljust(
        padded_end(len(data), HdfsSettings().checksum_chunk_bytes) + HdfsSettings().checksum_chunk_bytes, b"\0"
    )


async def written(config: HdfsConfig) -> tuple[list[SegmentTask], list[int]]:
    """Segments, and the id of each one's block."""
    store = await HdfsStore.open(config, Random())
    try:
        await store.make_directories("topics/t/0/00000001")
        tasks, blocks = [], []
        for roll in range(SEGMENTS):
            path = f"topics/t/0/00000001/{roll:08d}.log"
            data = batches(bytes([65 + roll]))
            writer = await store.create_segment(path, holder="h", durability=Durability.HSYNC, segment_bytes=16 << 20)
            await writer.append([data])
            size = await writer.close()
            await until_replicated(lambda path=path: store.blocks(path))  # type: ignore[misc]
            (block,) = (await store.blocks(path)).blocks
            blocks.append(block.block.block_id)
            tasks.append(
                SegmentTask(
                    topic="t",
                    partition=0,
                    path=path,
                    index_path="",
                    leader_epoch=1,
                    roll=roll,
                    file_id=writer.file_id,
                    base_offset=0,
                    end_offset=20_000,
                    valid_bytes=size,
                    file_bytes=size,
                    is_open=False,
                    is_compacted=False,
                )
            )
        return tasks, blocks
    finally:
        await store.close()


def replica(cluster: HdfsCluster, index: int, block_id: int) -> tuple[Path, Path]:
    """(bytes, checksums) on a DataNode's disk."""
    (data,) = (path for path in (cluster.directory / f"dn{index}").rglob(f"blk_{block_id}"))
    (meta,) = data.parent.glob(f"blk_{block_id}_*.meta")
    return data, meta


def test_rotten_and_differing_replicas_are_named_with_their_nodes(own_hdfs: HdfsCluster) -> None:
    config = config_of(own_hdfs, fresh_root("verify"), **PATIENT)  # type: ignore[arg-type]
    tasks, blocks = asyncio.run(written(config))
    rotten, _ = replica(own_hdfs, 0, blocks[0])
    with rotten.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"?")
    for there, here in zip(replica(own_hdfs, 1, blocks[2]), replica(own_hdfs, 1, blocks[1]), strict=True):
        shutil.copyfile(there, here)
    names = ",".join(map(str, config.namenodes))
    store = StoreAddress(f"hdfs://{names}{config.root}", USER)
    results = [SegmentResult.from_json(check_segment(store, task, has_replicas=True)) for task in tasks]
    for result in results:
        assert (result.records, result.end_offset, result.replicas) == (20_000, 20_000, 3)
    assert [len(result.findings) for result in results] == [1, 1, 0]
    (of_rotten,), (of_differing,) = results[0].findings, results[1].findings
    assert (of_rotten.kind, of_rotten.node) == (Kind.REPLICA, str(own_hdfs.datanodes[0]))
    assert "cannot be read" in of_rotten.reason
    assert (of_differing.kind, of_differing.node) == (Kind.REPLICA, str(own_hdfs.datanodes[1]))
    assert "differs from the others" in of_differing.reason
    assert results[2].replica_bytes == 3 * tasks[2].valid_bytes
    without = SegmentResult.from_json(check_segment(store, tasks[0], has_replicas=False))
    assert (without.findings, without.replicas) == ((), None)
