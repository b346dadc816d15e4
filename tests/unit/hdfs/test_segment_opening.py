"""Opening, closing and mending a segment, with scripted DataNodes and a NameNode that answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.block_stream import BlockStream, Stage
from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import BLOCK_BYTES_MIN, WriteMode
from bmq.hdfs.errors import LeaseLost, NoDataNodes, QuotaExceeded
from bmq.hdfs.lease_renewal import LeaseRenewal
from bmq.hdfs.proto.hdfs_pb2 import HdfsFileStatus
from bmq.hdfs.segment_opening import OPEN_TRIES_MAX, SINGLE_PAUSES_S, SegmentOpening
from bmq.hdfs.writer import BrokenSegment, HdfsWriter
from bmq.log.store import (
    AlreadyExists,
    Durability,
    FencedWriter,
    FileMissing,
    StorageUnavailable,
    StoreError,
    WriterBroken,
)
from testing.processes import free_port
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until
from tests.unit.hdfs.scripted_datanode import ScriptedDataNode, located_on, place_at, scripted_config
from tests.unit.hdfs.test_block_stream import settled

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

PATH = "t/0/00000005.open/00000000.log"
ABSOLUTE = f"/bmq/{PATH}"
QUICK_PAUSES = 3
TIMEOUT_S = 5.0
PAUSE_S_MAX = 1.0


class FakeNameNode:
    """One directory with at most one file, and `places` for its block. `calls`: what was asked.

    `incomplete`: how often complete() still says no. `length_bytes`: what it reports of a closed file, None for the truth.
    """

    def __init__(self, places: Sequence[DataNode]) -> None:
        self.places = tuple(places)
        self.calls: list[str] = []
        self.excluded: list[set[str]] = []
        self.block_bytes = 0
        self.has_directory = True
        self.file_id: int | None = None
        self.next_file_id = 100
        self.incomplete = 0
        self.length_bytes: int | None = None
        self.closed_bytes = -1
        self.complete_error: StoreError | None = None
        self.add_block_error: StoreError | None = None

    async def create(self, path: str, *, holder: str, block_bytes: int, replication: int) -> int:
        self.calls.append("create")
        assert (path, holder, replication) == (ABSOLUTE, "me", 3)
        if not self.has_directory:
            raise FileMissing(path)
        if self.file_id is not None:
            raise AlreadyExists(path)
        self.block_bytes = block_bytes
        self.next_file_id += 1
        self.file_id = self.next_file_id
        return self.file_id

    async def add_block(
        self, path: str, *, holder: str, file_id: int, previous: Block | None = None, exclude: Sequence[DataNode] = ()
    ) -> LocatedBlock:
        self.calls.append("add_block")
        assert (path, holder, file_id, previous) == (ABSOLUTE, "me", self.file_id, None)
        self.excluded.append({node.uuid for node in exclude})
        if self.add_block_error is not None:
            raise self.add_block_error
        places = [place for place in self.places if place.uuid not in self.excluded[-1]]
        if not places:
            raise NoDataNodes("could only be written to 0 of the 1 minReplication nodes")
        return located_on(*places[:3], block_id=file_id)

    async def delete(self, path: str, *, recursive: bool) -> bool:
        self.calls.append("delete")
        assert (path, recursive) == (ABSOLUTE, False)
        self.file_id, was_there = None, self.file_id is not None
        return was_there

    async def complete(self, path: str, *, holder: str, file_id: int, last: Block | None) -> bool:
        self.calls.append("complete")
        assert last is not None
        assert last.block_id == file_id
        if self.complete_error is not None:
            raise self.complete_error
        if self.incomplete:
            self.incomplete -= 1
            return False
        self.closed_bytes = last.length_bytes
        return True

    async def file_info(self, path: str) -> HdfsFileStatus | None:
        self.calls.append("file_info")
        if self.file_id is None:
            return None
        length_bytes = self.closed_bytes if self.length_bytes is None else self.length_bytes
        return HdfsFileStatus(file_id=self.file_id, length=length_bytes)

    async def renew_lease(self, holder: str) -> None:
        self.calls.append("renew_lease")


class FakeMender:
    def __init__(self) -> None:
        self.broken: list[BrokenSegment] = []
        self.answers: list[tuple[int, int] | StoreError] = []

    async def mend(self, broken: BrokenSegment) -> tuple[int, int]:
        self.broken.append(broken)
        answer = self.answers.pop(0)
        if isinstance(answer, StoreError):
            raise answer
        return answer


class Setting:
    """Three good DataNodes and what opens segments on them. `time`: stands still."""

    def __init__(self, nodes: list[ScriptedDataNode], time: LoopTime, **changes: object) -> None:
        self.nodes = nodes
        self.time = time
        self.namenode = FakeNameNode([node.place for node in nodes])
        self.bad_nodes = BadNodes(60.0)
        self.recovery = FakeMender()
        self.leases = LeaseRenewal(self.namenode, 20.0)
        config = scripted_config(
            **{"connect_timeout_s": TIMEOUT_S, "ack_timeout_s": TIMEOUT_S, "retry_max_s": 2.0, **changes}
        )
        self.opening = SegmentOpening(
            config,
            self.namenode,
            self.bad_nodes,
            self.leases,
            self.recovery,
            single_pauses_s=(PAUSE_S_MAX,) * QUICK_PAUSES,
        )

    async def open(self, durability: Durability = Durability.HFLUSH, segment_bytes: int = 5_000_000) -> HdfsWriter:
        """Pauses between tries cost no time."""
        opening = self.opening.open(
            PATH, absolute_path=ABSOLUTE, holder="me", durability=durability, segment_bytes=segment_bytes
        )
        return await self.time.result(opening, pauses_s_max=PAUSE_S_MAX)

    async def close(self, writer: HdfsWriter) -> int:
        return await self.time.result(writer.close(), pauses_s_max=PAUSE_S_MAX)

    async def hang(self, silent: ScriptedDataNode, tries: int = 1) -> None:
        """This node was asked so often and does not answer, the others have; its time is over."""
        await until(lambda: silent.asked == tries)
        for node in self.nodes:
            if node is not silent:
                await node.writing(tries)
        await self.time.pass_s(TIMEOUT_S)


@asynccontextmanager
async def setting(**changes: object) -> AsyncIterator[Setting]:
    """In the end no connection and no task may be left, whatever happened."""
    nodes = [await ScriptedDataNode.start(number) for number in range(3)]
    with LoopTime.stopped() as time:
        found = Setting(nodes, time, **changes)
        try:
            yield found
            for writer in tuple(found.opening.writers):
                writer.abandon()
            await settled(nodes)
            assert found.opening.writers == set()
            assert found.leases._task is None
        finally:
            await found.leases.close()
            for node in nodes:
                await node.stop()


# --- opening


async def test_a_segment_is_open_on_every_node_when_it_is_handed_out() -> None:
    async with setting() as here:
        writer = await here.open()
        assert here.namenode.calls == ["create", "add_block"]
        assert here.namenode.block_bytes % 512 == 0
        assert 5_000_000 < here.namenode.block_bytes <= 5_000_512
        assert [len(node.writings) for node in here.nodes] == [1, 1, 1]
        assert (writer.path, writer.file_id, writer.replicas, writer.accepted_bytes) == (PATH, 101, 3, 0)
        assert await writer.append([b"abc", memoryview(b"def")]) == 6
        assert writer.accepted_bytes == 6
        await writer.prove_ownership()
        assert here.nodes[1].writings[0].heartbeats == 1


async def test_a_block_is_never_smaller_than_hdfs_allows() -> None:
    async with setting() as here:
        await here.open(segment_bytes=1)
        assert BLOCK_BYTES_MIN < here.namenode.block_bytes <= BLOCK_BYTES_MIN + 4096


@pytest.mark.parametrize("mode", list(WriteMode))
async def test_a_dead_node_is_left_out_and_remembered(mode: WriteMode) -> None:
    async with setting(write_mode=mode) as here:
        gone = place_at(free_port(), "gone")
        here.namenode.places = (gone, *here.namenode.places)
        writer = await here.open()
        assert here.namenode.calls == ["create", "add_block", "delete", "create", "add_block"]
        assert writer.replicas == 3
        assert here.bad_nodes.current() == (gone,)
        writer.abandon()
        here.namenode.file_id = None
        here.namenode.excluded.clear()
        await here.open()
        assert here.namenode.excluded == [{"gone"}]


async def test_fewer_nodes_are_settled_for_at_once_when_the_rest_is_known_to_be_bad() -> None:
    async with setting() as here:
        here.nodes[2].setup = "silent"
        opening = asyncio.ensure_future(here.open())
        await here.hang(here.nodes[2])
        writer = await opening
        assert writer.replicas == 2
        assert here.namenode.calls == ["create", "add_block", "delete", "create", "add_block"]
        assert here.bad_nodes.current() == (here.nodes[2].place,)


async def test_a_silent_chain_is_searched_for_its_silent_node() -> None:
    async with setting(write_mode=WriteMode.PIPELINE) as here:
        here.nodes[0].setup = "silent"  # it waits for the chain, as the first one does for a hung second one
        opening = asyncio.ensure_future(here.open())
        await until(lambda: here.nodes[0].asked == 1)
        here.nodes[0].setup, here.nodes[1].setup = "ok", "silent"
        await here.time.pass_s(TIMEOUT_S)
        await here.hang(here.nodes[1])
        writer = await opening
        assert writer.replicas == 2
        assert here.bad_nodes.current() == (here.nodes[1].place,)
        # The third try may be a chain again.
        assert [len(node.writings[-1].operation.targets) for node in (here.nodes[0],)] == [1]


async def test_two_nodes_of_three_are_settled_for() -> None:
    async with setting() as here:
        here.namenode.places = here.namenode.places[:2]
        assert (await here.open()).replicas == 2
        assert here.namenode.calls == ["create", "add_block"]


async def test_a_single_node_is_settled_for_only_after_a_while() -> None:
    assert sum(SINGLE_PAUSES_S) > 3  # the DataNodes' usual heartbeat interval
    async with setting() as here:
        all_places, here.namenode.places = here.namenode.places, here.namenode.places[:1]
        writer = await here.open()
        assert writer.replicas == 1
        assert here.namenode.calls == ["create", "add_block", "complete", "delete"] * QUICK_PAUSES + [
            "create",
            "add_block",
        ]
        # Blocks that are given back are finished, or the NameNode would count them as space in use.
        assert [writing.is_finished for writing in here.nodes[0].writings] == [True] * QUICK_PAUSES + [False]
        writer.abandon()
        here.namenode.file_id = None
        here.namenode.calls.clear()
        await here.open()
        assert here.namenode.calls == ["create", "add_block"]
        here.namenode.file_id = None
        here.namenode.places = all_places
        assert (await here.open()).replicas == 3


async def test_a_node_that_the_namenode_took_for_busy_is_had_a_little_later() -> None:
    async with setting() as here:
        all_places, here.namenode.places = here.namenode.places, here.namenode.places[:1]
        opening = asyncio.ensure_future(here.open())
        await until(lambda: here.namenode.calls.count("complete") == 1)
        here.namenode.places = all_places
        assert (await opening).replicas == 3


async def test_a_single_node_is_taken_at_once_when_the_others_are_known_to_be_bad() -> None:
    async with setting() as here:
        for node in here.nodes[1:]:
            here.bad_nodes.add(node.place)
        assert (await here.open()).replicas == 1
        assert here.namenode.calls == ["create", "add_block"]


async def test_a_block_that_breaks_while_it_is_given_back_does_no_harm() -> None:
    async with setting() as here:
        here.namenode.places = here.namenode.places[:1]
        here.nodes[0].is_holding = True
        opening = asyncio.ensure_future(here.open())
        writing = await here.nodes[0].writing()
        await writing.until(lambda writing: writing.is_finished)
        here.nodes[0].is_holding = False
        writing.drop()
        assert (await opening).replicas == 1


async def test_bad_nodes_are_tried_when_there_are_no_others() -> None:
    async with setting() as here:
        for place in here.namenode.places:
            here.bad_nodes.add(place)
        assert (await here.open()).replicas == 3
        assert here.namenode.excluded == [{"uuid-0", "uuid-1", "uuid-2"}, set()]


async def test_without_datanodes_the_file_is_removed_again() -> None:
    async with setting() as here:
        here.namenode.places = ()
        with pytest.raises(NoDataNodes):
            await here.open()
        assert here.namenode.calls == ["create", "add_block", "delete"]


async def test_trying_again_has_an_end() -> None:
    async with setting() as here:
        for node in here.nodes:
            node.setup = "close"
        with pytest.raises(StorageUnavailable, match="closed the connection"):
            await here.open()
        assert here.namenode.calls.count("create") <= OPEN_TRIES_MAX
        assert here.namenode.file_id is None
        # A node that only closes connections may have been told to by a newer owner.
        assert here.bad_nodes.current() == ()


async def test_a_directory_that_was_moved_away_is_found_missing_and_not_made_again() -> None:
    async with setting() as here:
        here.nodes[0].setup = "silent"
        opening = asyncio.ensure_future(here.open())
        await until(lambda: here.nodes[0].asked == 1)
        here.namenode.has_directory = False
        await here.time.pass_s(TIMEOUT_S)
        with pytest.raises(FileMissing):
            await opening
        assert here.namenode.calls == ["create", "add_block", "delete", "create"]


async def test_a_file_that_is_there_is_left_alone() -> None:
    async with setting() as here:
        here.namenode.file_id = 5
        with pytest.raises(AlreadyExists):
            await here.open()
        assert here.namenode.calls == ["create"]


async def test_a_block_refused_to_a_fenced_owner_is_touched_no_more() -> None:
    async with setting() as here:
        here.namenode.add_block_error = LeaseLost("not the lease owner")
        with pytest.raises(FencedWriter):
            await here.open()
        assert here.namenode.calls == ["create", "add_block"]


async def test_a_cancelled_opening_leaves_nothing_behind() -> None:
    async with setting() as here:
        here.nodes[1].setup = "silent"
        opening = asyncio.ensure_future(here.open())
        await until(lambda: here.nodes[1].connections > 0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening


# --- writing


async def test_hsync_appends_are_on_disk_when_they_count() -> None:
    async with setting() as here:
        writer = await here.open(Durability.HSYNC)
        await writer.append([b"abc"])
        assert [packet.header.sync_block for packet in here.nodes[0].writings[0].packets] == [True]


async def test_a_node_that_hangs_is_remembered_and_breaks_the_writer() -> None:
    async with setting() as here:
        writer = await here.open()
        here.nodes[1].is_holding = True
        answer = writer.append([b"abc"])
        connections = writer._stream._connections
        await until(lambda: [connection.acked_seqno for connection in connections] == [0, -1, 0])
        await here.time.pass_s(TIMEOUT_S)
        with pytest.raises(WriterBroken):
            await answer
        assert here.bad_nodes.current() == (here.nodes[1].place,)
        assert writer.replicas == 3


# --- closing


async def test_closing_waits_for_the_appends_and_for_the_namenode() -> None:
    async with setting() as here:
        writer = await here.open()
        answers = [writer.append([b"abc"]) for _ in range(3)]
        here.namenode.incomplete = 3
        assert await here.close(writer) == 9
        assert [answer.result() for answer in answers] == [3, 6, 9]
        assert here.namenode.calls[2:] == ["complete"] * 4 + ["file_info"]
        assert here.opening.writers == set()
        assert await writer.mend() == 9
        with pytest.raises(WriterBroken, match="closed already"):
            await writer.close()
        with pytest.raises(WriterBroken):
            await writer.append([b"late"])


async def test_closing_an_empty_segment() -> None:
    async with setting() as here:
        assert await (await here.open()).close() == 0


async def test_closing_gives_up_on_a_namenode_that_misses_the_block() -> None:
    async with setting() as here:
        writer = await here.open()
        await writer.append([b"abc"])
        here.namenode.incomplete = 10_000
        with pytest.raises(WriterBroken, match="misses its last block"):
            await here.close(writer)
        here.recovery.answers = [(3, 2)]
        assert await writer.mend() == 3
        assert here.recovery.broken[0].acked_bytes == 3


async def test_closing_can_be_tried_again_when_the_namenode_was_away() -> None:
    async with setting() as here:
        writer = await here.open()
        await writer.append([b"abc"])
        here.namenode.complete_error = StorageUnavailable("away")
        with pytest.raises(StorageUnavailable):
            await writer.close()
        here.namenode.complete_error = None
        assert await writer.close() == 3


async def test_a_lost_lease_means_fenced_for_good() -> None:
    async with setting() as here:
        writer = await here.open()
        await writer.append([b"abc"])
        here.namenode.complete_error = LeaseLost("mismatching GS")
        for call in (writer.close, writer.close, writer.mend, writer.prove_ownership):
            with pytest.raises(FencedWriter):
                await call()
        with pytest.raises(FencedWriter):
            await writer.append([b"late"])
        assert here.opening.writers == set()


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_a_file_that_is_elsewhere_after_closing_was_taken(is_replaced: bool) -> None:
    async with setting() as here:
        writer = await here.open()
        here.namenode.file_id = 999 if is_replaced else None
        with pytest.raises(FencedWriter):
            await writer.close()


async def test_closing_tells_the_length_that_the_namenode_tells() -> None:
    """The log's owner compares it with what it acknowledged, and stops."""
    async with setting() as here:
        writer = await here.open()
        await writer.append([b"abc"])
        here.namenode.length_bytes = 2
        assert await writer.close() == 2


async def test_closing_a_broken_segment_says_so() -> None:
    async with setting() as here:
        writer = await here.open()
        await writer.append([b"abc"])
        here.nodes[0].writings[0].drop()
        with pytest.raises(WriterBroken):
            await writer.close()
        assert "complete" not in here.namenode.calls


# --- mending and letting go


async def test_mending_tells_the_mender_what_is_known() -> None:
    async with setting() as here:
        writer = await here.open()
        await writer.append([b"abc"])
        here.nodes[2].is_holding = True
        lost = writer.append([b"def"])
        here.nodes[2].writings[0].drop()
        with pytest.raises(WriterBroken):
            await lost
        here.recovery.answers = [StorageUnavailable("away"), (6, 2)]
        with pytest.raises(StorageUnavailable):
            await writer.mend()
        assert await writer.mend() == 6
        assert await writer.mend() == 6
        assert writer.replicas == 2
        assert here.opening.writers == set()
        broken = here.recovery.broken[1]
        assert (broken.path, broken.absolute_path, broken.file_id, broken.holder) == (PATH, ABSOLUTE, 101, "me")
        assert broken.located.nodes == here.namenode.places
        assert (broken.failed, broken.acked_bytes) == ((here.nodes[2].place,), 3)


async def test_mending_ends_a_stream_that_still_works() -> None:
    async with setting() as here:
        writer = await here.open()
        here.nodes[0].is_holding = True
        answer = writer.append([b"abc"])
        here.recovery.answers = [(3, 3)]
        assert await writer.mend() == 3
        with pytest.raises(WriterBroken, match="is being mended"):
            await answer


async def test_an_abandoned_writer_touches_nothing() -> None:
    async with setting() as here:
        writer = await here.open()
        here.nodes[0].is_holding = True
        answer = writer.append([b"abc"])
        calls = list(here.namenode.calls)
        writer.abandon()
        writer.abandon()
        for waiting in (answer, writer.append([b"more"]), writer.close(), writer.mend(), writer.prove_ownership()):
            with pytest.raises(FencedWriter):
                await waiting
        assert here.namenode.calls == calls
        assert here.recovery.broken == []


async def test_a_file_whose_block_was_refused_does_not_keep_its_name() -> None:
    """Or a store without room would use up one name after the other."""
    async with setting() as here:
        here.namenode.add_block_error = QuotaExceeded("the space quota is used up")
        for _ in range(2):
            with pytest.raises(QuotaExceeded):
                await here.open()
        assert here.namenode.file_id is None
        here.namenode.add_block_error = None
        await (await here.open()).close()


async def test_a_file_in_a_directory_that_was_moved_away_is_left_alone() -> None:
    async with setting() as here:
        here.namenode.add_block_error = LeaseLost("a newer owner closed it")
        with pytest.raises(FencedWriter):
            await here.open()
        assert "delete" not in here.namenode.calls


class _FailingMender:
    def __init__(self) -> None:
        self.broken: list[BrokenSegment] = []

    async def mend(self, broken: BrokenSegment) -> tuple[int, int]:
        self.broken.append(broken)
        raise StorageUnavailable("lease recovery is still under way")


@pytest.mark.parametrize("durability", list(Durability))
async def test_a_segment_is_not_closed_under_its_old_stamp_after_a_mend_began(durability: Durability) -> None:
    node = await ScriptedDataNode.start(1)
    stream = await BlockStream.open(
        located_on(node, block_id=1), holder="me", config=scripted_config(), stage=Stage.PIPELINE_SETUP_CREATE
    )
    namenode, recovery = FakeNameNode([]), _FailingMender()
    namenode.incomplete = 1_000_000
    writer = HdfsWriter(
        path=PATH,
        absolute_path=ABSOLUTE,
        file_id=1,
        holder="me",
        stream=stream,
        durability=durability,
        namenode=namenode,
        recovery=recovery,
        complete_max_s=0.01,
        on_end=lambda _: None,
    )
    await writer.append([b"abc"])
    with pytest.raises(WriterBroken):
        await writer.close()
    with pytest.raises(StorageUnavailable):
        await writer.mend()
    asked = namenode.calls.count("complete")
    with pytest.raises(WriterBroken, match="being mended"):
        await writer.close()
    assert namenode.calls.count("complete") == asked
    assert [broken.is_synced for broken in recovery.broken] == [durability is Durability.HSYNC]
    writer.abandon()
    await node.stop()
