"""Produces and fetches that are sampled as they are received, and what the others cost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from random import Random
from types import FrameType
from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode_request, parse_request_header
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy import dispatch
from bmq.proxy.dispatch import HOT_HANDLERS
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.handlers import load_all
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.server import KafkaServer
from bmq.proxy.stats import ProxyStats
from bmq.proxy.traced_requests import traced_handlers
from tests.fakes.partition_log import FakePartitions
from tests.fakes.store import FakeStore
from tests.support.waiting import until
from tests.unit.proxy.harness import TOPIC_ID, Client, FakeController, image_of, services_over, topic_image
from tests.unit.proxy_authorization.test_hot_rights import calls_of, produce_frame
from tests.unit.proxy_fetch.cluster import want
from tests.unit.tracing.ended_traces import EndedTraces, all_of, names, span_of

pytestmark = pytest.mark.unit

UNSAMPLED_CALLS_MAX = 2
"""Functions that a request which is not sampled calls more than without traces: the door, and the dice."""


class TracedProxy:
    """A listener whose requests are all traced, over logs in memory."""

    def __init__(self) -> None:
        store = FakeStore()
        self.sink = EndedTraces()
        self.partitions = FakePartitions(store)
        self.partitions.add(TOPIC_ID, 0, leader_epoch=3)
        controller = FakeController(image_of(topic_image("t", TOPIC_ID, 1)))
        self.services = services_over(controller, self.partitions)
        self.fetcher = Fetcher(store.client("proxy"), FetchSettings(), random=Random(7))
        self.services.fetcher = self.fetcher
        self.traces = all_of(asyncio.get_running_loop().time, self.sink)
        self.server = KafkaServer(ProxyLimits(), ProxyStats())
        self.server.use_traces(self.traces)

    async def connect(self) -> Client:
        host, port = await self.server.bind("127.0.0.1", 0)
        await self.server.serve(self.services)
        reader, writer = await asyncio.open_connection(host, port)
        return Client(reader, writer)


@pytest.fixture
async def proxy() -> AsyncIterator[TracedProxy]:
    made = TracedProxy()
    yield made
    made.fetcher.stop_waiting()
    await made.server.stop(1)
    await made.fetcher.close()


async def answer(client: Client, api_key: ApiKey, version: int, frame: bytes) -> Any:
    client.writer.write(len(frame).to_bytes(4, "big") + frame)
    size = int.from_bytes(await client.reader.readexactly(4), "big")
    return decode_response(api_key, version, await client.reader.readexactly(size))[1]


def fetch_frame(request: FetchRequest) -> bytes:
    return bytes(encode_request(ApiKey.FETCH, 17, 7, "test", request))


async def test_a_produce_has_spans_from_its_frame_to_its_answer(proxy: TracedProxy) -> None:
    client = await proxy.connect()
    response = await answer(client, ApiKey.PRODUCE, 13, produce_frame(13, ("t", TOPIC_ID)))
    assert response.responses[0].partition_responses[0].error_code == 0
    trace = proxy.sink.named("produce")
    assert names(trace) == ["produce", "append", "send"]
    root, append = trace.root, span_of(trace, "append")
    assert root.attributes["messaging.client.id"] == "test"
    assert root.attributes["bmq.bytes"] == len(produce_frame(13, ("t", TOPIC_ID)))
    assert append.attributes["messaging.destination.partition.id"] == "0"
    assert append.attributes["messaging.kafka.offset"] == 0
    assert [span.error for span in trace.spans] == [None] * 3
    assert all(root.begun_s <= span.begun_s <= (span.ended_s or 0) <= (root.ended_s or 0) for span in trace.spans)
    assert not proxy.traces.appends
    assert proxy.traces.open == 0
    client.writer.close()


async def test_a_fetch_tells_when_it_waited_and_what_it_read(proxy: TracedProxy) -> None:
    client = await proxy.connect()
    await answer(client, ApiKey.PRODUCE, 13, produce_frame(13, ("t", TOPIC_ID)))
    await answer(client, ApiKey.FETCH, 17, fetch_frame(want({0: 0})))
    await answer(client, ApiKey.FETCH, 17, fetch_frame(want({0: 1}, max_wait_ms=5)))
    found, waited = [trace for trace in proxy.sink.traces if trace.root.name == "fetch"]
    assert names(found) == ["fetch", "read from memory", "send"]
    read = span_of(found, "read from memory").attributes
    assert read["bmq.tail_bytes"] == len(proxy.partitions.logs[next(iter(proxy.partitions.logs))].batches[0].data)
    assert read["bmq.cached_bytes"] == 0
    assert names(waited) == ["fetch", "read from memory", "wait", "read from memory", "send"]
    wait = span_of(waited, "wait")
    assert wait.ended_s is not None and wait.ended_s > wait.begun_s
    client.writer.close()


async def test_a_client_that_leaves_ends_its_trace(proxy: TracedProxy) -> None:
    client = await proxy.connect()
    frame = fetch_frame(want({0: 0}, max_wait_ms=60_000))
    client.writer.write(len(frame).to_bytes(4, "big") + frame)
    await until(lambda: proxy.traces.open == 1)
    client.writer.close()
    await until(lambda: not proxy.server.connections)
    proxy.fetcher.stop_waiting()
    assert proxy.sink.named("fetch").root.error == "the connection was closed"
    assert proxy.traces.open == 0


async def test_a_request_that_does_not_parse_ends_its_trace(proxy: TracedProxy) -> None:
    client = await proxy.connect()
    frame = produce_frame(13, ("t", TOPIC_ID))[:40]
    client.writer.write(len(frame).to_bytes(4, "big") + frame)
    assert await client.reader.read() == b""
    client.writer.close()
    assert proxy.sink.named("produce").root.error is not None


async def test_a_handler_that_is_registered_later_is_served_too(
    proxy: TracedProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handlers for other nodes are registered when a node starts, after its listeners were made."""

    def handler(*_: object) -> None: ...

    monkeypatch.setitem(dispatch.HOT_HANDLERS, ApiKey.TAIL_FETCH, handler)
    client = await proxy.connect()
    assert proxy.server.hot_handlers[ApiKey.TAIL_FETCH] is handler
    client.writer.close()


async def test_without_traces_a_listener_has_the_plain_handlers() -> None:
    assert KafkaServer(ProxyLimits(), ProxyStats()).hot_handlers is HOT_HANDLERS


async def test_a_request_that_is_not_sampled_costs_the_dice(proxy: TracedProxy) -> None:
    load_all()
    handlers = traced_handlers(all_of(lambda: 0.0, EndedTraces(), ratio=1e-9), is_between_nodes=False)
    context = RequestContext(13, "test", "10.0.0.1")

    def calls(handler: Any) -> int:
        counts = []
        for _ in range(3):
            frame = bytearray(produce_frame(13, ("t", TOPIC_ID)))
            header, answers = parse_request_header(frame), list[Any]()
            counts.append(calls_of(lambda: handler(frame, header, context, proxy.services, answers.append)))  # noqa: B023
            assert answers
        return counts[-1]

    assert calls(handlers[ApiKey.PRODUCE]) - calls(HOT_HANDLERS[ApiKey.PRODUCE]) <= UNSAMPLED_CALLS_MAX


async def test_unsampled_requests_import_nothing(proxy: TracedProxy) -> None:
    """What exports is loaded by the server with an endpoint alone (tests/unit/server/test_start_imports.py)."""
    modules: set[str] = set()

    def called(frame: FrameType, event: str, argument: object) -> None:
        modules.add(frame.f_globals.get("__name__", ""))

    handlers = traced_handlers(all_of(lambda: 0.0, EndedTraces(), ratio=1e-9), is_between_nodes=False)
    frame = bytearray(produce_frame(13, ("t", TOPIC_ID)))
    header, context, answers = parse_request_header(frame), RequestContext(13, "test", "10.0.0.1"), list[Any]()
    sys.setprofile(called)
    try:
        handlers[ApiKey.PRODUCE](frame, header, context, proxy.services, answers.append)  # type: ignore[arg-type]
    finally:
        sys.setprofile(None)
    assert answers
    assert not [name for name in modules if name.startswith("opentelemetry")]
