"""The Unix socket: pipelining, order, and what it does with clients that are wrong, slow or too many."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bmq.databus.doors.socket_door import SocketDoor
from bmq.databus.doors.unix_path import SocketUnusable, listening_socket
from bmq.databus.record_fields import NO_HEADERS
from bmq.databus.settings import AgentSettings
from bmq.databus.socket_frame import Answer, Code, Request, encoded_request, parse_answer
from tests.fakes.loop_time import LoopTime
from tests.unit.databus.agents import Agent, channel

pytestmark = pytest.mark.unit

WAIT_S = 20


class Served:
    """A door on a socket of its own, and the agent behind it."""

    def __init__(self, directory: Path, more: dict[str, Any]) -> None:
        self.agent = Agent(directory / "spool", channel(), is_synced=more.get("fsync", False))
        values = {"agent_id": "a", "socket": str(directory / "s"), "http": "", **more}
        self.settings = AgentSettings.model_validate(values)
        self.door = SocketDoor(self.agent.intake, self.settings, lambda: self.agent.now_s)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.settings.socket)


Serve = Callable[..., Any]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    made: list[Served] = []

    async def server(**more: Any) -> Served:
        one = Served(tmp_path, more)
        await one.door.open()
        made.append(one)
        return one

    yield server
    for one in made:
        await one.door.close()


def frame(number: int, value: bytes = b"value") -> bytes:
    return encoded_request(Request(number, -1, b"c", None, value, NO_HEADERS))


async def answers(reader: asyncio.StreamReader, count: int) -> list[Answer]:
    found = []
    async with asyncio.timeout(WAIT_S):
        for _ in range(count):
            head = await reader.readexactly(4)
            found.append(parse_answer(head + await reader.readexactly(int.from_bytes(head, "big")))[0])
    return found


async def ends(reader: asyncio.StreamReader) -> bool:
    """The agent closed the connection and said no more."""
    async with asyncio.timeout(WAIT_S):
        return await reader.read() == b""


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        pass


async def test_records_in_any_pieces_are_answered_in_order(serve: Serve) -> None:
    served = await serve()
    reader, writer = await served.connect()
    data = b"".join(frame(number, os.urandom(number * 37 % 900)) for number in range(60))
    for start in range(0, len(data), 61):
        writer.write(data[start : start + 61])
        await asyncio.sleep(0)
    found = await answers(reader, 60)
    assert [answer.request_id for answer in found] == list(range(60))
    assert [answer.number for answer in found] == list(range(1_000, 1_060))
    assert len(served.agent.records()) == 60
    assert served.door.held_bytes == 0
    await close(writer)


async def test_a_record_larger_than_the_receive_buffer(serve: Serve) -> None:
    served = await serve()
    reader, writer = await served.connect()
    value = os.urandom(900_000)
    writer.write(frame(1, value) + frame(2))
    assert [answer.code for answer in await answers(reader, 2)] == [Code.ACCEPTED, Code.ACCEPTED]
    assert served.agent.values()[0] == value
    await close(writer)


async def test_a_frame_that_is_too_long_is_answered_and_the_connection_ends(serve: Serve) -> None:
    served = await serve(frame_bytes_max=5_000)
    reader, writer = await served.connect()
    writer.write(frame(1) + frame(2, b"x" * 6_000))
    good, bad = await answers(reader, 2)
    assert (good.code, bad.code, bad.request_id) == (Code.ACCEPTED, Code.BAD_FRAME, 2)
    assert "5000 are allowed" in bad.sentence
    assert await ends(reader)
    assert served.agent.values() == [b"value"]
    await close(writer)


async def test_garbage_is_answered_and_the_connection_ends(serve: Serve) -> None:
    served = await serve()
    reader, writer = await served.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
    (answer,) = await answers(reader, 1)
    assert answer.code is Code.BAD_FRAME
    assert await ends(reader)
    assert served.door.bad_frames == 1
    await close(writer)


async def test_half_a_frame_that_stays_ends_the_connection(serve: Serve, loop_time: LoopTime) -> None:
    served = await serve(frame_timeout_s=5)
    reader, writer = await served.connect()
    idle_reader, idle_writer = await served.connect()
    writer.write(frame(1) + frame(2)[:20])
    assert (await answers(reader, 1))[0].code is Code.ACCEPTED
    idle_writer.write(frame(1))
    await answers(idle_reader, 1)
    served.agent.now_s += 6
    await loop_time.pass_s(1.5)
    (late,) = await answers(reader, 1)
    assert (late.code, late.sentence) == (Code.BAD_FRAME, "the rest of a frame did not come in 5 s")
    assert await ends(reader)
    assert served.door.held_bytes == 0
    idle_writer.write(frame(2))  # it has no half frame, so it may be silent for ever
    assert (await answers(idle_reader, 1))[0].code is Code.ACCEPTED
    await close(writer)
    await close(idle_writer)


async def test_unfinished_records_past_the_memory_are_thrown_away_and_answered(serve: Serve) -> None:
    served = await serve(memory_bytes_max=1 << 20)
    clients = [await served.connect() for _ in range(3)]
    large = frame(7, b"x" * 900_000)
    for _, writer in clients[:2]:
        writer.write(large[:700_000])
        await writer.drain()
    for _ in range(2_000):
        if any(one._skip for one in served.door.connections):
            break
        await asyncio.sleep(0.001)
    assert served.door.held_bytes <= 1 << 20
    for _, writer in clients[:2]:
        writer.write(large[700_000:] + frame(8))
    codes = [[answer.code.name for answer in await answers(reader, 2)] for reader, _ in clients[:2]]
    assert sorted(codes) == [["ACCEPTED", "ACCEPTED"], ["RETRY", "ACCEPTED"]]
    assert served.door.held_bytes == 0
    for _, writer in clients:
        await close(writer)


async def test_connections_past_the_limit_are_told(serve: Serve) -> None:
    served = await serve(connections_max=1)
    first_reader, first_writer = await served.connect()
    first_writer.write(frame(1))
    await answers(first_reader, 1)
    reader, writer = await served.connect()
    (answer,) = await answers(reader, 1)
    assert answer.code is Code.TOO_MANY_CONNECTIONS
    assert await ends(reader)
    assert served.door.refused_connections == 1
    await close(writer)
    await close(first_writer)


async def test_a_client_that_reads_no_answers_is_not_read_either(serve: Serve) -> None:
    served = await serve()
    _, writer = await served.connect()
    reader, other = await served.connect()
    sent = 0
    data = b"".join(frame(number, b"") for number in range(500))
    transport = writer.transport
    for _ in range(400):
        writer.write(data)
        sent += 500
        await asyncio.sleep(0)
        if transport.get_write_buffer_size() > 4 * len(data):
            break
    assert transport.get_write_buffer_size() > 0
    assert len(served.agent.records()) < sent
    other.write(frame(1))
    assert (await answers(reader, 1))[0].code is Code.ACCEPTED
    transport.abort()
    await close(other)


@pytest.mark.parametrize("fsync", [False, True])
async def test_a_client_that_ends_its_side_gets_its_answers(serve: Serve, fsync: bool) -> None:
    served = await serve(fsync=fsync)
    reader, writer = await served.connect()
    writer.write(frame(1) + frame(2))
    writer.write_eof()
    assert [answer.code for answer in await answers(reader, 2)] == [Code.ACCEPTED, Code.ACCEPTED]
    assert await ends(reader)
    await close(writer)


@pytest.mark.parametrize("fsync", [False, True])
async def test_a_client_that_ends_in_half_a_frame_is_told(serve: Serve, fsync: bool) -> None:
    served = await serve(fsync=fsync)
    reader, writer = await served.connect()
    writer.write(frame(1) + frame(2)[:10])
    writer.write_eof()
    first, second = await answers(reader, 2)
    assert first.code is Code.ACCEPTED
    assert second.sentence == "the connection ended in the middle of a frame"
    assert await ends(reader)
    await close(writer)


def test_a_directory_that_is_made_for_the_socket_can_be_entered(tmp_path: Path) -> None:
    listening_socket(tmp_path / "made" / "s", mode=0o660).close()
    assert (tmp_path / "made").stat().st_mode & 0o755 == 0o755


def test_a_left_socket_is_replaced_and_a_used_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = listening_socket(path, mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SocketUnusable, match="another process listens"):
        listening_socket(path, mode=0o600)
    first.close()
    second = listening_socket(path, mode=0o666)
    assert path.stat().st_mode & 0o777 == 0o666
    second.close()
    path.unlink()
    path.write_text("important")
    with pytest.raises(SocketUnusable, match="is no socket"):
        listening_socket(path, mode=0o600)
    assert path.read_text() == "important"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"owner": "nobody-of-that-name"}, "there is no such user"),
        ({"group": "no-such-group"}, "there is no group"),
    ],
)
def test_an_unknown_owner_is_told(tmp_path: Path, more: dict[str, str], sentence: str) -> None:
    with pytest.raises(SocketUnusable, match=sentence):
        listening_socket(tmp_path / "s", mode=0o600, **more)
    assert not (tmp_path / "s").exists()


def test_a_path_that_is_too_long_is_told(tmp_path: Path) -> None:
    with pytest.raises(SocketUnusable, match="longer than"):
        listening_socket(tmp_path / ("s" * 120), mode=0o600)
    assert socket.AF_UNIX
