"""What closing a file makes of the NameNode's answers, on virtual time. The DataNodes' part is tested on a real HDFS."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar, cast

import pytest

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.blocks import Block
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.errors import LeaseLost, PermissionRefused
from bmq.hdfs.file_takeover import COMPLETE_WAITS_S, TRIES_MAX, take_over
from bmq.hdfs.lease_recovery import REPEAT_S
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.proto.hdfs_pb2 import HdfsFileStatus, LocatedBlocks, Token
from bmq.hdfs.proto.hdfs_pb2 import LocatedBlock as LocatedBlockMessage
from bmq.hdfs.reader import BlockReader
from bmq.log.store import CorruptFile, FileMissing, StorageUnavailable, StoreError
from tests.simulation.loop import VirtualTimeLoop

pytestmark = pytest.mark.unit

T = TypeVar("T")
PATH = "/r/f"
CONFIG = HdfsConfig(namenodes=(Address("nn", 1),), root="/r", user="u")


class FakeNameNode:
    """One file, `None` when it is gone. `complete` closes it unless `answers` says otherwise."""

    def __init__(self) -> None:
        self.file: HdfsFileStatus | None = status()
        self.calls: list[str] = []
        self.answers: list[bool | StoreError] = []
        self.recovers_after_s: float | None = 1.0
        self._recovered_s: float | None = None

    async def file_info(self, path: str) -> HdfsFileStatus | None:
        self.calls.append("file_info")
        await asyncio.sleep(0.001)
        return self.file

    async def complete(self, path: str, *, holder: str, file_id: int, last: Block | None) -> bool:
        self.calls.append("complete")
        assert self.file is not None
        assert (path, holder, file_id) == (PATH, "old", self.file.file_id)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, StoreError):
                raise answer
            return answer
        self.file.locations.under_construction = False
        return True

    async def recover_lease(self, path: str, *, holder: str) -> bool:
        self.calls.append("recover_lease")
        assert holder.startswith("new")
        now_s = asyncio.get_running_loop().time()
        if self._recovered_s is None and self.recovers_after_s is not None:
            self._recovered_s = now_s + self.recovers_after_s
        return await self.is_file_closed(path)

    async def is_file_closed(self, path: str) -> bool:
        if self.file is None:
            raise FileMissing(path)
        if self._recovered_s is not None and asyncio.get_running_loop().time() >= self._recovered_s:
            self.file.locations.under_construction = False
        return not self.file.locations.under_construction


def status(*, file_id: int = 7, last_bytes: int | None = None, is_last_complete: bool = False) -> HdfsFileStatus:
    """An open file without a block, or with one of this length."""
    blocks = LocatedBlocks(file_length=0, under_construction=True, is_last_block_complete=is_last_complete)
    if last_bytes is not None:
        token = Token(identifier=b"", password=b"", kind="", service="")
        block = Block("BP-1", 1, 1, last_bytes).message()
        blocks.last_block.CopyFrom(LocatedBlockMessage(block=block, offset=0, corrupt=False, block_token=token))
        blocks.file_length = last_bytes
    return HdfsFileStatus(file_type=HdfsFileStatus.FileType.IS_FILE, path=b"", file_id=file_id, locations=blocks)


def run(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The result and how many seconds it took."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(work), loop.time()
    finally:
        assert loop.failures == []
        loop.close()


def taking_over(
    namenode: FakeNameNode, previous_holder: str | None = "old", own_holder: str = "new"
) -> Coroutine[Any, Any, int]:
    datanodes = DataNodeRpc(CONFIG)
    return take_over(
        PATH,
        previous_holder=previous_holder,
        own_holder=own_holder,
        namenode=cast(NameNode, namenode),
        datanode_rpc=datanodes,
        reader=cast(BlockReader, None),
        config=CONFIG,
        bad_nodes=BadNodes(60.0),
    )


def test_a_file_without_a_block_is_completed_and_looked_at_again() -> None:
    namenode = FakeNameNode()
    assert run(taking_over(namenode))[0] == 0
    assert namenode.calls == ["file_info", "complete", "file_info"]


def test_complete_saying_yes_for_a_file_that_stays_open_is_not_believed() -> None:
    namenode = FakeNameNode()
    namenode.answers = [True, True]
    assert run(taking_over(namenode))[0] == 0
    assert namenode.calls == ["file_info", "complete"] * 3 + ["file_info"]


def test_a_length_that_is_not_the_expected_one_is_corruption() -> None:
    namenode = FakeNameNode()
    namenode.file = status(last_bytes=9_000, is_last_complete=True)

    async def swallow(path: str, **_: object) -> bool:
        assert namenode.file is not None
        namenode.file.locations.under_construction = False
        namenode.file.locations.file_length = 0
        return True

    namenode.complete = swallow  # type: ignore[method-assign]
    with pytest.raises(CorruptFile, match="9000 bytes, the NameNode says 0"):
        run(taking_over(namenode))


def test_a_block_whose_reports_come_late_is_waited_for() -> None:
    namenode = FakeNameNode()
    namenode.file = status(last_bytes=9_000, is_last_complete=True)
    namenode.answers = [False] * len(COMPLETE_WAITS_S)
    length_bytes, seconds = run(taking_over(namenode))
    assert length_bytes == 9_000
    assert sum(COMPLETE_WAITS_S) <= seconds < 1


def test_after_so_many_tries_the_lease_is_recovered() -> None:
    namenode = FakeNameNode()
    namenode.answers = [False] * 1_000
    assert run(taking_over(namenode))[0] == 0
    assert namenode.calls.count("complete") == TRIES_MAX
    assert namenode.calls.count("recover_lease") == 1


@pytest.mark.parametrize("text", ["not open (LeaseExpiredException)", "is UNDER_RECOVERY but not UNDER_CONSTRUCTION"])
def test_a_lease_that_the_old_owner_no_longer_has_needs_recovery_at_once(text: str) -> None:
    namenode = FakeNameNode()
    namenode.answers = [LeaseLost(text)]
    assert run(taking_over(namenode))[0] == 0
    assert namenode.calls == ["file_info", "complete", "file_info", "recover_lease", "file_info"]


def test_what_no_retry_can_mend_is_raised_at_once() -> None:
    for error in (PermissionRefused("no"), StorageUnavailable("no NameNode answers"), FileMissing(PATH)):
        namenode = FakeNameNode()
        namenode.answers = [error]
        with pytest.raises(type(error)):
            run(taking_over(namenode))
        assert "recover_lease" not in namenode.calls


def test_a_path_that_names_another_file_meanwhile_is_missing() -> None:
    namenode = FakeNameNode()

    async def replaced(path: str, **_: object) -> bool:
        namenode.file = status(file_id=8)
        return True

    namenode.complete = replaced  # type: ignore[method-assign]
    with pytest.raises(FileMissing, match="another file"):
        run(taking_over(namenode))


def test_a_block_that_no_datanode_has_is_left_to_lease_recovery() -> None:
    namenode = FakeNameNode()
    namenode.file = status(last_bytes=5_000)
    run(taking_over(namenode))
    assert namenode.calls == ["file_info", "file_info", "recover_lease", "file_info"]


@pytest.mark.parametrize("previous_holder", [None, ""])
def test_without_a_name_the_lease_is_recovered(previous_holder: str | None) -> None:
    namenode = FakeNameNode()
    length_bytes, seconds = run(taking_over(namenode, previous_holder))
    assert length_bytes == 0
    assert namenode.calls == ["file_info", "recover_lease", "file_info"]
    assert 1.0 <= seconds < 1.1


def test_a_lease_recovery_is_asked_for_again_and_given_up_in_the_end() -> None:
    namenode = FakeNameNode()
    namenode.recovers_after_s = None
    with pytest.raises(StorageUnavailable, match="still open 60 s after"):
        run(taking_over(namenode, None))
    repeats = CONFIG.lease_recovery_max_s // REPEAT_S
    assert repeats - 1 <= namenode.calls.count("recover_lease") - 1 <= repeats


def test_a_file_deleted_while_its_lease_is_recovered_is_missing() -> None:
    namenode = FakeNameNode()
    namenode.recovers_after_s = None

    async def deleted_later() -> int:
        asyncio.get_running_loop().call_later(Random(0).uniform(1, 5), setattr, namenode, "file", None)
        return await taking_over(namenode, None)

    with pytest.raises(FileMissing):
        run(deleted_later())


class DisturbedNameNode(FakeNameNode):
    """A complete() fails, early or late, if somebody looked at the file since its asker did: as with a rival's stamp."""

    def __init__(self, call_s: float) -> None:
        super().__init__()
        self.recoveries = 0
        self._call_s = call_s
        self._looks: list[asyncio.Task[Any] | None] = []

    async def file_info(self, path: str) -> HdfsFileStatus | None:
        await asyncio.sleep(self._call_s)
        self._looks.append(asyncio.current_task())
        return self.file

    async def complete(self, path: str, *, holder: str, file_id: int, last: Block | None) -> bool:
        for _ in range(4):
            await asyncio.sleep(self._call_s)
            if self._looks[-1] is not asyncio.current_task():
                raise LeaseLost("another stamp")
        return await super().complete(path, holder=holder, file_id=file_id, last=last)

    async def recover_lease(self, path: str, *, holder: str) -> bool:
        self.recoveries += 1
        return await super().recover_lease(path, holder=holder)


@pytest.mark.parametrize("call_s", [0.01, 0.3], ids=["quick", "slow"])
def test_two_takers_give_way_to_each_other_on_a_slow_machine_too(call_s: float) -> None:
    async def both() -> int:
        recoveries = 0
        for number in range(50):
            namenode = DisturbedNameNode(call_s)
            takers = [taking_over(namenode, own_holder=f"{name}{number}") for name in ("new", "newer")]
            assert await asyncio.gather(*takers) == [0, 0]
            recoveries += namenode.recoveries
        return recoveries

    assert run(both())[0] == 0
