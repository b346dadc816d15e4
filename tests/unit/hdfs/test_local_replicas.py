"""Replicas in files of this machine: read when they can be, left alone when not, and never a wrong byte or an open end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from bmq.hdfs.block_cache import BlockRange
from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import Address
from bmq.hdfs.datanode_rpc import ReplicaFiles
from bmq.hdfs.errors import PermissionRefused, ReplicaMissing
from bmq.hdfs.local_replicas import LocalReplicas
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.replica_file import ReplicaFile
from bmq.log.store import StorageUnavailable
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until
from tests.unit.hdfs.replica_files import damage, write_replica

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

CONTENT = Random(11).randbytes(30_000)
TIMEOUT_S = 10.0
HERE, ELSEWHERE = "127.0.0.1", "192.0.2.7"


class Paths:
    """A DataNode's answers. `asked`: for which blocks."""

    def __init__(self, answer: ReplicaFiles | Exception) -> None:
        self.answer = answer
        self.asked: list[int] = []

    async def files(self, node: DataNode, located: LocatedBlock, *, timeout_s: float) -> ReplicaFiles:
        self.asked.append(located.block.block_id)
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def wanted(
    position: int = 0, length_bytes: int = 1_000, *, block_id: int = 7, host: str = HERE, is_open: bool = False
) -> BlockRange:
    node = DataNode(f"uuid-{host}", Address(host, 1), Address(host, 2))
    block = Block("BP-1", block_id, 1001, len(CONTENT))
    return BlockRange(LocatedBlock(block, 0, (node,)), position, length_bytes, is_open)


async def read(local: LocalReplicas, range_: BlockRange) -> bytes | None:
    data = await local.read(range_)
    return None if data is None else bytes(data)


def open_replicas(directory: Path) -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(link.readlink()).startswith(str(directory))
    return found


async def until_open(directory: Path, count: int) -> None:
    """They are closed in threads."""
    await until(lambda: open_replicas(directory) == count)


@asynccontextmanager
async def replicas(
    directory: Path, answer: ReplicaFiles | Exception | None = None
) -> AsyncIterator[tuple[LocalReplicas, Paths, ReadCounts]]:
    """Afterwards none of its files is open."""
    paths = Paths(write_replica(directory, CONTENT) if answer is None else answer)
    counts = ReadCounts()
    local = LocalReplicas(paths, counts, TIMEOUT_S)

    try:
        yield local, paths, counts
    finally:
        local.close()
        await until_open(directory, 0)


async def test_ranges_are_read_and_the_datanode_is_asked_once(tmp_path: Path) -> None:
    async with replicas(tmp_path) as (local, paths, counts):
        ranges = [(0, 1_000), (4_000, 9_000), (29_999, 1)]
        found = await asyncio.gather(*(read(local, wanted(*range_)) for range_ in ranges))
        assert found == [CONTENT[position : position + length] for position, length in ranges]
        assert paths.asked == [7] and counts == ReadCounts(local_reads=3)
        await until_open(tmp_path, 2)


async def test_a_datanode_without_the_replica_is_asked_for_others(tmp_path: Path) -> None:
    async with replicas(tmp_path, ReplicaMissing("no such replica")) as (local, paths, _):
        for block_id in (7, 7, 8):
            assert await read(local, wanted(block_id=block_id)) is None
        assert paths.asked == [7, 8]


async def test_what_waits_for_the_disk_is_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaFile, "read_cached", lambda *_: None)
    async with replicas(tmp_path) as (local, _, counts):
        assert await read(local, wanted(100, 20_000)) == CONTENT[100:20_100]
        assert counts == ReadCounts(local_reads=1)


async def test_other_machines_and_blocks_that_are_written_are_left_to_the_datanodes(tmp_path: Path) -> None:
    async with replicas(tmp_path) as (local, paths, _):
        assert await read(local, wanted(host=ELSEWHERE)) is None
        assert await read(local, wanted(is_open=True)) is None
        assert paths.asked == []


@pytest.mark.parametrize("refusal", [PermissionRefused("not among the users"), StorageUnavailable("no answer")])
async def test_a_datanode_that_refuses_is_not_asked_for_every_read(tmp_path: Path, refusal: Exception) -> None:
    async with replicas(tmp_path, refusal) as (local, paths, counts):
        for block_id in (7, 7, 8):
            assert await read(local, wanted(block_id=block_id)) is None
        assert paths.asked == [7] and counts == ReadCounts()


@pytest.mark.parametrize(("state", "generation_stamp"), [("rbw", 1001), ("finalized", 1000)])
async def test_only_finalized_replicas_of_the_same_generation_are_read(
    tmp_path: Path, state: str, generation_stamp: int
) -> None:
    files = write_replica(tmp_path, CONTENT, state=state, generation_stamp=generation_stamp)
    async with replicas(tmp_path, files) as (local, paths, _):
        assert [await read(local, wanted()) for _ in range(3)] == [None] * 3
        assert paths.asked == [7]
        assert await read(local, wanted(block_id=8)) is None
        assert paths.asked == [7, 8]  # another block of the same DataNode may be complete


async def test_a_damaged_replica_is_counted_and_not_read_again(tmp_path: Path) -> None:
    files = write_replica(tmp_path, CONTENT)
    damage(files.data_path, 500)
    async with replicas(tmp_path, files) as (local, paths, counts):
        assert await read(local, wanted(8_192, 100)) == CONTENT[8_192:8_292]
        assert await read(local, wanted(0, 10)) is None
        assert await read(local, wanted(8_192, 100)) is None
        assert counts == ReadCounts(local_reads=1, checksum_errors=1) and paths.asked == [7]
        await until_open(tmp_path, 0)


async def test_a_file_that_is_not_there_is_left_to_the_datanodes(tmp_path: Path) -> None:
    async with replicas(tmp_path, ReplicaFiles("/nowhere/finalized/blk_7", "/nowhere/blk_7_1001.meta")) as found:
        local, paths, counts = found
        assert [await read(local, wanted()) for _ in range(2)] == [None, None]
        assert paths.asked == [7] and counts == ReadCounts()


async def test_the_blocks_used_last_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.hdfs.local_replicas.BLOCKS_MAX", 2)
    async with replicas(tmp_path) as (local, paths, _):
        for block_id in (1, 2, 1, 3, 1, 2):
            assert await read(local, wanted(block_id=block_id)) == CONTENT[:1_000]
        await until_open(tmp_path, 4)
        assert paths.asked == [1, 2, 3]  # where the second one lies is still known


async def test_idle_files_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.hdfs.local_replicas.IDLE_S", 0.05)
    async with replicas(tmp_path) as (local, paths, _):
        assert await read(local, wanted()) == CONTENT[:1_000]
        await until_open(tmp_path, 0)
        assert await read(local, wanted()) == CONTENT[:1_000]
        assert paths.asked == [7]


async def test_a_disk_that_hangs_when_a_file_is_opened_costs_its_timeout_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop_time: LoopTime
) -> None:
    disk = threading.Event()
    is_asked = threading.Event()
    open_file = ReplicaFile.open

    def hang(files: ReplicaFiles) -> ReplicaFile:
        is_asked.set()
        disk.wait(30)
        return open_file(files)

    monkeypatch.setattr(ReplicaFile, "open", hang)
    async with replicas(tmp_path) as (local, paths, _):
        reading = asyncio.create_task(read(local, wanted()))
        await until(is_asked.is_set)
        await loop_time.pass_s(TIMEOUT_S)
        assert await reading is None
        assert await read(local, wanted(block_id=8)) is None
        assert paths.asked == [7]
        disk.set()


class HangingDisk:
    """Nothing is in the page cache, and what reads from the disk waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.reads = 0
        read_file = ReplicaFile.read

        def hang(file: ReplicaFile, position: int, length_bytes: int) -> memoryview:
            self.reads += 1
            self.answers.wait(30)
            return read_file(file, position, length_bytes)

        monkeypatch.setattr(ReplicaFile, "read_cached", lambda *_: None)
        monkeypatch.setattr(ReplicaFile, "read", hang)


async def test_a_disk_that_hangs_costs_its_timeout_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop_time: LoopTime
) -> None:
    async with replicas(tmp_path) as (local, paths, counts):
        assert await read(local, wanted(block_id=8)) == CONTENT[:1_000]
        disk = HangingDisk(monkeypatch)
        reading = asyncio.create_task(read(local, wanted()))
        await until(lambda: disk.reads == 1)
        await loop_time.pass_s(TIMEOUT_S)
        assert await reading is None
        for block_id in (8, 9, 7):  # also one that is open
            assert await read(local, wanted(block_id=block_id)) is None
        assert paths.asked == [8, 7] and counts == ReadCounts(local_reads=1) and disk.reads == 1
        await until_open(tmp_path, 4)  # the thread is still at one
        disk.answers.set()


async def test_too_many_that_wait_leave_the_others_to_the_datanodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmq.hdfs.local_replicas.WAITING_MAX", 3)
    async with replicas(tmp_path) as (local, _, _):
        assert await read(local, wanted()) == CONTENT[:1_000]
        disk = HangingDisk(monkeypatch)
        reads = [asyncio.create_task(read(local, wanted(number, 10))) for number in range(5)]

        await until(lambda: sum(task.done() for task in reads) == 2)
        assert [task.result() for task in reads if task.done()] == [None, None]
        disk.answers.set()
        found = await asyncio.gather(*reads)
        assert [data for data in found if data] == [CONTENT[number : number + 10] for number in range(3)]


async def test_whatever_goes_wrong_is_left_to_the_datanodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async with replicas(tmp_path) as (local, _, counts):
        monkeypatch.setattr(local._threads, "submit", fail)
        assert await read(local, wanted()) is None
        assert counts == ReadCounts()


async def test_long_ranges_are_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.hdfs.local_replicas.INLINE_BYTES_MAX", 10)

    def fail(*_: object) -> None:
        raise AssertionError("read on the event loop")

    monkeypatch.setattr(ReplicaFile, "read_cached", fail)
    async with replicas(tmp_path) as (local, _, counts):
        assert await read(local, wanted(5, 11)) == CONTENT[5:16]
        assert counts == ReadCounts(local_reads=1)
