"""Whatever is sent, answered, cut into pieces, cancelled, timed out or lost in whatever order: each request ends once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.internode_client.link import Link, LinkLost, LinkTimeout
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode, encode_response, parse_request_header
from bmq.protocol.frames import ReceiveBuffer
from bmq.protocol.internal_messages import DeleteBeforeRequest, DeleteBeforeResponse
from bmq.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import SimulatedSocket

pytestmark = pytest.mark.unit

BEFORE = ApiKey.DELETE_BEFORE
LOST = "lost"
TIMED_OUT = "timed out"
CANCELLED = "cancelled"


class Wire:
    """The transport: keeps what was written; what is to arrive is fed in by the test."""

    def __init__(self, loop: VirtualTimeLoop, link: Link) -> None:
        self._loop = loop
        self._link = link
        self.written = bytearray()
        self.is_gone = False

    def get_extra_info(self, name: str) -> Any:
        return SimulatedSocket(("peer", 1))

    def writelines(self, buffers: list[Any]) -> None:
        assert not self.is_gone
        for buffer in buffers:
            self.written += buffer

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_gone

    def abort(self) -> None:
        self.break_off(None)

    def break_off(self, error: Exception | None) -> None:
        if not self.is_gone:
            self.is_gone = True
            self._loop.call_soon(self._link.connection_lost, error)

    def receive(self, data: bytes) -> None:
        while data and not self.is_gone:
            buffer = self._link.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self._link.buffer_updated(count)


@dataclass
class Sent:
    """A request, what it ended with, and what it has to end with."""

    number: int
    future: asyncio.Future[Any] | None
    deadline_s: float | None
    ends: list[Any] = field(default_factory=list)
    expected: Any = None

    def answered(self, frame: bytearray | None) -> None:
        self.ends.append(LOST if frame is None else decode_response(BEFORE, 0, frame)[1].log_start_offset)

    def settled(self) -> list[Any]:
        if self.future is None:
            return self.ends
        if not self.future.done():
            return []
        if self.future.cancelled():
            return [CANCELLED]
        error = self.future.exception()
        if error is None:
            return [self.future.result().log_start_offset]
        return [TIMED_OUT if isinstance(error, LinkTimeout) else LOST if isinstance(error, LinkLost) else error]


class LinkHistory(RuleBasedStateMachine):
    """The model: a request ends with its answer when the last byte of that arrives in time, else with what came first."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop(time_limit_s=1e9)
        self.sent: list[Sent] = []
        self.ids: dict[int, int] = {}  # correlation id by the request's number
        self.unanswered: list[int] = []  # numbers of requests the peer has
        self.arriving = bytearray()
        self.ends_of_frames: list[tuple[int, int]] = []  # (position in all that was ever to arrive, number)
        self.arrived = 0
        self.queued = 0
        self.is_garbage_sent = False
        self.lost_after: list[int] = []  # how many requests had ended when on_lost was called
        self.logging = structlog.testing.capture_logs()
        self.lines = self.logging.__enter__()
        self.link, self.wire = self.loop.run_until_complete(self._opened())
        self.link.on_lost(lambda: self.lost_after.append(sum(len(sent.settled()) for sent in self.sent)))

    async def _opened(self) -> tuple[Link, Wire]:
        link = Link("peer", "me", ReceiveBuffer(16))
        wire = Wire(self.loop, link)
        link.connection_made(wire)  # type: ignore[arg-type]
        learning = asyncio.ensure_future(link._learn_versions())
        for _ in range(3):
            await asyncio.sleep(0)
        assert wire.written
        wire.written.clear()
        versions = ApiVersionsResponse(api_keys=[ApiVersion(api_key=BEFORE)])
        frame = encode_response(ApiKey.API_VERSIONS, 3, 0, versions)
        wire.receive(len(frame).to_bytes(4, "big") + frame)
        await learning
        return link, wire

    @property
    def is_unwritten(self) -> bool:
        return self.is_open and len(self.ids) < len(self.sent)

    @property
    def is_open(self) -> bool:
        return not self.lost_after

    @rule(timeout_s=st.none() | st.integers(1, 20))
    def send(self, timeout_s: int | None) -> None:
        number = len(self.sent)
        request = DeleteBeforeRequest(before_offset=number)
        if timeout_s is None:
            sent = Sent(number, None, None)
            body = encode("request", BEFORE, 0, request)
            self.link.send_frame(BEFORE, (body[: number % len(body)], body[number % len(body) :]), sent.answered)
        else:
            future = self.link.send(BEFORE, request, timeout_s=timeout_s)
            sent = Sent(number, future, self.loop.time() + timeout_s)
        self.sent.append(sent)
        if not self.is_open:
            sent.expected = LOST
            self.turn()

    @rule()
    def turn(self) -> None:
        """The loop turns: what was sent reaches the peer."""
        self.loop.run_until_complete(asyncio.sleep(0))
        written = self.wire.written
        while written:
            end = 4 + int.from_bytes(written[:4], "big")
            frame = bytes(written[4:end])
            del written[:end]
            header = parse_request_header(frame)
            number = int.from_bytes(frame[header.body_position + 24 : header.body_position + 32], "big")
            self.ids[number] = header.correlation_id
            self.unanswered.append(number)

    @precondition(lambda self: self.unanswered or self.is_unwritten)
    @rule(index=st.integers(0, 1_000), is_twice=st.booleans())
    def answer(self, index: int, is_twice: bool) -> None:
        """The peer answers one of its requests, or answers it once more than it should."""
        self.turn()
        number = self.unanswered.pop(index % len(self.unanswered))
        frame = encode_response(BEFORE, 0, self.ids[number], DeleteBeforeResponse(log_start_offset=number))
        for _ in range(1 + is_twice):
            self.arriving += len(frame).to_bytes(4, "big") + frame
            self.queued += len(frame) + 4
            self.ends_of_frames.append((self.queued, number))

    @precondition(lambda self: self.arriving and self.is_open)
    @rule(count=st.integers(1, 200))
    def deliver(self, count: int) -> None:
        """Some bytes arrive, which may be a part of an answer's length."""
        data = bytes(self.arriving[:count])
        del self.arriving[: len(data)]
        self.arrived += len(data)
        for end, number in self.ends_of_frames:
            if end <= self.arrived and self.sent[number].expected is None:
                self.sent[number].expected = number
        self.wire.receive(data)

    @precondition(lambda self: any(sent.future for sent in self.sent))
    @rule(index=st.integers(0, 1_000))
    def cancel(self, index: int) -> None:
        with_future = [sent for sent in self.sent if sent.future is not None]
        sent = with_future[index % len(with_future)]
        assert sent.future is not None
        if sent.future.cancel():
            sent.expected = CANCELLED

    @rule(seconds=st.integers(1, 10))
    def wait(self, seconds: int) -> None:
        self.turn()
        until_s = self.loop.time() + seconds + 0.5
        for sent in self.sent:
            if sent.expected is None and sent.deadline_s is not None and sent.deadline_s <= until_s:
                sent.expected = TIMED_OUT
        self.loop.run_until_complete(asyncio.sleep(seconds + 0.5))

    @precondition(lambda self: self.is_open and len(self.sent) > 4)
    @rule(how=st.sampled_from(["closed here", "end", "broken", "garbage"]))
    def lose(self, how: str) -> None:
        """The stream ends wherever it is: in the middle of a length, of an answer, with requests not yet written."""
        if how == "garbage":
            self.deliver(len(self.arriving))
        for sent in self.sent:
            if sent.expected is None:
                sent.expected = LOST
        if how == "closed here":
            self.link.close()
        elif how == "end":
            self.link.eof_received()
        elif how == "broken":
            self.wire.break_off(ConnectionResetError())
        else:
            self.is_garbage_sent = True
            self.wire.receive(b"\xff" * 4)
        self.loop.run_until_complete(self.link.wait_gone())
        assert not self.link.is_open
        assert self.lost_after == [len(self.sent)]  # told last, once, when all had ended

    @invariant()
    def each_request_ended_as_it_had_to_and_once(self) -> None:
        for sent in self.sent:
            assert sent.settled() == ([] if sent.expected is None else [sent.expected]), sent

    @invariant()
    def nothing_is_kept_of_what_has_ended(self) -> None:
        under_way = sum(sent.expected is None or sent.expected == CANCELLED for sent in self.sent)
        assert self.link.waiting_count <= under_way

    def teardown(self) -> None:
        try:
            self._check_the_end()
        finally:
            self.logging.__exit__(None, None, None)
            self.loop.discard()

    def _check_the_end(self) -> None:
        if self.is_open:
            self.lose("broken")
        self.each_request_ended_as_it_had_to_and_once()
        assert self.link.waiting_count == 0 and self.link.deadline_count == 0
        assert self.loop.failures == []
        assert [line["event"] for line in self.lines] == ["link_closed"] * self.is_garbage_sent


TestLinkHistory = LinkHistory.TestCase
TestLinkHistory.settings = settings(stateful_step_count=40)


def test_correlation_ids_wrap_around_those_that_are_still_used() -> None:
    machine = LinkHistory()
    machine.send(None)
    machine.link._last_id = 2**31 - 2
    for _ in range(3):
        machine.send(None)
    machine.turn()
    assert [machine.ids[number] for number in range(4)] == [1, 2**31 - 1, 0, 2]
    for _ in range(4):
        machine.answer(3, False)
    machine.deliver(1000)
    machine.each_request_ended_as_it_had_to_and_once()
    machine.teardown()
