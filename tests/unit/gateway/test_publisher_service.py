"""A stream of requests to publish: what it shares with others is given back whatever its client does."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from bmq.gateway.calls import Calls
from bmq.gateway.metrics import GatewayMetrics
from bmq.gateway.principals import Principals
from bmq.gateway.publish_requests import Outcome, Publishable
from bmq.gateway.publisher_service import PublisherService
from bmq.gateway.settings import GatewaySettings
from bmq.gateway.shared_bounds import SharedBounds
from bmq.gateway.stream_limits import StreamLimits
from bmq.gateway.v1 import gateway_pb2

pytestmark = pytest.mark.unit


class Ended(Exception):
    """What `abort` raises."""


class Context:
    """A client that sends what `requests` has, and takes no answer."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        self.is_writing = asyncio.Event()
        self.ended: tuple[Any, str] | None = None

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def read(self) -> Any:
        return await self.requests.get()

    async def write(self, _message: Any) -> None:
        self.is_writing.set()
        await asyncio.get_running_loop().create_future()

    async def abort(self, code: Any, message: str, trailing_metadata: Any) -> None:
        self.ended = (code, message)
        raise Ended


class Publisher:
    """In place of Publishing: the test says when records are written."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[Outcome]] = []
        self.has_begun = asyncio.Event()
        self.have_begun_two = asyncio.Event()

    async def begin(self, request: Publishable) -> asyncio.Future[Outcome]:
        self.begun.append(asyncio.get_running_loop().create_future())
        self.has_begun.set()
        if len(self.begun) == 2:
            self.have_begun_two.set()
        return self.begun[-1]

    def write(self, index: int) -> None:
        outcome = Outcome(1)
        outcome.written(0, 0, index)
        self.begun[index].set_result(outcome)


class User:
    """In place of a Principal, whose one part is the publisher."""

    def __init__(self, publisher: Publisher, shared: SharedBounds) -> None:
        self.users = 0
        self.logged_in_s = 0.0
        self.shared = shared
        self.settings = shared.settings
        self.part = lambda kind: publisher

    async def log_in(self) -> None:
        """Nothing refuses it."""


def service(publisher: Publisher, shared: SharedBounds) -> PublisherService:
    user: Any = User(publisher, shared)
    principals = Principals(shared, lambda: 0.0, lambda *_: user, b"salt")
    return PublisherService(Calls(principals, StreamLimits(10, 10), GatewayMetrics(CollectorRegistry())))


def bounds(**settings: Any) -> SharedBounds:
    return SharedBounds(GatewaySettings().model_copy(update=settings))


REQUEST = gateway_pb2.PublishRequest(topic="t", records=[gateway_pb2.Record(value=b"x")])


async def test_a_client_that_takes_no_answer_is_ended() -> None:
    shared, publisher, context = bounds(write_wait_max_ms=1), Publisher(), Context()
    context.requests.put_nowait(REQUEST)
    stream = asyncio.ensure_future(service(publisher, shared).publish_stream(None, context))
    await publisher.has_begun.wait()
    publisher.write(0)
    with pytest.raises(Ended):
        await asyncio.wait_for(stream, 30)
    assert context.ended == (grpc.StatusCode.DEADLINE_EXCEEDED, "the publisher took no answer for 0.001 s")


async def test_what_is_written_makes_room_for_others_before_it_is_answered() -> None:
    shared, publisher, context = bounds(), Publisher(), Context()
    used = shared.publishing.budget
    for _ in range(2):
        context.requests.put_nowait(REQUEST)
    context.requests.put_nowait(grpc.aio.EOF)
    stream = asyncio.ensure_future(service(publisher, shared).publish_stream(None, context))
    await asyncio.wait_for(publisher.have_begun_two.wait(), 30)
    assert used.used_bytes == 2 * REQUEST.ByteSize()
    publisher.write(1)
    publisher.write(0)
    await asyncio.wait_for(context.is_writing.wait(), 30)
    assert used.used_bytes == 0
    stream.cancel()
    await asyncio.wait({stream})
    assert used.used_bytes == 0


async def test_records_of_a_call_that_has_ended_take_room_until_they_are_written() -> None:
    shared, publisher, context = bounds(), Publisher(), Context()
    context.requests.put_nowait(REQUEST)
    stream = asyncio.ensure_future(service(publisher, shared).publish_stream(None, context))
    await publisher.has_begun.wait()
    await asyncio.sleep(0)
    stream.cancel()
    await asyncio.wait({stream})
    assert shared.publishing.budget.used_bytes == REQUEST.ByteSize()
    publisher.write(0)
    await asyncio.sleep(0)
    assert shared.publishing.budget.used_bytes == 0


async def test_a_request_that_is_wrong_gives_its_room_back() -> None:
    shared, publisher, context = bounds(), Publisher(), Context()
    context.requests.put_nowait(gateway_pb2.PublishRequest(topic="t"))
    stream = asyncio.ensure_future(service(publisher, shared).publish_stream(None, context))
    await asyncio.wait_for(context.is_writing.wait(), 30)
    assert (publisher.begun, shared.publishing.budget.used_bytes) == ([], 0)
    stream.cancel()
    await asyncio.wait({stream})
