"""A file that no other process deletes is missing in an older state of HDFS, whatever else HDFS answers or does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bmq.hdfs.file_ids import FileIds
from bmq.hdfs.namespace_witness import LEFTOVER_MS, NamespaceWitness
from bmq.hdfs.proto.hdfs_pb2 import FsPermission, HdfsFileStatus
from bmq.log.store import StorageUnavailable
from tests.fakes.loop_time import LoopTime

pytestmark = pytest.mark.unit

LOOK_S = 5.0
RENEWAL_S = 600.0


class FakeNameNode:
    """`files`: (id, time of the last change) by path. `is_silent`: it answers nothing."""

    def __init__(self) -> None:
        self.file_ids = FileIds()
        self.files: dict[str, tuple[int, int]] = {}
        self.is_silent = False
        self.now_ms = 10 * LEFTOVER_MS
        self.last_id = 16_000
        self.calls: list[str] = []

    def _take(self, call: str) -> None:
        self.calls.append(call)
        if self.is_silent:
            raise StorageUnavailable("not now")

    async def make_directory(self, path: str, *, with_parents: bool) -> None:
        self._take("mkdirs")
        assert path == "/root/witnesses" and with_parents

    async def create(self, path: str, *, holder: str, block_bytes: int, replication: int) -> int:
        above = self.file_ids.highest
        self._take("create")
        assert path not in self.files, "no name is used twice"
        self.last_id += 1
        self.files[path] = (self.last_id, self.now_ms)
        self.file_ids.given(self.last_id, above=above, path=path)
        return self.last_id

    async def complete(self, path: str, *, holder: str, file_id: int, last: None) -> bool:
        self._take("complete")
        return self.files[path][0] == file_id

    async def file_info(self, path: str) -> HdfsFileStatus | None:
        self._take("file_info")
        return status(path, *self.files[path]) if path in self.files else None

    async def listing(self, path: str) -> list[HdfsFileStatus]:
        self._take("listing")
        return [status(each.rpartition("/")[2], *found) for each, found in self.files.items()]

    async def delete(self, path: str, *, recursive: bool, retry_max_s: float | None = None) -> bool:
        self._take("delete")
        return self.files.pop(path, None) is not None


def status(name: str, file_id: int, modified_ms: int) -> HdfsFileStatus:
    return HdfsFileStatus(
        file_type=HdfsFileStatus.FileType.IS_FILE,
        path=name.encode(),
        length=0,
        permission=FsPermission(perm=0o644),
        owner="bmq",
        group="bmq",
        modification_time=modified_ms,
        access_time=0,
        file_id=file_id,
    )


class Watched:
    """A witness that runs over a NameNode."""

    def __init__(self, loop_time: LoopTime) -> None:
        self.namenode = FakeNameNode()
        self.went_back = asyncio.Event()
        self.namenode.file_ids.went_back = self.went_back.set
        self.witness = NamespaceWitness(self.namenode, "/root", "me", look_s=LOOK_S, renewal_s=RENEWAL_S)
        self.running = asyncio.get_running_loop().create_task(self.witness.run(self.went_back))
        self._loop_time = loop_time

    async def pass_s(self, seconds: float) -> None:
        self.namenode.now_ms += int(1000 * seconds)
        await self._loop_time.pass_s(seconds)

    @property
    def files(self) -> list[str]:
        return sorted(self.namenode.files)


@pytest.fixture
async def watched(loop_time: LoopTime) -> AsyncIterator[Watched]:
    made = Watched(loop_time)
    await made.pass_s(0.1)
    yield made
    made.running.cancel()
    await asyncio.wait({made.running})


async def test_there_is_one_file_which_is_looked_for_renewed_and_removed(watched: Watched) -> None:
    assert watched.files == ["/root/witnesses/me.0"]
    watched.namenode.calls.clear()
    await watched.pass_s(3 * LOOK_S)
    assert watched.namenode.calls == ["file_info"] * 3
    await watched.pass_s(RENEWAL_S)
    assert watched.files == ["/root/witnesses/me.1"]
    assert not watched.running.done()
    await watched.witness.remove()
    assert watched.files == []


@pytest.mark.parametrize("is_another", [False, True], ids=["gone", "another file of that name"])
async def test_an_older_state_does_not_have_it(watched: Watched, is_another: bool) -> None:
    (path,) = watched.files
    if is_another:
        watched.namenode.files[path] = (16_000, 0)
    else:
        del watched.namenode.files[path]
    await watched.pass_s(LOOK_S)
    assert watched.running.done() and watched.running.exception() is None
    assert f"{path} is gone" in str(watched.namenode.file_ids.error)


async def test_an_id_of_an_older_state_ends_it_as_well(watched: Watched) -> None:
    watched.namenode.last_id -= 10
    await watched.pass_s(RENEWAL_S)
    assert watched.running.done() and watched.running.exception() is None
    assert "was given the file id" in str(watched.namenode.file_ids.error)


async def test_what_another_call_found_out_ends_it_at_once(watched: Watched) -> None:
    watched.namenode.file_ids.note("something")
    await watched.pass_s(0.01)
    assert watched.running.done()


async def test_silence_is_no_evidence(watched: Watched) -> None:
    watched.namenode.is_silent = True
    await watched.pass_s(RENEWAL_S + 2 * LOOK_S)
    watched.namenode.is_silent = False
    await watched.pass_s(LOOK_S)
    assert not watched.running.done() and watched.namenode.file_ids.error is None
    assert watched.files == ["/root/witnesses/me.1"]


async def test_files_of_processes_that_ended_go_after_an_hour(watched: Watched) -> None:
    now_ms = watched.namenode.now_ms
    watched.namenode.files["/root/witnesses/other.7"] = (15_000, now_ms - LEFTOVER_MS)
    watched.namenode.files["/root/witnesses/living.3"] = (15_001, now_ms)
    await watched.pass_s(RENEWAL_S)
    assert watched.files == ["/root/witnesses/living.3", "/root/witnesses/me.1"]
