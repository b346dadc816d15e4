"""The largest legal requests of every API: none of them takes a turn of the event loop in which others would wait.

What a turn costs is counted, not timed: calls of functions, in Python and in C, which all have small and similar costs. A
request that was handled at once would make several for each of its elements. The numbers of elements are scaled down
from what a message may have, and so is the bound: both sides of the comparison grow alike.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import pytest

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import encode_request
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.proxy import handlers
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.split_requests import CHANGES_MAX
from bmq.server.settings import load_settings
from bmq.server.standalone import StandaloneServer
from tests.fakes.store import FakeStore
from tests.simulation.clock import SimulatedClock
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.support.gate_share import few_in_gate
from tests.support.largest_requests import Known, largest_requests

pytestmark = pytest.mark.simulation
in_campaign = pytest.mark.campaign("seeds")

ELEMENTS: Final = 6_000
CALLS_PER_TURN_MAX: Final = 30_000
"""Some 5 to 20 milliseconds of a processor. Handled at once these requests make up to a million."""
FETCH_SHARE: Final = 2
"""A Fetch is on the way of the data: all its partitions are looked at in one turn, and fetcher.PARTITIONS_MAX bounds them."""
PARTITIONS: Final = 40
ANSWERED_WITHIN_S: Final = 600.0


class CallCount:
    """Counts the calls of each callback of the loop, while it is in force."""

    def __init__(self) -> None:
        self.most = 0
        self.of = ""
        self._calls = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        run = asyncio.Handle._run

        def counted(handle: asyncio.Handle) -> None:
            self._calls = 0
            sys.setprofile(self._note)
            try:
                run(handle)
            finally:
                sys.setprofile(None)
            if self._calls > self.most:
                self.most, self.of = self._calls, repr(handle)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", counted)
            patch.setattr(asyncio.TimerHandle, "_run", counted)
            yield

    def _note(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1


class Client(asyncio.Protocol):
    """One connection, one request, one answer; None: it was closed."""

    def __init__(self, answered: asyncio.Future[bytes | None]) -> None:
        self.answered = answered
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        size = int.from_bytes(self._received[:4], "big")
        if len(self._received) >= 4 + size and not self.answered.done():
            self.answered.set_result(bytes(self._received[4:]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_result(None)


async def ask(loop: VirtualTimeLoop, frame: bytes) -> bytes | None:
    client = Client(loop.create_future())
    transport, _ = await loop.create_connection(lambda: client, "server", 9092)
    transport.write(len(frame).to_bytes(4, "big") + frame)
    answer = await asyncio.wait_for(client.answered, ANSWERED_WITHIN_S)
    transport.close()
    return answer


async def calls_of_largest_requests(loop: VirtualTimeLoop, api_key: ApiKey) -> None:
    # As small as these requests are, they are to be handled as those of forty times as many elements.
    loaded = load_settings({"listen": "server:9092", "proxy": {"decoded_whole_bytes_max": 2 * 1024}}, None)
    server = StandaloneServer(loaded.settings, FakeStore().client("server"), SimulatedClock(loop), Random(1))
    await server.start()
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    made = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    await ask(loop, encode_request(ApiKey.CREATE_TOPICS, 7, 1, "test", made))
    known = Known("t", server.image.topics["t"].topic_id, PARTITIONS)
    for one in largest_requests(api_key, known, ELEMENTS):
        frame = encode_request(api_key, one.version, 1, "test", one.message)
        count = CallCount()
        await asyncio.sleep(0.001)
        with count.counting():
            answer = await ask(loop, frame)
        assert answer is not None, f"{one.name}: the connection was closed"
        allowed = CALLS_PER_TURN_MAX * (FETCH_SHARE if api_key is ApiKey.FETCH else 1)
        assert count.most <= allowed, f"{one.name}: {count.most} calls in one turn, {count.of}"
    await server.stop()


handlers.load_all()
SERVED = tuple(key for key in APIS if key in HANDLERS or key is ApiKey.FETCH)


@few_in_gate("api_key", SERVED, every=5, others=in_campaign, ids=lambda key: key.name)
def test_a_turn_of_the_loop_has_a_bounded_part_of_a_large_request(api_key: ApiKey) -> None:
    loop = VirtualTimeLoop(time_limit_s=36_000.0)
    Network(loop, Random(1))
    try:
        loop.run_until_complete(calls_of_largest_requests(loop, api_key))
    finally:
        loop.discard()


async def calls_of_a_creation(loop: VirtualTimeLoop, topics: int) -> int:
    loaded = load_settings({"listen": "server:9092"}, None)
    server = StandaloneServer(loaded.settings, FakeStore().client("server"), SimulatedClock(loop), Random(1))
    await server.start()
    wanted = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(topics)]
    frame = encode_request(ApiKey.CREATE_TOPICS, 7, 1, "test", CreateTopicsRequest(topics=wanted, timeout_ms=30_000))
    count = CallCount()
    await asyncio.sleep(0.001)
    with count.counting():
        assert await ask(loop, frame) is not None
    assert len(server.image.topics) == topics
    await server.stop()
    return count.most


@in_campaign
def test_a_creation_of_as_many_topics_as_a_request_may_make_is_applied_in_short_turns() -> None:
    loop = VirtualTimeLoop(time_limit_s=36_000.0)
    Network(loop, Random(1))
    try:
        most = loop.run_until_complete(calls_of_a_creation(loop, CHANGES_MAX))
    finally:
        loop.discard()
    # To encode and to decode the records in the same turn would be half as much again. Most of it hashes ids.
    assert most <= 40 * CHANGES_MAX
