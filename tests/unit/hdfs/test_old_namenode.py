"""A NameNode that was replaced and does not know it: it answers reads from its old state, and ends when it has to log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest

from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.proto.hdfs_pb2 import FsPermission, HdfsFileStatus, LocatedBlocks
from bmq.hdfs.proto.namenode_pb2 import (
    GetFileInfoResponse,
    GetLocatedFileInfoRequest,
    SetTimesRequest,
    SetTimesResponse,
)
from bmq.hdfs.store import HdfsStore
from bmq.log.store import FileStatus, StorageUnavailable
from tests.fakes.hadoop_ipc import ReceivedCall, ScriptedServer
from tests.fakes.loop_time import LoopTime

pytestmark = [pytest.mark.unit, pytest.mark.timeout(30)]

PAUSE_S_MAX = 1.0


@dataclass
class Served:
    """A NameNode's state: file ids by path. `is_replaced`: another one is active, and this one has not noticed."""

    files: dict[str, int]
    is_replaced: bool = False
    is_standby: bool = False
    is_in_safe_mode: bool = False
    methods: list[str] = field(default_factory=list)

    def script(self, call: ReceivedCall) -> None:
        self.methods.append(call.method)
        if self.is_standby:
            call.refuse("org.apache.hadoop.ipc.StandbyException", "state standby")
        elif call.method == "setTimes":
            if self.is_in_safe_mode:
                call.refuse("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode.")
            elif self.is_replaced:
                self.is_standby = True  # it exits; whoever starts it again makes it a standby
                call.peer.drop()
            elif call.request(SetTimesRequest).src in self.files:
                call.answer(SetTimesResponse())
            else:
                call.refuse("java.io.FileNotFoundException", "File/Directory does not exist.")
        else:
            found = self.files.get(call.request(GetLocatedFileInfoRequest).src)
            call.answer(GetFileInfoResponse(fs=None if found is None else directory(found)))


def directory(file_id: int) -> HdfsFileStatus:
    blocks = LocatedBlocks(file_length=0, under_construction=False, is_last_block_complete=True)
    return HdfsFileStatus(
        file_type=HdfsFileStatus.FileType.IS_DIR,
        path=b"",
        length=0,
        permission=FsPermission(perm=0o755),
        owner="u",
        group="g",
        modification_time=0,
        access_time=0,
        file_id=file_id,
        locations=blocks,
    )


def _serve(namenode: Served, call: ReceivedCall) -> None:
    namenode.script(call)  # which a test may have changed meanwhile


class Looks:
    """A store's looks; pauses between tries cost no time."""

    def __init__(self, store: HdfsStore, time: LoopTime) -> None:
        self._store = store
        self._time = time

    async def prove(self, path: str) -> FileStatus | None:
        return await self._time.result(self._store.prove(path), pauses_s_max=PAUSE_S_MAX)

    async def status(self, path: str) -> FileStatus | None:
        return await self._time.result(self._store.status(path), pauses_s_max=PAUSE_S_MAX)


@asynccontextmanager
async def store_on(*namenodes: Served) -> AsyncIterator[Looks]:
    servers = [ScriptedServer(partial(_serve, namenode)) for namenode in namenodes]
    for server in servers:
        await server.__aenter__()
    addresses = tuple(server.address for server in servers)
    store = HdfsStore(
        HdfsConfig(
            namenodes=addresses,
            root="/r",
            user="u",
            retry_max_s=20.0,
            retry_longest_s=PAUSE_S_MAX,
            rpc_timeout_s=5.0,
            connect_timeout_s=5.0,
        ),
        Random(1),
    )
    try:
        with LoopTime.stopped() as time:
            yield Looks(store, time)
    finally:
        await store.close()
        for server in servers:
            await server.__aexit__(None, None, None)


def ids(found: FileStatus | None) -> int | None:
    return None if found is None else found.file_id


async def test_a_look_at_a_replaced_namenode_does_not_pass() -> None:
    old, new = Served({"/r": 1, "/r/5.open": 7}), Served({"/r": 1, "/r/5.open": 7})
    async with store_on(old, new) as store:
        assert ids(await store.prove("5.open")) == 7
        new.files = {"/r": 1, "/r/5": 7}
        old.is_replaced = True
        assert ids(await store.status("5.open")) == 7  # this is why a read proves nothing
        assert await store.prove("5.open") is None


async def test_the_look_itself_is_taken_where_the_change_was_logged() -> None:
    """A directory made again under the same path has another id: an old NameNode must not be asked for it."""
    old, new = Served({"/r": 1, "/r/5.open": 7}, is_replaced=True), Served({"/r": 1, "/r/5.open": 9})
    async with store_on(old, new) as store:
        assert ids(await store.prove("5.open")) == 9
        assert new.methods == ["setTimes", "getLocatedFileInfo"]


async def test_a_namenode_that_steps_back_between_the_two_calls_gives_no_answer() -> None:
    files = {"/r": 1, "/r/5.open": 7}
    first, second = Served(files), Served(files, is_in_safe_mode=True)
    script = first.script

    def step_back(call: ReceivedCall) -> None:
        script(call)
        first.is_standby = call.method == "setTimes"

    first.script = step_back  # type: ignore[method-assign]
    async with store_on(first, second) as store:
        with pytest.raises(StorageUnavailable):
            await store.prove("5.open")


async def test_a_namenode_that_is_turned_to_changes_something_before_it_is_read() -> None:
    """It may be the old one, back from a pause, while the active one is only slow."""
    active, old = Served({"/r": 1, "/r/a": 2}), Served({"/r": 1}, is_replaced=True)
    async with store_on(active, old) as store:
        assert ids(await store.status("a")) == 2
        active.is_standby = True  # for one call: say, its connection broke
        reading = active.script

        def come_back(call: ReceivedCall) -> None:
            reading(call)
            active.is_standby = False

        active.script = come_back  # type: ignore[method-assign]
        assert ids(await store.status("a")) == 2
        assert old.methods == ["setTimes"]


async def test_reads_cost_one_change_for_as_long_as_a_namenode_answers() -> None:
    active, standby = Served({"/r": 1, "/r/a": 2}), Served({}, is_standby=True)
    async with store_on(standby, active) as store:
        for _ in range(3):
            assert ids(await store.status("a")) == 2
        assert active.methods.count("setTimes") == 1
        assert standby.methods == ["setTimes"]


async def test_the_only_namenode_is_asked_nothing_more() -> None:
    only = Served({"/r": 1, "/r/5.open": 7})
    async with store_on(only) as store:
        assert ids(await store.prove("5.open")) == 7
        assert only.methods == ["getLocatedFileInfo"]


async def test_what_is_not_there_is_not_there() -> None:
    async with store_on(Served({"/r": 1}), Served({}, is_standby=True)) as store:
        assert await store.prove("5.open") is None
