"""Answers with parts in files: whole, in order, never mixed; whatever the client takes, the disk does and whoever leaves."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from random import Random

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.parts import Part
from bmq.protocol.wire import Buffer
from bmq.proxy import dispatch, handlers
from bmq.proxy.file_sender import FileSender
from bmq.proxy.limits import ProxyLimits
from tests.unit.proxy.conftest import StartProxy
from tests.unit.proxy.harness import Client, Proxy, until

pytestmark = pytest.mark.unit


class ScriptedPart:
    """A part of a file that is in memory or not as `random` says. `failure`: of loading; `missing_bytes`: at its end."""

    def __init__(
        self, data: bytes, random: Random | None = None, failure: OSError | None = None, missing_bytes: int = 0
    ) -> None:
        self.data = data
        self.random = random
        self.failure = failure
        self.missing_bytes = missing_bytes
        self.loads = 0

    def __len__(self) -> int:
        return len(self.data)

    def peek(self, position: int, length_bytes: int) -> bytes:
        return self.data[position : position + length_bytes]

    def read_cached(self, position: int, length_bytes: int) -> bytes:
        end = min(len(self.data) - self.missing_bytes, position + length_bytes)
        return self.data[position:end] if self.is_cached(position) else b""

    def read(self, position: int, length_bytes: int, done: Callable[[Buffer | OSError], None]) -> None:
        self.loads += 1
        end = min(len(self.data) - self.missing_bytes, position + length_bytes)
        asyncio.get_running_loop().call_soon(done, self.failure or self.data[position:end])

    def from_position(self, position: int) -> ScriptedPart:
        return ScriptedPart(self.data[position:], self.random)

    def between(self, begin: int, end: int) -> ScriptedPart:
        return ScriptedPart(self.data[begin:end], self.random)

    def fill(self, buffer: memoryview, position: int) -> int:
        found = self.data[position : position + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    def is_cached(self, position: int) -> bool:
        return self.failure is None and (self.random is None or self.random.random() < 0.7)

    def load(self, position: int, done: Callable[[OSError | None], None]) -> None:
        self.loads += 1
        asyncio.get_running_loop().call_soon(done, self.failure)

    def send(self, descriptor: int, position: int) -> int:
        end = min(len(self.data) - self.missing_bytes, position + 50_000)
        return os.write(descriptor, self.data[position:end]) if end > position else 0


class Owner:
    def __init__(self) -> None:
        self.moves = 0
        self.failures: list[OSError] = []
        self.ends = 0

    def sending_moved(self) -> None:
        self.moves += 1

    def all_sent(self) -> None:
        self.ends += 1

    def sending_failed(self, error: OSError) -> None:
        self.failures.append(error)


async def received(peer: socket.socket, size_bytes: int, random: Random) -> bytes:
    found = bytearray()
    while len(found) < size_bytes:
        chunk = await asyncio.get_running_loop().sock_recv(peer, random.randint(1, 200_000))
        if not chunk:
            break
        found += chunk
    return bytes(found)


def pair() -> tuple[socket.socket, socket.socket]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    return left, right


@pytest.mark.parametrize("seed", range(8))
async def test_all_parts_arrive_in_order(seed: int) -> None:
    random = Random(seed)
    left, right = pair()
    owner = Owner()
    sender = FileSender(asyncio.get_running_loop(), left.fileno(), owner)
    answers: list[list[Part]] = [
        [
            ScriptedPart(random.randbytes(random.randint(1, 300_000)), random)
            if random.random() < 0.5
            else random.randbytes(random.randint(1, 200))
            for _ in range(random.randint(1, 100 if seed % 2 else 6))
        ]
        for _ in range(5)
    ]
    expected = b"".join(
        part.data if isinstance(part, ScriptedPart) else bytes(part)  # type: ignore[arg-type]
        for answer in answers
        for part in answer
    )
    reading = asyncio.create_task(received(right, len(expected), random))
    sender.send(answers[0])
    await asyncio.sleep(0)
    assert not owner.moves  # what the transport has is not sent yet
    sender.begin()
    for answer in answers[1:]:
        sender.send(answer)
        await asyncio.sleep(0)
    assert await reading == expected
    await until(lambda: not sender.unsent_bytes)
    assert owner.moves and not owner.failures
    sender.close()
    left.close()
    right.close()


async def test_a_client_that_takes_nothing_costs_nothing() -> None:
    left, right = pair()
    owner = Owner()
    sender = FileSender(asyncio.get_running_loop(), left.fileno(), owner)
    sender.begin()
    sender.send([b"head", ScriptedPart(b"x" * 5_000_000)])
    moves = owner.moves
    for _ in range(10):
        await asyncio.sleep(0)
    assert sender.unsent_bytes > 4_000_000 and owner.moves == moves
    sender.close()  # while the loop watches the socket
    assert not sender.unsent_bytes
    left.close()
    right.close()


async def test_closed_while_a_part_is_loaded() -> None:
    left, right = pair()
    owner = Owner()
    part = ScriptedPart(b"x" * 100, failure=OSError("nobody hears of it"))
    sender = FileSender(asyncio.get_running_loop(), left.fileno(), owner)
    sender.begin()
    sender.send([part])
    assert part.loads == 1
    sender.close()
    await asyncio.sleep(0)
    assert not owner.failures
    left.close()
    right.close()


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(ScriptedPart(b"x" * 100, failure=OSError("the disk is broken")), id="disk"),
        pytest.param(ScriptedPart(b"x" * 100, missing_bytes=10), id="shorter"),
    ],
)
async def test_nothing_follows_half_an_answer(part: ScriptedPart) -> None:
    left, right = pair()
    owner = Owner()
    sender = FileSender(asyncio.get_running_loop(), left.fileno(), owner)
    sender.begin()
    sender.send([part, b"behind it"])
    await until(lambda: bool(owner.failures))
    sender.send([b"later"])
    sender.close()
    left.close()
    assert b"behind" not in await received(right, 1_000, Random(1))
    right.close()


async def test_a_client_that_left() -> None:
    left, right = pair()
    owner = Owner()
    sender = FileSender(asyncio.get_running_loop(), left.fileno(), owner)
    right.close()
    sender.begin()
    sender.send([b"head", ScriptedPart(b"x" * 100)])
    assert len(owner.failures) == 1
    sender.close()
    left.close()


# --- in a connection

KNOWN = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")
RECORDS = Random(2).randbytes(3_000_000)


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> ScriptedPart:
    """Every Fetch is answered with a head and this part, behind its correlation id."""
    handlers.load_all()  # else the first server in the process would find the place taken
    part = ScriptedPart(RECORDS, Random(3))
    monkeypatch.setitem(
        dispatch.HOT_HANDLERS,
        ApiKey.FETCH,
        lambda frame, header, context, services, reply: reply((header.correlation_id.to_bytes(4, "big"), part)),
    )
    return part


async def test_answers_of_a_connection_keep_their_order(proxy: Proxy, client: Client, part: ScriptedPart) -> None:
    for _ in range(3):
        asked = [client.send(ApiKey.API_VERSIONS, 3, KNOWN) for _ in range(20)]
        asked.append(client.send(ApiKey.FETCH, 12, FetchRequest()))
        asked.append(client.send(ApiKey.API_VERSIONS, 3, KNOWN))
        asked.append(client.send(ApiKey.FETCH, 12, FetchRequest()))
        frames = [await client.read_frame() for _ in asked]
        assert [int.from_bytes(frame[:4], "big") for frame in frames] == asked
        assert frames[-1][4:] == frames[-3][4:] == RECORDS
    assert part.loads


async def test_what_the_transport_still_has_goes_first(start: StartProxy, part: ScriptedPart) -> None:
    """The client reads late, so that the transport is in the middle of its answers when the first Fetch is answered."""
    proxy = await start(ProxyLimits(unsent_bytes_max=2**26))
    client = await proxy.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    (connection,) = proxy.server.connections
    transport = connection._transport
    assert transport is not None
    # A small buffer of the system's is full after few answers.
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    count = 6_000
    asked = [client.send(ApiKey.API_VERSIONS, 3, KNOWN) for _ in range(count)]
    asked.append(client.send(ApiKey.FETCH, 12, FetchRequest()))
    asked.append(client.send(ApiKey.API_VERSIONS, 3, KNOWN))
    await until(lambda: proxy.stats.requests[ApiKey.FETCH] == 1)
    assert transport.get_write_buffer_size() > 0
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    frames = [await client.read_frame() for _ in asked]
    assert [int.from_bytes(frame[:4], "big") for frame in frames] == asked
    assert frames[-2][4:] == RECORDS
    await client.close()


async def test_a_client_that_does_not_read_is_bounded_and_may_leave(proxy: Proxy, part: ScriptedPart) -> None:
    client = await proxy.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(60):
        client.send(ApiKey.FETCH, 12, FetchRequest())
    await until(lambda: proxy.stats.reads_paused > 0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert proxy.stats.requests[ApiKey.FETCH] < 60  # what was begun in the turn that found the limit
    client.writer.transport.abort()
    await until(lambda: proxy.stats.connections == 0)
    assert proxy.stats.in_flight_bytes == 0


async def test_a_stop_lets_an_answer_be_taken(proxy: Proxy, client: Client, part: ScriptedPart) -> None:
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(ApiKey.FETCH, 12, FetchRequest())
    await until(lambda: proxy.stats.sent_bytes > len(RECORDS))
    stopping = asyncio.create_task(proxy.server.stop(30))
    await asyncio.sleep(0)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert (await client.read_frame())[4:] == RECORDS
    assert await client.is_closed_by_server()
    await stopping
