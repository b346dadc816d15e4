"""A call that was given up is carried out late: what is there afterwards is the same on the fake store and on HDFS.

On HDFS a proxy in front of the NameNode keeps the call back; the fake keeps its own. Everything else goes past.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any, Protocol

import pytest

from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.server_logins import namenode_authentication
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Durability, FileStatus, SegmentStore, SegmentWriter, StorageUnavailable
from tests.fakes.store import FakeStore
from tests.support.late_calls import LateCalls
from tests.unit.log_store.rivals import SEGMENT_BYTES, outcome_of, tree_of

pytestmark = [pytest.mark.contract, pytest.mark.safety]

OWN, SEALED = "t/0/5.open", "t/0/5"
FILE = f"{OWN}/00000000.log"
LONG_S = 3600.0
# Of a call that is kept back. Every other one may take its time on a busy machine.
HELD_RPC_TIMEOUT_S = 1.0
HELD_RETRY_MAX_S = 2.0
DATA = Random(1).randbytes(70_001)


class Side(Protocol):
    """A store with two clients, of which the first one's calls can be kept back."""

    first: SegmentStore
    second: SegmentStore

    def hold(self, method: str) -> None:
        """From now on what asks the NameNode for this, until `let_go`."""

    def let_go(self) -> None: ...

    async def deliver(self) -> None:
        """What was kept back is carried out."""


class FakeSide(FakeStore):
    def __init__(self) -> None:
        super().__init__()
        self.first: SegmentStore = self.client("first")
        self.second: SegmentStore = self.client("second")
        self._held: list[Callable[[], object]] = []

    def hold(self, method: str) -> None:
        self.faults.late_call_rate = 1.0

    def let_go(self) -> None:
        self.faults.late_call_rate = 0.0

    def carry_out_late(self, perform: Callable[[], object]) -> None:
        self._held.append(perform)

    async def deliver(self) -> None:
        assert len(self._held) == 1
        self.faults.late_call_s = (0.0, 0.0)
        super().carry_out_late(self._held.pop())
        while self.late_calls_waiting:
            await self.first.status("")


class HdfsSide:
    def __init__(self, first: HdfsStore, second: HdfsStore, proxy: LateCalls, wanted: set[str]) -> None:
        """`wanted`: which calls the proxy may keep back."""
        self.first: SegmentStore = first
        self.second: SegmentStore = second
        self._failover = first.namenode._failover
        self._patient = first.config
        self._proxy = proxy
        self._wanted = wanted

    def hold(self, method: str) -> None:
        self._wanted.add(method)
        self._proxy.begin(1.0, (LONG_S, LONG_S))
        self._failover._config = replace(self._patient, rpc_timeout_s=HELD_RPC_TIMEOUT_S, retry_max_s=HELD_RETRY_MAX_S)

    def let_go(self) -> None:
        self._proxy.end()
        self._failover._config = self._patient

    async def deliver(self) -> None:
        assert sum(self._proxy.kept.values()) == 1
        await self._proxy.deliver()
        assert self._proxy.delivered == self._proxy.kept


@asynccontextmanager
async def hdfs_side(config: HdfsConfig) -> AsyncIterator[HdfsSide]:
    wanted: set[str] = set()
    namenode = config.namenodes[0]
    login = None if config.security is None else namenode_authentication(config)
    late_calls = LateCalls(namenode, Random(1), is_wanted=lambda call: call.method in wanted, authentication=login)
    async with late_calls as proxy:
        # By the NameNode's own name, which a login goes by.
        held_back = replace(config, namenodes=(namenode._replace(port=proxy.address.port),))
        first = await HdfsStore.open(held_back, Random(2))
        second = await HdfsStore.open(config, Random(3))
        try:
            yield HdfsSide(first, second, proxy, wanted)
        finally:
            await first.close()
            await second.close()


async def given_up(side: Side, method: str, call: Callable[[], Awaitable[object]]) -> None:
    side.hold(method)
    with pytest.raises(StorageUnavailable):
        await call()
    side.let_go()


async def open_segment(store: SegmentStore, holder: str, path: str = FILE) -> SegmentWriter:
    return await store.create_segment(path, holder=holder, durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES)


# --- what happens; each gives what was seen on the way


async def a_directory_is_made_after_it_was_moved_away(side: Side) -> list[Any]:
    await given_up(side, "mkdirs", lambda: side.first.make_directory(OWN))
    await side.second.make_directory(OWN)
    before = await side.second.status(OWN)
    await side.second.rename(OWN, SEALED)
    await side.deliver()
    after = await side.second.status(OWN)
    assert before is not None and after is not None
    return [before.file_id == after.file_id]


async def a_directory_is_made_without_its_parent(side: Side) -> list[Any]:
    await given_up(side, "mkdirs", lambda: side.first.make_directory(OWN))
    await side.second.rename("t/0", "t/1")
    await side.deliver()
    return []


async def a_deletion_takes_what_has_the_name_now(side: Side) -> list[Any]:
    await side.first.make_directory(OWN)
    await side.first.write_file(FILE, b"one", holder="first")
    await given_up(side, "delete", lambda: side.first.delete(FILE))
    seen: list[Any] = [await side.second.delete(FILE)]
    writer = await open_segment(side.second, "second")
    seen.append(await writer.append([DATA]))
    await side.deliver()
    return [*seen, await outcome_of(writer.close()), await side.second.status(FILE)]


async def a_rename_moves_what_has_the_name_now(side: Side) -> list[Any]:
    await side.first.make_directory(OWN)
    await given_up(side, "rename2", lambda: side.first.rename(OWN, SEALED))
    writer = await open_segment(side.first, "first")
    seen = [await writer.append([DATA])]
    await side.deliver()
    return [*seen, await writer.append([DATA]), await outcome_of(open_segment(side.first, "first", f"{OWN}/1"))]


async def a_rename_finds_its_target_taken(side: Side) -> list[Any]:
    await side.first.make_directory(OWN)
    await given_up(side, "rename2", lambda: side.first.rename(OWN, SEALED))
    await side.second.make_directory(SEALED)
    await side.deliver()
    return []


async def a_file_is_made_for_nobody(side: Side) -> list[Any]:
    await side.first.make_directory(OWN)
    await given_up(side, "create", lambda: open_segment(side.first, "first"))
    await side.deliver()
    seen = [await outcome_of(open_segment(side.first, "first"))]
    return [*seen, await side.second.take_over(FILE, previous_holder="first")]


async def a_whole_file_is_begun_and_never_written(side: Side) -> list[Any]:
    await side.first.make_directory(OWN)
    await given_up(side, "create", lambda: side.first.write_file(FILE, DATA, holder="first"))
    await side.deliver()
    return [await outcome_of(side.second.read_file(FILE, length_bytes_max=100_000))]


async def a_file_is_not_made_where_another_is(side: Side) -> list[Any]:
    await side.first.make_directory(OWN)
    await given_up(side, "create", lambda: open_segment(side.first, "first"))
    writer = await open_segment(side.second, "second")
    seen = [await writer.append([DATA])]
    await side.deliver()
    return [*seen, await writer.append([DATA]), await writer.close()]


async def a_file_is_not_made_in_a_sealed_directory(side: Side) -> list[Any]:
    await side.first.make_directory(OWN)
    await given_up(side, "create", lambda: open_segment(side.first, "first"))
    await side.second.rename(OWN, SEALED)
    await side.deliver()
    return []


async def a_file_is_completed_after_all(side: Side) -> list[Any]:
    writer = await _not_completed(side)
    await side.deliver()
    return [await outcome_of(writer.mend())]


async def a_file_is_completed_after_all_and_closed_again(side: Side) -> list[Any]:
    writer = await _not_completed(side)
    await side.deliver()
    return [await outcome_of(writer.close())]


async def a_file_in_a_sealed_directory_is_completed_and_closed_again(side: Side) -> list[Any]:
    writer = await _not_completed(side)
    await side.second.rename(OWN, SEALED)
    await side.deliver()
    return [await outcome_of(writer.close())]


async def a_file_that_was_mended_is_completed(side: Side) -> list[Any]:
    writer = await _not_completed(side)
    seen = [await writer.mend()]
    await side.deliver()
    return seen


async def a_file_that_was_taken_over_is_completed(side: Side) -> list[Any]:
    writer = await _not_completed(side)
    await side.second.rename(OWN, SEALED)
    seen = [await side.second.take_over(f"{SEALED}/00000000.log", previous_holder="first")]
    await side.deliver()
    return [*seen, await outcome_of(writer.mend())]


async def a_file_in_a_sealed_directory_is_completed(side: Side) -> list[Any]:
    writer = await _not_completed(side)
    await side.second.rename(OWN, SEALED)
    await side.deliver()
    taken = await side.second.take_over(f"{SEALED}/00000000.log", previous_holder="first")
    return [taken, await outcome_of(writer.mend())]


async def _not_completed(side: Side) -> SegmentWriter:
    await side.first.make_directory(OWN)
    writer = await open_segment(side.first, "first")
    await writer.append([DATA])
    await given_up(side, "complete", writer.close)
    return writer


STORIES: tuple[Callable[[Side], Awaitable[list[Any]]], ...] = (
    a_directory_is_made_after_it_was_moved_away,
    a_directory_is_made_without_its_parent,
    a_deletion_takes_what_has_the_name_now,
    a_rename_moves_what_has_the_name_now,
    a_rename_finds_its_target_taken,
    a_file_is_made_for_nobody,
    a_whole_file_is_begun_and_never_written,
    a_file_is_not_made_where_another_is,
    a_file_is_not_made_in_a_sealed_directory,
    a_file_is_completed_after_all,
    a_file_is_completed_after_all_and_closed_again,
    a_file_in_a_sealed_directory_is_completed_and_closed_again,
    a_file_that_was_mended_is_completed,
    a_file_that_was_taken_over_is_completed,
    a_file_in_a_sealed_directory_is_completed,
)


async def told(side: Side, story: Callable[[Side], Awaitable[list[Any]]]) -> tuple[list[Any], list[Any]]:
    """What was seen, and the tree it ends with. File ids are each store's own."""
    await side.first.make_directories("t/0")
    seen = [
        replace(one, file_id=0, modified_ms=-1) if isinstance(one, FileStatus) else one for one in await story(side)
    ]
    tree = await tree_of(side.second, "t")
    return seen, [(path, replace(status, file_id=0, modified_ms=-1)) for path, status in tree]


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
async def test_a_late_call_does_the_same_on_the_fake_and_on_hdfs(
    story: Callable[[Side], Awaitable[list[Any]]], hdfs_config: HdfsConfig
) -> None:
    async with hdfs_side(hdfs_config) as hdfs:
        assert await told(hdfs, story) == await told(FakeSide(), story)
