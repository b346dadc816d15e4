"""One link: whatever the peer does, each request is resolved once. Over real loopback sockets."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
import uvloop

from bmq.internode_client import link as link_module
from bmq.internode_client.link import Link, LinkLost, LinkTimeout, common_versions
from bmq.protocol.apis import INTERNAL_APIS, ApiKey
from bmq.protocol.codec import decode_response, encode, encode_response
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.internal_messages import (
    DeleteBeforeRequest,
    DeleteBeforeResponse,
    MetadataFetchRequest,
    MetadataFetchResponse,
)
from bmq.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from tests.fakes.loop_time import LoopTime
from tests.unit.internode_client.scripted_peer import ScriptedPeer, scripted_peer

pytestmark = pytest.mark.unit

Open = Callable[[], Awaitable[Link]]
LONG_S = 60.0
BEFORE = ApiKey.DELETE_BEFORE


@asynccontextmanager
async def opening(peer: ScriptedPeer) -> AsyncIterator[Open]:
    links: list[Link] = []

    async def open_one() -> Link:
        links.append(await Link.open(peer.host, peer.port, client_id="node-1"))
        return links[-1]

    yield open_one
    for link in links:
        link.close()
        await link.wait_gone()


@pytest.fixture
async def open_link(peer: ScriptedPeer) -> AsyncIterator[Open]:
    async with opening(peer) as open_one:
        yield open_one


def ask(offset: int) -> DeleteBeforeRequest:
    return DeleteBeforeRequest(before_offset=offset)


def told(offset: int) -> DeleteBeforeResponse:
    return DeleteBeforeResponse(log_start_offset=offset)


# --- opening


async def test_opening_says_who_we_are_and_learns_the_versions(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    greeting = peer.greetings[0]
    assert (greeting.header.api_version, greeting.header.client_id) == (3, "node-1")
    assert greeting.message.client_software_name == "bmq"
    assert greeting.message.client_software_version[0].isdigit()
    assert {key: link.version(key) for key in INTERNAL_APIS} == {
        key: api.version_max for key, api in INTERNAL_APIS.items()
    }
    assert link.is_open and link.unsent_bytes == 0


@pytest.mark.parametrize(
    ("theirs", "chosen"),
    [((0, 13), 13), ((0, 99), 13), ((5, 9), 9), ((13, 20), 13), ((3, 3), 3), ((14, 20), None), ((0, 2), None)],
)
def test_the_highest_common_version_is_chosen(theirs: tuple[int, int], chosen: int | None) -> None:
    """Produce: this node has 3 to 13."""
    assert common_versions({ApiKey.PRODUCE: theirs}).get(ApiKey.PRODUCE) == chosen


async def test_an_api_without_a_common_version_fails_when_it_is_used(peer: ScriptedPeer, open_link: Open) -> None:
    peer.ranges = {ApiKey.DELETE_BEFORE: (7, 9), ApiKey.BROKER_HEARTBEAT: (0, 0), 12_345: (0, 1)}
    link = await open_link()
    assert link.version(ApiKey.BROKER_HEARTBEAT) == 0
    for key in (ApiKey.DELETE_BEFORE, ApiKey.PRODUCE):
        with pytest.raises(UnsupportedVersion, match=key.name):
            link.version(key)
        with pytest.raises(UnsupportedVersion):
            link.send(key, ask(1), timeout_s=LONG_S)
        with pytest.raises(UnsupportedVersion):
            link.send_frame(key, (b"",), lambda frame: None)
        with pytest.raises(UnsupportedVersion):
            await link.call(key, ask(1), timeout_s=LONG_S)
    assert link.is_open


async def test_a_peer_that_does_not_know_our_api_versions_is_told_apart(peer: ScriptedPeer) -> None:
    refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(ApiVersion(api_key=18),))
    peer.raw_greeting = encode_response(ApiKey.API_VERSIONS, 0, 0, refused)
    with structlog.testing.capture_logs() as lines, pytest.raises(UnsupportedVersion, match="ApiVersions"):
        await Link.open(peer.host, peer.port, client_id="node-1")
    assert lines == []
    await peer.until(lambda: not peer.connections[0].is_open)


async def test_a_refused_connection_is_lost_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets this port
        with pytest.raises(LinkLost) as caught:
            await Link.open("127.0.0.1", taken.getsockname()[1], client_id="node-1", connect_timeout_s=LONG_S)
    assert not isinstance(caught.value, LinkTimeout)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("a" * 70 + ".invalid", 1)])
async def test_an_address_that_cannot_be_is_a_lost_link(host: str, port: int) -> None:
    with pytest.raises(LinkLost):
        await Link.open(host, port, client_id="node-1")


async def test_a_peer_that_accepts_and_says_nothing_is_given_up(peer: ScriptedPeer, loop_time: LoopTime) -> None:
    peer.is_mute = True
    opening = asyncio.ensure_future(Link.open(peer.host, peer.port, client_id="node-1", connect_timeout_s=2))
    await peer.request()
    await loop_time.pass_s(2)
    with pytest.raises(LinkTimeout):
        await opening
    await peer.until(lambda: peer.connections and not peer.connections[0].is_open)


async def test_a_peer_that_closes_instead_of_greeting(peer: ScriptedPeer) -> None:
    peer.is_mute = True
    attempt = asyncio.ensure_future(Link.open(peer.host, peer.port, client_id="node-1", connect_timeout_s=LONG_S))
    (await peer.request()).connection.close()
    with pytest.raises(LinkLost):
        await attempt


async def test_a_cancelled_opening_leaves_nothing_open(peer: ScriptedPeer) -> None:
    peer.is_mute = True
    attempt = asyncio.ensure_future(Link.open(peer.host, peer.port, client_id="node-1", connect_timeout_s=LONG_S))
    connection = (await peer.request()).connection
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await peer.until(lambda: not connection.is_open)


# --- requests and answers


async def test_answers_find_their_requests_in_any_order(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    futures = [link.send(BEFORE, ask(n), timeout_s=LONG_S) for n in range(50)]
    await peer.request(49)
    for received in reversed(peer.received):
        received.answer(told(received.message.before_offset + 1000))
    assert [response.log_start_offset for response in await asyncio.gather(*futures)] == list(range(1000, 1050))


async def test_apis_of_all_forms_pass(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    calling = asyncio.ensure_future(
        link.call(ApiKey.BROKER_HEARTBEAT, BrokerHeartbeatRequest(broker_id=7), timeout_s=9)
    )
    received = await peer.request()
    assert received.message.broker_id == 7
    received.answer(BrokerHeartbeatResponse(is_caught_up=True))
    assert (await calling).is_caught_up


async def test_what_one_turn_sends_leaves_in_one_write(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    writes: list[list[Any]] = []
    link._transport = RecordingTransport(link._transport, writes)  # type: ignore[assignment]
    body = memoryview(encode("request", BEFORE, 0, ask(5)))
    pieces = (body[:3], body[3:])
    for number in range(10):
        link.send(BEFORE, ask(number), timeout_s=LONG_S)
        link.send_frame(BEFORE, pieces, lambda frame: None)
    assert writes == [] and link.unsent_bytes > 0
    await peer.request(19)
    assert len(writes) == 1
    assert sum(buffer is pieces[0] for buffer in writes[0]) == 10  # as they are, not copied
    assert [received.message.before_offset for received in peer.received] == [n for m in range(10) for n in (m, 5)]
    assert link.unsent_bytes == 0


class RecordingTransport:
    def __init__(self, real: Any, writes: list[list[Any]]) -> None:
        self._real = real
        self._writes = writes

    def writelines(self, buffers: list[Any]) -> None:
        self._writes.append(list(buffers))
        self._real.writelines(buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_a_frame_goes_out_and_its_answer_comes_back_as_bytes(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    answers: asyncio.Queue[bytearray | None] = asyncio.Queue()
    body = encode("request", BEFORE, 0, ask(77))
    link.send_frame(BEFORE, (body[:1], bytearray(body[1:9]), memoryview(body)[9:]), answers.put_nowait)
    received = await peer.request()
    assert received.header.client_id == "node-1" and received.body == body
    received.answer(told(78))
    frame = await answers.get()
    assert isinstance(frame, bytearray)
    assert decode_response(BEFORE, 0, frame) == (received.header.correlation_id, told(78))


async def test_a_large_answer_arrives_whole(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    calling = asyncio.ensure_future(link.call(ApiKey.METADATA_FETCH, MetadataFetchRequest(), timeout_s=LONG_S))
    data = bytes(range(256)) * (80 * 1024)
    (await peer.request()).answer(MetadataFetchResponse(data=data))
    assert (await calling).data == data


async def test_unsent_bytes_grow_while_the_peer_does_not_read(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    peer.connections[0].stop_reading()
    answered: list[bytearray | None] = []
    size = 16 * 1024 * 1024
    link.send_frame(ApiKey.PRODUCE, (bytes(size),), answered.append)
    assert link.unsent_bytes > size
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < link.unsent_bytes < size + 100
    peer.connections[0].go_on_reading()
    await peer.request()
    assert link.unsent_bytes == 0
    link.close()
    assert answered == [None] and link.unsent_bytes == 0


async def test_a_peer_that_never_reads_does_not_take_all_memory(
    peer: ScriptedPeer, open_link: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "UNSENT_BYTES_MAX", 8 * 1024 * 1024)
    link = await open_link()
    peer.connections[0].stop_reading()
    answered: list[bytearray | None] = []
    with structlog.testing.capture_logs() as lines:
        for _ in range(64):
            link.send_frame(ApiKey.PRODUCE, (bytes(1024 * 1024),), answered.append)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert not link.is_open and len(answered) == 64 and not any(answered)
    assert [line["event"] for line in lines] == ["link_closed"]


# --- time


async def test_a_request_without_an_answer_times_out_and_the_link_goes_on(
    peer: ScriptedPeer, open_link: Open, loop_time: LoopTime
) -> None:
    link = await open_link()
    kept = link.send(BEFORE, ask(1), timeout_s=LONG_S)
    given_up = link.send(BEFORE, ask(2), timeout_s=5)
    await peer.request(1)
    await loop_time.pass_s(5)
    with pytest.raises(LinkTimeout, match="DELETE_BEFORE"):
        await given_up
    peer.received[1].answer(told(2))  # late, and nobody's
    peer.received[0].answer(told(1))
    assert (await kept).log_start_offset == 1
    assert link.is_open


async def test_a_cancelled_request_forgets_its_answer_only(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    dropped, kept = (link.send(BEFORE, ask(n), timeout_s=LONG_S) for n in range(2))
    dropped.cancel()
    await peer.request(1)
    for received in peer.received:
        received.answer(told(5))
    assert (await kept).log_start_offset == 5
    assert dropped.cancelled() and link.is_open


# --- the end


@pytest.mark.parametrize("how", ["closed by the peer", "reset", "closed here"])
async def test_a_lost_link_resolves_everything_once_and_in_order(peer: ScriptedPeer, open_link: Open, how: str) -> None:
    link = await open_link()
    events: list[Any] = []
    gone = asyncio.Event()

    def lost() -> None:
        assert all(future.done() for future in futures)
        events.append("lost")
        gone.set()

    link.on_lost(lost)
    link.on_lost(lost)
    futures = []
    for number in range(5):
        future = link.send(BEFORE, ask(number), timeout_s=LONG_S)
        futures.append(future)
        link.send_frame(
            BEFORE,
            (encode("request", BEFORE, 0, ask(number)),),
            lambda frame, number=number: events.append((number, frame)),  # type: ignore[misc]
        )
    connection = (await peer.request(9)).connection
    if how == "closed here":
        link.close()
    elif how == "reset":
        connection.reset()
    else:
        connection.close()
    await gone.wait()
    assert events == [(number, None) for number in range(5)] + ["lost"]
    errors = [future.exception() for future in futures]
    assert all(isinstance(error, LinkLost) and not isinstance(error, LinkTimeout) for error in errors)
    assert len({id(error) for error in errors}) == 5  # each its own: tracebacks do not pile up
    assert not link.is_open and link.unsent_bytes == 0
    link.close()
    await asyncio.sleep(0)
    assert len(events) == 6


async def test_a_lost_link_refuses_what_comes_later(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    link.close()
    answered: list[bytearray | None] = []
    told_lost = asyncio.Event()
    link.send_frame(BEFORE, (b"x",), answered.append)
    assert answered == []  # never from within the call
    link.on_lost(told_lost.set)
    with pytest.raises(LinkLost):
        await link.call(BEFORE, ask(1), timeout_s=LONG_S)
    await told_lost.wait()
    assert answered == [None]


async def test_nobody_has_to_ask_for_the_outcome(peer: ScriptedPeer, open_link: Open) -> None:
    """Without a warning about an exception that was never retrieved (they are errors here)."""
    unraised: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unraised.append(context))
    link = await open_link()
    for number in range(3):
        link.send(BEFORE, ask(number), timeout_s=0.0 if number else LONG_S)
    await peer.request(2)
    link.close()
    link.send(BEFORE, ask(9), timeout_s=LONG_S)
    await link.wait_gone()
    gc.collect()
    assert unraised == []


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 128 * 1024 * 1024 + 1), id="oversized"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another protocol"),
        pytest.param(struct.pack(">i", 0), id="empty frame"),
        pytest.param(struct.pack(">ih", 2, 1), id="shorter than an id"),
        pytest.param(struct.pack(">ii", 4, 5), id="an id that was never sent"),
        pytest.param(struct.pack(">ii", 4, -2), id="a negative id"),
        pytest.param(struct.pack(">ii", 4, 1), id="an answer without a body"),
        pytest.param(struct.pack(">iibh", 7, 1, 0, 0), id="a truncated body"),
    ],
)
async def test_a_peer_that_sends_garbage_is_dropped_with_one_line(
    peer: ScriptedPeer, open_link: Open, raw: bytes
) -> None:
    link = await open_link()
    future = link.send(BEFORE, ask(1), timeout_s=LONG_S)  # its id is 1
    other = link.send(BEFORE, ask(2), timeout_s=LONG_S)
    connection = (await peer.request(1)).connection
    with structlog.testing.capture_logs() as lines:
        connection.send_raw(raw)
        with pytest.raises(LinkLost):
            await future
        with pytest.raises(LinkLost):
            await other
    assert [(line["event"], line["log_level"]) for line in lines] == [("link_closed", "warning")]
    assert not link.is_open and not lines[0].get("exc_info")
    await peer.until(lambda: not connection.is_open)


async def test_an_answer_that_its_receiver_cannot_parse_closes_the_link(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    lost = asyncio.Event()
    link.on_lost(lost.set)

    def parse(frame: bytearray | None) -> None:
        raise MalformedMessage("no produce response")

    link.send_frame(BEFORE, (encode("request", BEFORE, 0, ask(1)),), parse)
    with structlog.testing.capture_logs() as lines:
        (await peer.request()).answer(told(1))
        await lost.wait()
    assert [line["event"] for line in lines] == ["link_closed"]


async def test_a_callback_that_fails_harms_nobody_else(peer: ScriptedPeer, open_link: Open) -> None:
    link = await open_link()
    ends: list[str] = []

    def broken(frame: bytearray | None = None) -> None:
        ends.append("broken")
        raise ValueError("a mistake")

    body = (encode("request", BEFORE, 0, ask(1)),)
    link.on_lost(broken)
    link.on_lost(lambda: ends.append("told"))
    with structlog.testing.capture_logs() as lines:
        link.send_frame(BEFORE, body, broken)
        (await peer.request()).answer(told(1))
        calling = link.send(BEFORE, ask(2), timeout_s=LONG_S)
        (await peer.request(1)).answer(told(2))
        assert (await calling).log_start_offset == 2
        assert link.is_open
        link.send_frame(BEFORE, body, broken)
        last = link.send(BEFORE, ask(3), timeout_s=LONG_S)
        link.close()
    assert ends == ["broken", "broken", "broken", "told"]
    assert isinstance(last.exception(), LinkLost)
    assert [line["event"] for line in lines] == ["link_callback_failed"] * 3


# --- the loop that servers run on


@pytest.mark.parametrize(
    "scenario",
    [
        test_opening_says_who_we_are_and_learns_the_versions,
        test_answers_find_their_requests_in_any_order,
        test_what_one_turn_sends_leaves_in_one_write,
        test_a_frame_goes_out_and_its_answer_comes_back_as_bytes,
        test_a_large_answer_arrives_whole,
        test_unsent_bytes_grow_while_the_peer_does_not_read,
        test_a_lost_link_refuses_what_comes_later,
        test_nobody_has_to_ask_for_the_outcome,
    ],
)
def test_it_is_the_same_on_uvloop(scenario: Callable[..., Awaitable[None]]) -> None:
    async def run() -> None:
        async with scripted_peer() as peer, opening(peer) as open_link:
            await scenario(peer, open_link)

    uvloop.run(run())


@pytest.mark.parametrize("how", ["closed by the peer", "reset", "closed here"])
def test_a_lost_link_is_the_same_on_uvloop(how: str) -> None:
    async def run() -> None:
        async with scripted_peer() as peer, opening(peer) as open_link:
            await test_a_lost_link_resolves_everything_once_and_in_order(peer, open_link, how)

    uvloop.run(run())


def test_a_write_to_a_connection_that_broke_unnoticed_is_no_error_on_uvloop() -> None:
    async def run() -> None:
        async with scripted_peer() as peer, opening(peer) as open_link:
            link = await open_link()
            peer.connections[0].reset()
            futures = []
            while link.is_open:
                futures.append(link.send(BEFORE, ask(1), timeout_s=LONG_S))
                assert link.unsent_bytes >= 0
                await asyncio.sleep(0)
            assert all(isinstance(future.exception(), LinkLost) for future in futures)

    uvloop.run(run())
