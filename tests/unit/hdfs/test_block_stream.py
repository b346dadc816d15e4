"""One block's stream against DataNodes that hold back, answer errors, hang, and go away."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest
import uvloop

from bmq.hdfs.block_stream import BlockStream, Stage, StreamOpenFailed
from bmq.hdfs.blocks import DataNode
from bmq.hdfs.datanode_connection import DataNodeConnection
from bmq.hdfs.proto.transfer_pb2 import BlockOpResponse, TransferStatus
from bmq.log.store import FencedWriter, WriterBroken
from testing.processes import free_port
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until
from tests.unit.hdfs.scripted_datanode import (
    CHUNK_BYTES,
    ScriptedDataNode,
    Writing,
    located_on,
    place_at,
    scripted_config,
)

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20), pytest.mark.usefixtures("loop_time")]

TIMEOUT_S = 5.0
Opening = Callable[..., Awaitable[BlockStream]]


@pytest.fixture
async def nodes() -> AsyncIterator[list[ScriptedDataNode]]:
    started = [await ScriptedDataNode.start(number) for number in range(3)]
    yield started
    for node in started:
        await node.stop()


@asynccontextmanager
async def streaming(
    nodes: list[ScriptedDataNode], *, is_fanout: bool = True, **changes: object
) -> AsyncIterator[tuple[BlockStream, list[Writing]]]:
    """An open stream and what its DataNodes see; in the end nothing may be left open."""
    ends = nodes if is_fanout else nodes[:1]
    counts = [len(node.writings) for node in ends]
    stream = await BlockStream.open(
        located_on(*nodes),
        holder="me",
        config=scripted_config(**changes),
        stage=Stage.PIPELINE_SETUP_CREATE,
        is_fanout=is_fanout,
    )
    writings = [await node.writing(count + 1) for node, count in zip(ends, counts, strict=True)]
    try:
        yield stream, writings
        for writing in writings:
            assert not writing.bad_packet
    finally:
        stream.abort()
        for writing in writings:
            await writing.until(lambda writing: writing.is_closed)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def broken(stream: BlockStream) -> WriterBroken:
    """Wait for the stream to fail by itself."""
    await until(lambda: stream.failure is not None)
    assert isinstance(stream.failure, WriterBroken)
    return stream.failure


# --- acknowledgements of each DataNode


@pytest.mark.parametrize("is_fanout", [True, False])
async def test_a_watch_hears_of_each_node_that_has_all_bytes(nodes: list[ScriptedDataNode], is_fanout: bool) -> None:
    for node in nodes:
        node.is_holding = True
    heard: list[tuple[str, ...]] = []
    async with streaming(nodes, is_fanout=is_fanout) as (stream, writings):
        before = stream.send([b"before"])
        answer = stream.send([b"watched"])
        stream.watch_acks(heard.append)
        places = [str(node.place.transfer) for node in nodes]
        for number, writing in enumerate(writings):
            await writing.until(lambda one: bool(one.data == b"beforewatched"))
            assert len(heard) == number
            writing.release()
            await until(lambda: len(heard) > number)  # noqa: B023
        assert heard == ([(place,) for place in places] if is_fanout else [tuple(places)])
        assert (await before, await answer) == (6, 13)
        after = stream.send([b"after"])
        for writing in writings:
            await writing.until(lambda one: bool(one.data == b"beforewatchedafter"))
            writing.release()
        assert await after == 18
        assert len(heard) == len(writings)
        stream.watch_acks(heard.append)  # nothing is on its way
        assert len(heard) == len(writings)


async def test_a_watch_does_not_hide_a_node_that_fails(nodes: list[ScriptedDataNode]) -> None:
    for node in nodes:
        node.is_holding = True
    heard: list[tuple[str, ...]] = []
    async with streaming(nodes) as (stream, writings):
        answer = stream.send([b"bytes"])
        stream.watch_acks(heard.append)
        for writing in writings:
            await writing.until(lambda one: bool(one.held))
        writings[0].release()
        await until(lambda: bool(heard))
        writings[1].acknowledge(writings[1].held[0], [TransferStatus.ERROR])
        await broken(stream)
        with suppress(WriterBroken):
            await answer
        assert heard == [(str(nodes[0].place.transfer),)]


# --- writing


@pytest.mark.parametrize("is_fanout", [True, False])
async def test_everything_sent_arrives_in_order_and_is_answered_with_its_position(
    nodes: list[ScriptedDataNode], is_fanout: bool
) -> None:
    random = Random(3)
    async with streaming(nodes, is_fanout=is_fanout) as (stream, writings):
        want = bytearray()
        answers: list[tuple[int, asyncio.Future[int]]] = []
        for _ in range(150):
            parts = [random.randbytes(random.choice((0, 1, 500, 512, 513, 3000, 9000))) for _ in range(2)]
            want += parts[0] + parts[1]
            answers.append((len(want), stream.send([memoryview(parts[0]), parts[1]], is_sync=random.random() < 0.3)))
            if random.random() < 0.3:
                assert await answers[-1][1] == len(want)
        assert [await answer for _, answer in answers] == [position for position, _ in answers]
        assert stream.acked == stream.position == len(want)
        assert stream.unacked_bytes == 0
        for writing in writings:
            assert writing.data == want
        await stream.finish()
        assert all(writing.is_finished for writing in writings)


async def test_the_operation_names_the_block_the_holder_and_the_rest_of_the_chain(
    nodes: list[ScriptedDataNode],
) -> None:
    located = located_on(*nodes)
    stream = await BlockStream.open(
        located,
        holder="me",
        config=scripted_config(),
        stage=Stage.PIPELINE_SETUP_STREAMING_RECOVERY,
        new_stamp=1003,
        bytes_least=5,
        bytes_most=9,
        is_fanout=False,
    )
    operation = (await nodes[0].writing()).operation
    assert operation.header.base_header.block == located.block.message()
    assert operation.header.client_name == "me"
    assert [target.id.datanode_uuid for target in operation.targets] == ["uuid-1", "uuid-2"]
    assert (operation.stage, operation.pipeline_size) == (Stage.PIPELINE_SETUP_STREAMING_RECOVERY, 3)
    assert (operation.latest_generation_stamp, operation.min_bytes_rcvd, operation.max_bytes_rcvd) == (1003, 5, 9)
    assert operation.requested_checksum.bytes_per_checksum == CHUNK_BYTES
    stream.abort()


async def test_one_append_goes_out_at_once_and_those_of_the_same_turn_together(nodes: list[ScriptedDataNode]) -> None:
    async with streaming(nodes) as (stream, writings):
        answers = [stream.send((b"abc",)) for _ in range(20)]
        assert [await answer for answer in answers] == [3 * (count + 1) for count in range(20)]
        for writing in writings:
            assert [len(packet.data) for packet in writing.packets] == [3, 60]
        await stream.send((b"x",))
        assert len(writings[0].packets) == 3


async def test_with_a_packet_on_its_way_all_of_a_turn_goes_out_together(nodes: list[ScriptedDataNode]) -> None:
    for node in nodes:
        node.is_holding = True
    async with streaming(nodes) as (stream, writings):
        answers = [stream.send((bytes(8 * CHUNK_BYTES),))]
        await turns(2)
        answers += [stream.send((b"abc",)) for _ in range(3)]
        for writing in writings:
            await writing.until(lambda writing: len(writing.held) == 2)
            assert [len(packet.data) for packet in writing.packets] == [8 * CHUNK_BYTES, 9]
            writing.release()
        assert [await answer - 8 * CHUNK_BYTES for answer in answers] == [0, 3, 6, 9]


async def test_what_one_turn_gathers_is_bounded_by_a_packet(nodes: list[ScriptedDataNode]) -> None:
    async with streaming(nodes) as (stream, writings):
        answers = [stream.send((bytes(3 * CHUNK_BYTES),)) for _ in range(7)]
        await answers[-1]
        assert max(len(packet.data) for packet in writings[0].packets) <= 8 * CHUNK_BYTES
        assert len(writings[0].data) == 21 * CHUNK_BYTES


async def test_an_append_counts_when_every_node_has_it(nodes: list[ScriptedDataNode]) -> None:
    nodes[1].is_holding = True
    async with streaming(nodes) as (stream, writings):
        first = stream.send((b"one",))
        await writings[1].until(lambda writing: len(writing.held) == 1)
        second = stream.send((b"two",))
        await writings[1].until(lambda writing: len(writing.held) == 2)
        assert (stream.acked, stream.position, stream.unacked_bytes) == (0, 6, 6)
        writings[1].release(1)
        assert await first == 3
        assert not second.done()
        assert stream.acked == 3
        writings[1].release()
        assert await second == 6


async def test_sending_nothing_resolves_with_what_was_sent_before(nodes: list[ScriptedDataNode]) -> None:
    for node in nodes:
        node.is_holding = True
    async with streaming(nodes) as (stream, writings):
        assert await stream.send(()) == 0
        first, nothing = stream.send((b"abc",)), stream.send((b"",))
        for writing in writings:
            await writing.until(lambda writing: len(writing.held) == 1)
            assert not nothing.done()
            writing.release()
        assert (await first, await nothing) == (3, 3)


# --- group commit


async def test_one_sync_is_under_way_and_the_next_covers_all_that_waits(nodes: list[ScriptedDataNode]) -> None:
    for node in nodes:
        node.is_holding = True
    async with streaming(nodes) as (stream, writings):
        first = stream.send((b"first",), is_sync=True)
        rest = []
        for number in range(30):
            rest.append(stream.send((bytes([number]) * 100,), is_sync=True))
            await turns(2)
        await writings[0].until(lambda writing: len(writing.packets) == 1)
        for writing in writings:
            await writing.until(lambda writing: len(writing.held) == 1)
            writing.release()
        assert await first == 5
        assert not any(answer.done() for answer in rest)
        for writing in writings:
            await writing.until(lambda writing: len(writing.held) == 1)
            assert [packet.header.sync_block for packet in writing.packets] == [True, True]
            writing.release()
        assert [await answer for answer in rest] == [5 + 100 * (count + 1) for count in range(30)]


async def test_full_packets_go_ahead_of_the_sync_that_covers_them(nodes: list[ScriptedDataNode]) -> None:
    for node in nodes:
        node.is_holding = True
    async with streaming(nodes) as (stream, writings):
        first = stream.send((b"first",), is_sync=True)
        big = stream.send((bytes(20 * CHUNK_BYTES),), is_sync=True)
        for writing in writings:
            await writing.until(lambda writing: len(writing.data) > 16 * CHUNK_BYTES)
            assert [packet.header.sync_block for packet in writing.packets] == [True, False, False, False]
            writing.release()
        assert await first == 5
        assert not big.done()
        for writing in writings:
            await writing.until(lambda writing: bool(writing.held))
            assert writing.packets[-1].header.sync_block
            assert writing.packets[-1].data == b""
            writing.release()
        assert await big == 5 + 20 * CHUNK_BYTES


async def test_a_block_is_not_finished_before_what_it_holds_is_synced(nodes: list[ScriptedDataNode]) -> None:
    for node in nodes:
        node.is_holding = True
    async with streaming(nodes) as (stream, writings):
        answers = [stream.send((b"a",), is_sync=True), stream.send((b"b",), is_sync=True)]
        finishing = asyncio.ensure_future(stream.finish())
        for writing in writings:
            await writing.until(lambda writing: writing.is_finished)
            assert [packet.header.sync_block for packet in writing.packets] == [True, True, False]
            writing.release()
        await finishing
        assert [await answer for answer in answers] == [1, 2]


# --- failures


@pytest.mark.parametrize("position", [0, 1, 2])
async def test_a_failed_node_is_named_and_what_only_the_others_have_does_not_count(
    nodes: list[ScriptedDataNode], position: int
) -> None:
    async with streaming(nodes) as (stream, writings):
        assert await stream.send((b"one",)) == 3
        nodes[position].is_holding = True
        second, third = stream.send((b"two",)), None
        await writings[position].until(lambda writing: len(writing.held) == 1)
        third = stream.send((b"three",))
        await writings[position].until(lambda writing: len(writing.held) == 2)
        writings[position].release(1)
        assert await second == 6
        writings[position].acknowledge(2, [TransferStatus.ERROR])
        with pytest.raises(WriterBroken) as caught:
            await third
        assert str(nodes[position].place.transfer) in str(caught.value)
        assert "ERROR" in str(caught.value)
        assert stream.failure is caught.value
        assert set(stream.failed) == {nodes[position].place}
        assert stream.acked == 6
        with pytest.raises(WriterBroken):
            await stream.send((b"more",))
        with pytest.raises(WriterBroken):
            await stream.heartbeat()
        with pytest.raises(WriterBroken):
            await stream.finish()
        for writing in writings:
            await writing.until(lambda writing: writing.is_closed)


async def test_acknowledgements_in_front_of_a_failure_still_count(nodes: list[ScriptedDataNode]) -> None:
    nodes[2].is_holding = True
    async with streaming(nodes) as (stream, writings):
        first = stream.send((b"one",))
        await writings[2].until(lambda writing: len(writing.held) == 1)
        for writing in writings:
            await writing.until(lambda writing: bool(writing.packets))
        writings[2].acknowledge(0)
        writings[2].acknowledge(0)
        with pytest.raises(WriterBroken, match="packet 0 when 1 was next"):
            await raise_when_broken(stream)
        assert await first == 3
        assert stream.acked == 3


async def raise_when_broken(stream: BlockStream) -> None:
    raise await broken(stream)


@pytest.mark.parametrize(
    ("seqno", "statuses", "told"),
    [
        (0, [TransferStatus.ERROR_CHECKSUM], "ERROR_CHECKSUM"),
        (-2, [TransferStatus.OOB_RESTART], "is restarting"),
        (1, [TransferStatus.SUCCESS], "packet 1 when 0 was next"),
        (-7, [TransferStatus.SUCCESS], "packet -7 when 0 was next"),
        (0, [TransferStatus.SUCCESS, TransferStatus.SUCCESS], "packet 0 when 0 was next"),
        (-1, [TransferStatus.SUCCESS], "a heartbeat that was never sent"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_failure_of_its_node(
    nodes: list[ScriptedDataNode], seqno: int, statuses: list[int], told: str
) -> None:
    nodes[1].is_holding = True
    lost: dict[DataNode, str] = {}
    async with streaming(nodes) as (stream, writings):
        stream._on_lost = lost.__setitem__
        answer = stream.send((b"abc",))
        writings[1].acknowledge(seqno, statuses)
        with pytest.raises(WriterBroken, match=told):
            await answer
        assert set(stream.failed) == set(lost) == {nodes[1].place}
        assert stream.acked == 0


async def test_an_acknowledgement_of_what_was_never_sent_is_a_failure(nodes: list[ScriptedDataNode]) -> None:
    async with streaming(nodes) as (stream, writings):
        writings[1].acknowledge(0)
        with pytest.raises(WriterBroken, match="never sent"):
            await raise_when_broken(stream)


@pytest.mark.parametrize("garbage", [b"\xff" * 12, b"\x05hello", b"\x02\x08\x00"])
async def test_garbage_is_a_failure(nodes: list[ScriptedDataNode], garbage: bytes) -> None:
    async with streaming(nodes) as (stream, writings):
        writings[2].send_raw(garbage)
        assert str(nodes[2].place.transfer) in str(await broken(stream))


async def test_acknowledgements_may_come_in_pieces(nodes: list[ScriptedDataNode]) -> None:
    nodes[0].is_holding = True
    async with streaming(nodes) as (stream, writings):
        answers = [stream.send((b"abc",)), stream.send((b"abc",))]
        await writings[0].until(lambda writing: len(writing.held) == 2)
        for byte in bytes.fromhex("0908001000180022010009080210001800220100"):
            writings[0].send_raw(bytes([byte]))
            await turns()
        assert [await answer for answer in answers] == [3, 6]


async def test_a_closed_connection_is_a_failure_but_no_reason_to_avoid_the_node(
    nodes: list[ScriptedDataNode],
) -> None:
    lost: dict[DataNode, str] = {}
    async with streaming(nodes) as (stream, writings):
        stream._on_lost = lost.__setitem__
        answer = stream.send((b"abc",))
        await answer
        writings[1].drop()
        failure = await broken(stream)
        assert str(nodes[1].place.transfer) in str(failure)
        assert set(stream.failed) == {nodes[1].place}
        assert lost == {}


async def test_a_silent_node_is_found_by_the_timeout_only_while_something_is_due(
    nodes: list[ScriptedDataNode], loop_time: LoopTime
) -> None:
    lost: dict[DataNode, str] = {}
    async with streaming(nodes, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        stream._on_lost = lost.__setitem__
        await stream.send((b"abc",))
        await loop_time.pass_s(2 * TIMEOUT_S)
        assert stream.failure is None
        nodes[1].is_holding = nodes[2].is_holding = True
        answers = [stream.send((b"abc",)) for _ in range(3)]
        await until(lambda: stream._connections[0].acked_seqno == 2)
        for writing in writings[1:]:
            await writing.until(lambda writing: len(writing.held) == 2)
        await loop_time.pass_s(0.9 * TIMEOUT_S)
        assert stream.failure is None
        await loop_time.pass_s(0.1 * TIMEOUT_S)
        with pytest.raises(WriterBroken, match="no acknowledgement in"):
            await answers[0]
        assert set(stream.failed) == set(lost) == {nodes[1].place, nodes[2].place}
        assert stream.acked == 3


async def test_a_slow_node_that_goes_on_answering_is_not_silent(
    nodes: list[ScriptedDataNode], loop_time: LoopTime
) -> None:
    nodes[1].is_holding = True
    async with streaming(nodes, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        answers = []
        for _ in range(6):
            answers.append(stream.send((b"abc",)))
            await turns()
        await writings[1].until(lambda writing: len(writing.held) == 6)
        for answer in answers:
            await loop_time.pass_s(0.6 * TIMEOUT_S)
            writings[1].release(1)
            await answer


async def test_a_node_is_not_blamed_for_the_silence_before_it_was_asked(
    nodes: list[ScriptedDataNode], loop_time: LoopTime
) -> None:
    async with streaming(nodes, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        await stream.send((b"abc",))
        await loop_time.pass_s(0.9 * TIMEOUT_S)
        nodes[0].is_holding = True
        answer = stream.send((b"abc",))
        await writings[0].until(lambda writing: bool(writing.held))
        await loop_time.pass_s(0.9 * TIMEOUT_S)
        writings[0].release()
        assert await answer == 6


async def test_a_machine_that_stood_still_does_not_blame_the_nodes(
    nodes: list[ScriptedDataNode], loop_time: LoopTime
) -> None:
    async with streaming(nodes, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        nodes[0].is_holding = True
        answer = stream.send((b"abc",))
        await writings[0].until(lambda writing: bool(writing.held))
        loop_time.jump(1.2 * TIMEOUT_S)
        await turns()
        assert stream.failure is None
        writings[0].release()
        assert await answer == 3


async def test_a_node_that_is_silent_after_a_standstill_too_is_blamed(
    nodes: list[ScriptedDataNode], loop_time: LoopTime
) -> None:
    async with streaming(nodes, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        nodes[0].is_holding = True
        answer = stream.send((b"abc",))
        await writings[0].until(lambda writing: bool(writing.held))
        loop_time.jump(1.2 * TIMEOUT_S)
        await loop_time.pass_s(0.1 * TIMEOUT_S)
        with pytest.raises(WriterBroken, match="no acknowledgement in"):
            await answer
        assert set(stream.failed) == {nodes[0].place}


async def test_a_pipeline_blames_the_node_that_an_answer_points_at(nodes: list[ScriptedDataNode]) -> None:
    nodes[0].is_holding = True
    async with streaming(nodes, is_fanout=False) as (stream, writings):
        answer = stream.send((b"abc",))
        writings[0].acknowledge(-2, [TransferStatus.SUCCESS, TransferStatus.ERROR])
        with pytest.raises(WriterBroken, match="ERROR"):
            await answer
        assert set(stream.failed) == {nodes[1].place}


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_pipeline_that_does_not_tell_blames_nobody(
    nodes: list[ScriptedDataNode], is_silent: bool, loop_time: LoopTime
) -> None:
    nodes[0].is_holding = True
    async with streaming(nodes, is_fanout=False, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        answer = stream.send((b"abc",))
        await writings[0].until(lambda writing: bool(writing.held))
        if is_silent:
            await loop_time.pass_s(TIMEOUT_S)
        else:
            writings[0].drop()
        with pytest.raises(WriterBroken, match="somewhere in the chain"):
            await answer
        assert stream.failed == {}


async def test_a_pipeline_needs_the_word_of_every_node(nodes: list[ScriptedDataNode]) -> None:
    nodes[0].is_holding = True
    async with streaming(nodes, is_fanout=False) as (stream, writings):
        answer = stream.send((b"abc",))
        writings[0].acknowledge(0, [TransferStatus.SUCCESS, TransferStatus.SUCCESS])
        with pytest.raises(WriterBroken, match="for 2 of 3 DataNodes"):
            await answer
        assert stream.acked == 0


# --- heartbeats


async def test_a_heartbeat_is_answered_by_every_node(nodes: list[ScriptedDataNode]) -> None:
    nodes[2].is_deaf_to_heartbeats = True
    async with streaming(nodes) as (stream, writings):
        beating = asyncio.ensure_future(stream.heartbeat())
        for writing in writings:
            await writing.until(lambda writing: writing.heartbeats == 1)
        await until(lambda: [connection.heartbeats for connection in stream._connections] == [1, 1, 0])
        assert not beating.done()
        writings[2].acknowledge(-1)
        await beating


async def test_who_comes_during_a_round_shares_the_next_one(nodes: list[ScriptedDataNode]) -> None:
    nodes[1].is_deaf_to_heartbeats = True
    async with streaming(nodes) as (stream, writings):
        first = asyncio.ensure_future(stream.heartbeat())
        await writings[1].until(lambda writing: writing.heartbeats == 1)
        later = [asyncio.ensure_future(stream.heartbeat()) for _ in range(10)]
        later[0].cancel()
        await turns()
        assert writings[1].heartbeats == 1
        writings[1].acknowledge(-1)
        await first
        await writings[1].until(lambda writing: writing.heartbeats == 2)
        assert not any(beating.done() for beating in later[1:])
        writings[1].acknowledge(-1)
        await asyncio.gather(*later[1:])
        assert writings[1].heartbeats == 2


async def test_heartbeats_and_appends_are_answered_apart(nodes: list[ScriptedDataNode]) -> None:
    async with streaming(nodes) as (stream, _writings):
        for number in range(50):
            answer = stream.send((b"abc",))
            await stream.heartbeat()
            assert await answer == 3 * (number + 1)


async def test_a_hung_node_is_found_by_a_heartbeat(nodes: list[ScriptedDataNode], loop_time: LoopTime) -> None:
    nodes[1].is_deaf_to_heartbeats = True
    async with streaming(nodes, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        beating = [asyncio.ensure_future(stream.heartbeat()) for _ in range(2)]
        await turns()
        beating.append(asyncio.ensure_future(stream.heartbeat()))
        await writings[1].until(lambda writing: writing.heartbeats == 1)
        await until(lambda: [connection.heartbeats for connection in stream._connections] == [1, 0, 1])
        await loop_time.pass_s(TIMEOUT_S)
        for waiting in beating:
            with pytest.raises(WriterBroken, match="no acknowledgement in"):
                await waiting
        assert set(stream.failed) == {nodes[1].place}


async def test_who_waits_for_a_heartbeat_while_the_block_is_finished_is_answered(
    nodes: list[ScriptedDataNode],
) -> None:
    for node in nodes:
        node.is_holding = True
    async with streaming(nodes) as (stream, writings):
        beating = [asyncio.ensure_future(stream.heartbeat())]
        await turns()
        beating.append(asyncio.ensure_future(stream.heartbeat()))
        await turns()
        finishing = asyncio.ensure_future(stream.finish())
        for writing in writings:
            await writing.until(lambda writing: writing.is_finished)
            writing.release(1)
        await beating[0]
        await turns()
        # A DataNode closes behind the last packet, and what came later would make it lose its answer.
        for writing in writings:
            assert [packet.header.seqno for packet in writing.packets] == [-1, 0]
            writing.release()
        await asyncio.gather(finishing, *beating)
        assert [writing.heartbeats for writing in writings] == [1, 1, 1]


async def test_an_idle_block_is_kept_alive(nodes: list[ScriptedDataNode], loop_time: LoopTime) -> None:
    async with streaming(nodes, idle_heartbeat_s=20.0) as (stream, writings):
        for count in range(1, 4):
            await loop_time.pass_s(19.0)
            assert [writing.heartbeats for writing in writings] == [count - 1] * 3
            await loop_time.pass_s(1.0)
            for writing in writings:
                await writing.until(lambda writing, count=count: writing.heartbeats == count)  # type: ignore[misc]
            await until(lambda count=count: {each.heartbeats for each in stream._connections} == {count})  # type: ignore[misc]


async def test_a_busy_block_needs_no_heartbeat(nodes: list[ScriptedDataNode], loop_time: LoopTime) -> None:
    async with streaming(nodes, idle_heartbeat_s=20.0) as (stream, writings):
        for _ in range(30):
            await stream.send((b"abc",))
            await loop_time.pass_s(15.0)
        assert [writing.heartbeats for writing in writings] == [0, 0, 0]


async def test_an_idle_blocks_heartbeat_finds_a_hung_node(nodes: list[ScriptedDataNode], loop_time: LoopTime) -> None:
    nodes[2].is_deaf_to_heartbeats = True
    async with streaming(nodes, idle_heartbeat_s=20.0, ack_timeout_s=TIMEOUT_S) as (stream, writings):
        await loop_time.pass_s(20.0)
        await writings[2].until(lambda writing: writing.heartbeats == 1)
        await loop_time.pass_s(TIMEOUT_S)
        assert str(nodes[2].place.transfer) in str(await broken(stream))


# --- the end


async def test_a_block_is_finished_when_every_node_says_so(nodes: list[ScriptedDataNode]) -> None:
    nodes[0].is_holding = True
    nodes[1].lingers = True
    async with streaming(nodes) as (stream, writings):
        answer = stream.send((b"abc",))
        finishing = [asyncio.ensure_future(stream.finish()) for _ in range(2)]
        for writing in writings:
            await writing.until(lambda writing: writing.is_finished)
        await writings[2].until(lambda writing: writing.is_closed)
        await turns()
        assert not finishing[0].done()
        writings[0].release()
        await asyncio.gather(*finishing)
        assert await answer == 3
        with pytest.raises(WriterBroken, match="was finished"):
            await stream.send((b"more",))
        await stream.finish()


async def test_an_empty_block_can_be_finished(nodes: list[ScriptedDataNode]) -> None:
    async with streaming(nodes) as (stream, writings):
        await stream.finish()
        assert [packet.header.offset_in_block for packet in writings[0].packets] == [0]


async def test_a_node_that_goes_before_it_has_finished_is_a_failure(nodes: list[ScriptedDataNode]) -> None:
    nodes[1].is_holding = True
    async with streaming(nodes) as (stream, writings):
        answer = stream.send((b"abc",))
        finishing = asyncio.ensure_future(stream.finish())
        await writings[1].until(lambda writing: writing.is_finished)
        writings[1].release(1)
        assert await answer == 3
        writings[1].drop()
        with pytest.raises(WriterBroken, match="connection") as caught:
            await finishing
        assert stream.failure is caught.value
        assert set(stream.failed) == {nodes[1].place}
        with pytest.raises(WriterBroken):
            await stream.finish()


async def test_aborting_fails_everything_and_tells_the_given_reason(nodes: list[ScriptedDataNode]) -> None:
    nodes[0].is_holding = True
    async with streaming(nodes) as (stream, _writings):
        answers = [stream.send((b"abc",)) for _ in range(3)]
        beating = asyncio.ensure_future(stream.heartbeat())
        await turns()
        stream.abort(FencedWriter("taken over"))
        for waiting in (*answers, beating):
            with pytest.raises(FencedWriter):
                await waiting  # type: ignore[misc]
        assert stream.failed == {}


def test_sending_never_raises_whatever_the_transport_went_through() -> None:
    """On uvloop, whose closed transports refuse to be written to before they tell that they are closed."""

    async def scenario() -> None:
        nodes = [await ScriptedDataNode.start(number) for number in range(3)]
        async with streaming(nodes) as (stream, writings):
            await stream.send((b"abc",))
            writings[1].drop()
            while stream.failure is None:
                answers = [stream.send((bytes(100_000),), is_sync=True) for _ in range(50)]
                stream._connections[0].abort()
                await asyncio.sleep(0)
            for answer in answers:
                with pytest.raises(WriterBroken):
                    await answer
        for node in nodes:
            await node.stop()

    uvloop.run(scenario())


async def test_failures_that_nobody_waits_for_make_no_noise(
    nodes: list[ScriptedDataNode], caplog: pytest.LogCaptureFixture
) -> None:
    nodes[0].is_holding = True
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        async with streaming(nodes) as (stream, writings):
            for _ in range(3):
                stream.send((b"abc",), is_sync=True)
            beating = asyncio.ensure_future(stream.heartbeat())
            finishing = asyncio.ensure_future(stream.finish())
            await turns()
            beating.cancel()
            finishing.cancel()
            writings[0].drop()
            await broken(stream)
            stream.send((b"abc",))
        del stream, beating, finishing
        gc.collect()
        await turns()
    assert caplog.records == []


# --- writing again (a recovered block)


async def test_a_recovered_block_is_filled_up_and_finished_where_it_is_told(nodes: list[ScriptedDataNode]) -> None:
    async with streaming(nodes) as (stream, writings):
        for writing in writings:
            writing.data += bytes(2 * CHUNK_BYTES + 10)
        answer = stream.send_at(CHUNK_BYTES, b"r" * (CHUNK_BYTES + 100))
        assert await answer == 2 * CHUNK_BYTES + 100
        assert await stream.send_at(2 * CHUNK_BYTES, b"s" * 200) == 2 * CHUNK_BYTES + 200
        assert stream.position == 2 * CHUNK_BYTES + 200
        assert await stream.send((b"t" * 5,)) == 2 * CHUNK_BYTES + 205
        await stream.finish()
        assert writings[0].packets[-1].header.offset_in_block == 2 * CHUNK_BYTES + 205
        assert len(writings[0].data) == 2 * CHUNK_BYTES + 205


async def test_a_recovered_block_of_equal_replicas_is_finished_at_any_length(nodes: list[ScriptedDataNode]) -> None:
    async with streaming(nodes) as (stream, writings):
        for writing in writings:
            writing.data += bytes(1000)
        assert await stream.send_at(1000, b"") == 1000
        assert (stream.position, stream.unacked_bytes) == (1000, 0)
        await stream.finish()
        assert writings[0].packets[-1].header.offset_in_block == 1000


# --- opening


async def opened(nodes: list[ScriptedDataNode | DataNode], **changes: object) -> BlockStream:
    is_fanout = bool(changes.pop("is_fanout", True))
    return await BlockStream.open(
        located_on(*nodes),
        holder="me",
        config=scripted_config(**changes),
        stage=Stage.PIPELINE_SETUP_CREATE,
        is_fanout=is_fanout,
    )


async def test_opening_names_those_that_failed_and_leaves_nothing_open(nodes: list[ScriptedDataNode]) -> None:
    nodes[1].setup = BlockOpResponse(status="ERROR", message="no disk\nstack trace")
    gone = place_at(free_port(), "gone")
    with pytest.raises(StreamOpenFailed, match="no disk") as caught:
        await opened([nodes[0], nodes[1], gone])
    assert caught.value.failed == (nodes[1].place, gone)
    assert caught.value.unreachable == (gone,)
    assert caught.value.connected == (nodes[0].place,)
    assert "stack trace" not in str(caught.value)
    await settled(nodes)


@pytest.mark.parametrize("is_fanout", [True, False])
async def test_opening_does_not_wait_for_a_hung_node(
    nodes: list[ScriptedDataNode], is_fanout: bool, loop_time: LoopTime
) -> None:
    nodes[0].setup = "silent"
    opening = asyncio.ensure_future(opened([*nodes], connect_timeout_s=3.0, is_fanout=is_fanout))
    await until(lambda: nodes[0].asked == 1)
    if is_fanout:
        await until(lambda: all(node.writings for node in nodes[1:]))
    await loop_time.pass_s(3.0)
    with pytest.raises(StreamOpenFailed, match="no answer in 3 s") as caught:
        await opening
    # In a chain it may be any node that did not answer.
    assert caught.value.failed == caught.value.unreachable == ((nodes[0].place,) if is_fanout else ())
    await settled(nodes)


async def test_opening_fails_with_a_node_that_closes(nodes: list[ScriptedDataNode]) -> None:
    nodes[2].setup = "close"
    with pytest.raises(StreamOpenFailed, match="closed the connection") as caught:
        await opened([*nodes])
    assert caught.value.failed == (nodes[2].place,)
    assert caught.value.unreachable == ()
    await settled(nodes)


async def test_opening_a_chain_blames_the_bad_link(nodes: list[ScriptedDataNode]) -> None:
    nodes[0].setup = BlockOpResponse(status="ERROR", first_bad_link=str(nodes[2].place.transfer))
    with pytest.raises(StreamOpenFailed) as caught:
        await opened([*nodes], is_fanout=False)
    assert caught.value.failed == (nodes[2].place,)
    assert caught.value.connected == (nodes[0].place, nodes[1].place)


async def test_opening_a_chain_blames_a_first_node_that_refuses(nodes: list[ScriptedDataNode]) -> None:
    gone = place_at(free_port(), "gone")
    with pytest.raises(StreamOpenFailed) as caught:
        await opened([gone, nodes[0]], is_fanout=False)
    assert caught.value.failed == caught.value.unreachable == (gone,)


async def test_opening_takes_no_foreign_server_for_a_datanode(nodes: list[ScriptedDataNode]) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\xff\xff\xff\xff\x0f HTTP/1.1 400 Bad Request\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    place = place_at(server.sockets[0].getsockname()[1], "foreign")
    with pytest.raises(StreamOpenFailed, match="no answer to a WRITE_BLOCK"):
        await opened([place])
    server.close()
    await server.wait_closed()


async def test_an_answer_before_its_packet_is_a_failed_opening(
    nodes: list[ScriptedDataNode], loop_time: LoopTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledged_by: list[DataNode] = []
    acknowledged = BlockStream.acknowledged

    def noted(stream: BlockStream, connection: DataNodeConnection) -> None:
        acknowledged(stream, connection)
        acknowledged_by.append(connection.node)

    monkeypatch.setattr(BlockStream, "acknowledged", noted)

    async def answer_too_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes.fromhex("040800120009080010001800220100"))
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()

    server = await asyncio.start_server(answer_too_much, "127.0.0.1", 0)
    hasty = place_at(server.sockets[0].getsockname()[1], "hasty")
    nodes[1].setup = "silent"
    opening = asyncio.ensure_future(opened([nodes[0], hasty, nodes[1]], connect_timeout_s=3.0))
    await until(lambda: nodes[1].asked == 1 and nodes[0].writings and acknowledged_by == [hasty])
    await loop_time.pass_s(3.0)
    with pytest.raises(StreamOpenFailed, match="never sent") as caught:
        await opening
    assert set(caught.value.failed) == {hasty, nodes[1].place}
    server.close()
    await server.wait_closed()
    await settled(nodes)


async def test_opening_without_nodes_fails() -> None:
    with pytest.raises(StreamOpenFailed):
        await opened([])


async def test_a_cancelled_opening_leaves_nothing_open(nodes: list[ScriptedDataNode]) -> None:
    nodes[1].setup = "silent"
    opening = asyncio.ensure_future(opened([*nodes]))
    await until(lambda: sum(node.connections for node in nodes) == 3)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await settled(nodes)


async def settled(nodes: list[ScriptedDataNode]) -> None:
    """No connection is left at any node."""
    await until(lambda: not any(node.connections for node in nodes))
