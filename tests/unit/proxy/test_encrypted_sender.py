"""Answers of TLS connections: whole and in order, whatever the client takes; a slow file holds nobody up, and memory counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import cast

import pytest
import uvloop

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.parts import Part
from bmq.protocol.wire import Buffer
from bmq.proxy import dispatch, handlers
from bmq.proxy.encrypted_sender import PIECE_BYTES_MAX, RECORD_BYTES_MAX, TURN_BYTES_MAX, EncryptedSender
from bmq.proxy.fetch_budget import ResponseBudget
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.listener_socket import ListenerSocket
from tests.unit.proxy.harness import Client, Proxy, start_proxy, until
from tests.unit.proxy.test_file_sender import Owner, ScriptedPart
from tests.unit.proxy.test_tls_acceptor import NAMED, client_context, server_context

pytestmark = pytest.mark.unit

KNOWN = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")
RECORDS = Random(2).randbytes(3_000_000)
BUDGET_BYTES = 64 * 1024 * 1024


class ScriptedTransport:
    """Holds what is written; `capacity_bytes`: what its socket takes, which it does not count. `writes`: sizes."""

    def __init__(self, capacity_bytes: int = 2**60) -> None:
        self.sender: EncryptedSender | None = None
        self.capacity_bytes = capacity_bytes
        self.held_bytes = 0
        self.received = bytearray()
        self.writes: list[int] = []

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert (high, low) == (1, 0)

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, pieces: list[Buffer]) -> None:
        data = b"".join(pieces)
        self.writes.append(len(data))
        self.received += data
        self.held_bytes += len(data)

    def get_write_buffer_size(self) -> int:
        return max(0, self.held_bytes - self.capacity_bytes)

    def drain(self) -> None:
        self.held_bytes = 0
        assert self.sender is not None
        self.sender.resume()


class SlowPart(ScriptedPart):
    """Nothing of it is in memory; a read ends when the test says so."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[Callable[[], None]] = []

    def read_cached(self, position: int, length_bytes: int) -> bytes:
        return b""

    def read(self, position: int, length_bytes: int, done: Callable[[Buffer | OSError], None]) -> None:
        self.reads.append(lambda: done(self.data[position : position + length_bytes]))


def sender_over(transport: ScriptedTransport, owner: Owner, budget: ResponseBudget) -> EncryptedSender:
    loop = asyncio.get_running_loop()
    transport.sender = EncryptedSender(loop, cast(asyncio.Transport, transport), owner, budget)
    transport.sender.begin()
    return transport.sender


@pytest.mark.parametrize("seed", range(8))
async def test_all_parts_arrive_in_order_and_everything_counted_is_given_back(seed: int) -> None:
    random = Random(seed)
    budget, owner = ResponseBudget(BUDGET_BYTES), Owner()
    transport = ScriptedTransport(random.choice((0, 50_000, 400_000)))
    sender = sender_over(transport, owner, budget)
    expected = bytearray()
    for _ in range(5):
        answer: list[Part] = [
            ScriptedPart(random.randbytes(random.randint(1, 900_000)), random)
            if random.random() < 0.5
            else random.randbytes(random.choice((random.randint(1, 200), random.randint(1, 700_000))))
            for _ in range(random.randint(1, 6))
        ]
        for part in answer:
            expected += part.data if isinstance(part, ScriptedPart) else cast(bytes, part)
        sender.send(answer)
        await asyncio.sleep(0)
        if random.random() < 0.5 and transport.get_write_buffer_size():
            transport.drain()
    while len(transport.received) < len(expected):
        await asyncio.sleep(0)
        if transport.get_write_buffer_size():
            transport.drain()
    if transport.get_write_buffer_size():
        transport.drain()
    assert transport.received == expected
    assert max(transport.writes) <= PIECE_BYTES_MAX
    assert sender.unsent_bytes == budget.bytes_used == 0
    assert not owner.failures


async def test_a_client_that_takes_nothing_costs_one_piece_and_it_is_counted() -> None:
    budget, owner = ResponseBudget(BUDGET_BYTES), Owner()
    transport = ScriptedTransport(0)
    sender = sender_over(transport, owner, budget)
    sender.send([b"head"])
    sender.send([ScriptedPart(RECORDS)])
    for _ in range(10):
        await asyncio.sleep(0)
    assert transport.received == b"head"  # the transport is full: nothing is read
    assert budget.bytes_used == 0
    transport.drain()
    assert budget.bytes_used == PIECE_BYTES_MAX
    assert len(transport.received) == 4 + PIECE_BYTES_MAX
    sender.close()  # the client went away
    assert budget.bytes_used == sender.unsent_bytes == 0


async def test_answers_in_memory_wait_as_they_are_counted_by_their_response() -> None:
    """Encrypted at once they would be counted no more, and held by the transport."""
    budget, transport = ResponseBudget(BUDGET_BYTES), ScriptedTransport(0)
    sender = sender_over(transport, Owner(), budget)
    answer: list[Part] = [bytearray(b"head"), memoryview(RECORDS)]
    budget.hold(answer, len(RECORDS))
    sender.send(answer)
    del answer
    assert len(transport.received) == PIECE_BYTES_MAX
    assert budget.bytes_used == len(RECORDS)
    while sender.unsent_bytes:
        transport.drain()
    assert budget.bytes_used == 0
    assert transport.received == b"head" + RECORDS


async def test_one_answer_does_not_take_the_turns_of_others() -> None:
    transport = ScriptedTransport()
    sender = sender_over(transport, Owner(), ResponseBudget(BUDGET_BYTES))
    sender.send([ScriptedPart(RECORDS)])
    assert len(transport.received) == TURN_BYTES_MAX
    await asyncio.sleep(0)
    assert len(transport.received) == 2 * TURN_BYTES_MAX
    sender.close()


async def test_small_answers_are_one_record() -> None:
    transport = ScriptedTransport()
    sender = sender_over(transport, Owner(), ResponseBudget(BUDGET_BYTES))
    sender.send([b"size", b"head", memoryview(b"body")])
    assert transport.writes == [12]
    assert sender.unsent_bytes == 0


async def test_a_slow_file_is_waited_for_in_a_thread_and_its_piece_is_counted() -> None:
    budget, owner, transport = ResponseBudget(BUDGET_BYTES), Owner(), ScriptedTransport()
    sender = sender_over(transport, owner, budget)
    part = SlowPart(RECORDS[: PIECE_BYTES_MAX + 10])
    sender.send([b"head", part])
    sender.send([b"later"])
    assert transport.received == b"head"
    assert budget.bytes_used == PIECE_BYTES_MAX and len(part.reads) == 1
    part.reads[0]()
    assert budget.bytes_used == 10 and len(part.reads) == 2
    assert owner.moves and not owner.ends
    part.reads[1]()
    assert budget.bytes_used == 0 and owner.ends == 1
    assert transport.received == b"head" + part.data + b"later"


async def test_the_client_goes_away_while_a_file_is_read() -> None:
    budget, owner, transport = ResponseBudget(BUDGET_BYTES), Owner(), ScriptedTransport()
    sender = sender_over(transport, owner, budget)
    part = SlowPart(RECORDS)
    sender.send([part])
    sender.close()
    assert budget.bytes_used == PIECE_BYTES_MAX  # the thread still fills it
    part.reads[0]()
    assert budget.bytes_used == 0
    assert not transport.received and not owner.failures


async def test_without_room_in_the_budget_pieces_are_one_record() -> None:
    budget, transport = ResponseBudget(1_000), ScriptedTransport()
    budget.reserve(5_000)
    sender = sender_over(transport, Owner(), budget)
    part = SlowPart(RECORDS)
    sender.send([part])
    assert budget.bytes_used == 5_000 + RECORD_BYTES_MAX
    sender.close()
    part.reads[0]()
    assert budget.bytes_used == 5_000


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(ScriptedPart(b"x" * 100, failure=OSError("the disk is broken")), id="disk"),
        pytest.param(ScriptedPart(b"x" * 100, missing_bytes=10), id="shorter"),
    ],
)
async def test_nothing_follows_half_an_answer(part: ScriptedPart) -> None:
    budget, owner, transport = ResponseBudget(BUDGET_BYTES), Owner(), ScriptedTransport()
    sender = sender_over(transport, owner, budget)
    sender.send([part, b"behind it"])
    await until(lambda: bool(owner.failures))
    sender.send([b"later"])
    assert len(owner.failures) == 1 and len(transport.received) < 100
    assert budget.bytes_used == sender.unsent_bytes == 0


# --- in a connection


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    made = await start_proxy(ProxyLimits(), listener_socket=ListenerSocket(NAMED, server_context()))
    yield made
    await made.server.stop(1)
    await until(lambda: made.stats.connections == 0)


async def connect(proxy: Proxy) -> Client:
    context = client_context()
    made = await asyncio.open_connection(proxy.host, proxy.port, ssl=context, server_hostname="localhost", limit=2**26)
    return Client(*made)


def answer_with(monkeypatch: pytest.MonkeyPatch, part: Part) -> None:
    """Every Fetch is answered with its correlation id and this part."""
    handlers.load_all()
    monkeypatch.setitem(
        dispatch.HOT_HANDLERS,
        ApiKey.FETCH,
        lambda frame, header, context, services, reply: reply((header.correlation_id.to_bytes(4, "big"), part)),
    )


async def test_answers_of_a_connection_keep_their_order(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    part = ScriptedPart(RECORDS, Random(3))
    answer_with(monkeypatch, part)
    client = await connect(proxy)
    asked = [client.send(ApiKey.API_VERSIONS, 3, KNOWN) for _ in range(20)]
    asked.append(client.send(ApiKey.FETCH, 12, FetchRequest()))
    asked.append(client.send(ApiKey.API_VERSIONS, 3, KNOWN))
    asked.append(client.send(ApiKey.FETCH, 12, FetchRequest()))
    frames = [await client.read_frame() for _ in asked]
    assert [int.from_bytes(frame[:4], "big") for frame in frames] == asked
    assert frames[-1][4:] == frames[-3][4:] == RECORDS
    assert part.loads
    assert proxy.services.response_budget.bytes_used == 0
    await client.close()


async def test_a_slow_file_holds_up_its_own_connection_alone(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    part = SlowPart(RECORDS[:1_000])
    answer_with(monkeypatch, part)
    slow, other = await connect(proxy), await connect(proxy)
    asked = slow.send(ApiKey.FETCH, 12, FetchRequest())
    await until(lambda: bool(part.reads))
    assert (await other.ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    assert proxy.services.response_budget.bytes_used == 1_000
    part.reads[0]()
    frame = await slow.read_frame()
    assert frame == asked.to_bytes(4, "big") + part.data
    assert proxy.services.response_budget.bytes_used == 0
    await slow.close()
    await other.close()


async def test_a_client_that_does_not_read_is_bounded_and_may_leave(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, ScriptedPart(RECORDS))
    client = await connect(proxy)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(60):
        client.send(ApiKey.FETCH, 12, FetchRequest())
    await until(lambda: proxy.stats.reads_paused > 0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert proxy.stats.requests[ApiKey.FETCH] < 60
    assert proxy.services.response_budget.bytes_used <= 2 * PIECE_BYTES_MAX
    client.writer.transport.abort()
    await until(lambda: proxy.stats.connections == 0)
    assert proxy.stats.in_flight_bytes == proxy.services.response_budget.bytes_used == 0


async def test_a_stop_lets_an_answer_be_taken(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, ScriptedPart(RECORDS))
    client = await connect(proxy)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(ApiKey.FETCH, 12, FetchRequest())
    await until(lambda: proxy.stats.sent_bytes > len(RECORDS))
    stopping = asyncio.create_task(proxy.server.stop(30))
    await asyncio.sleep(0)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert (await client.read_frame())[4:] == RECORDS
    assert await client.is_closed_by_server()
    await stopping
    await client.close()


@pytest.mark.parametrize(
    "scenario",
    [
        test_answers_of_a_connection_keep_their_order,
        test_a_slow_file_holds_up_its_own_connection_alone,
        test_a_client_that_does_not_read_is_bounded_and_may_leave,
        test_a_stop_lets_an_answer_be_taken,
    ],
)
def test_it_is_the_same_on_uvloop(
    scenario: Callable[[Proxy, pytest.MonkeyPatch], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transports report what they hold otherwise than asyncio's."""

    async def run() -> None:
        made = await start_proxy(ProxyLimits(), listener_socket=ListenerSocket(NAMED, server_context()))
        await scenario(made, monkeypatch)
        await made.server.stop(1)

    uvloop.run(run())
