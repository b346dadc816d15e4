"""Links and the internal listener in the simulated network: random delays, pieces, resets, partitions and deaths."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.internode_client.link import Link, LinkLost, LinkTimeout
from bmq.internode_client.links import Links
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode
from bmq.protocol.internal_messages import DeleteBeforeRequest, DeleteBeforeResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.services import Services
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.unit.internode_server.internal_node import InternalNode, start_internal_node

pytestmark = pytest.mark.unit

BEFORE = ApiKey.DELETE_BEFORE
NODE, HOST, PORT = 2, "node-2", 9192
STEP_S = 5.0


@pytest.fixture(scope="module", autouse=True)
def echo() -> Iterator[None]:
    """DeleteBefore answers with the offset asked for, after the milliseconds that the partition's number says."""

    async def answer(request: Any, context: RequestContext, services: Services) -> DeleteBeforeResponse:
        await asyncio.sleep(request.partition / 1000)
        return DeleteBeforeResponse(log_start_offset=request.before_offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(HANDLERS, BEFORE, answer)
        yield


@dataclass
class World:
    seed: int
    loop: VirtualTimeLoop = field(init=False)
    network: Network = field(init=False)
    server: Process = field(init=False)
    client: Process = field(init=False)
    node: InternalNode = field(init=False)
    links: Links = field(init=False)

    def __post_init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.network = Network(self.loop, random.Random(self.seed))
        self.client = Process(self.loop, "node-1")
        self.start_server()

    def start_server(self) -> None:
        self.server = Process(self.loop, HOST)
        self.node = self.run(self.server, start_internal_node(host=HOST, port=PORT))

    def run(self, process: Process, work: Any) -> Any:
        return self.loop.run_until_complete(process.spawn(work))

    def in_client(self, work: Any) -> Any:
        return self.run(self.client, work)

    async def open_links(self) -> Links:
        self.links = Links("node-1", lambda node_id: (HOST, PORT))
        return self.links

    def end(self) -> None:
        assert self.loop.failures == []
        self.loop.discard()


def ask(number: int, wait_ms: int = 0) -> DeleteBeforeRequest:
    return DeleteBeforeRequest(partition=wait_ms, before_offset=number)


@given(
    seed=st.integers(0, 2**32),
    waits_ms=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    fault=st.sampled_from(["none", "reset", "kill", "pieces break", "cut"]),
    fault_after_ms=st.integers(0, 500),
)
def test_each_request_is_resolved_exactly_once(seed: int, waits_ms: list[int], fault: str, fault_after_ms: int) -> None:
    world = World(seed)
    ends: Counter[int] = Counter()
    values: list[Any] = []
    lost: list[int] = []

    def ended(number: int, value: Any) -> None:
        ends[number] += 1
        values.append((number, value))

    async def scenario() -> None:
        link = await (await world.open_links()).link(NODE)
        link.on_lost(lambda: lost.append(sum(ends.values())))
        futures = []
        for number, wait_ms in enumerate(waits_ms):
            request = ask(number, wait_ms)
            if number % 2:
                body = encode("request", BEFORE, 0, request)
                link.send_frame(
                    BEFORE,
                    (body[:number], body[number:]),
                    lambda frame, number=number: ended(  # type: ignore[misc]
                        number, None if frame is None else decode_response(BEFORE, 0, frame)[1].log_start_offset
                    ),
                )
            else:
                future = link.send(BEFORE, request, timeout_s=STEP_S)
                future.add_done_callback(
                    lambda done, number=number: ended(  # type: ignore[misc]
                        number, None if done.exception() else done.result().log_start_offset
                    )
                )
                futures.append(future)
            if number % 7 == 0:
                await asyncio.sleep(0.01)
        await asyncio.sleep(2 * STEP_S)
        assert all(future.done() for future in futures)
        is_lost = not link.is_open
        await world.links.close()
        await asyncio.sleep(0)
        assert len(lost) == 1 and (fault != "none" or not is_lost)

    def strike() -> None:
        if fault == "reset":
            world.network.reset_between(HOST)
        elif fault == "kill":
            world.server.kill()
        elif fault == "pieces break":
            world.network.reset_rate = 0.05
        elif fault == "cut":
            world.network.cut("node-1", HOST)

    world.loop.call_later(fault_after_ms / 1000, strike)
    try:
        world.in_client(scenario())
    except LinkLost:
        assert fault != "none" and fault_after_ms < 10  # it struck while the link was being opened
        values, ends = [], Counter()
    else:
        assert ends == Counter(range(len(waits_ms)))
        assert all(value in (None, number) for number, value in values)
        if fault == "none":
            assert all(value == number for number, value in values)
    world.end()


def test_a_node_that_dies_and_comes_back_is_reached_again() -> None:
    world = World(5)
    world.in_client(world.open_links())

    async def talk() -> int:
        return (await world.links.call(NODE, BEFORE, ask(7), timeout_s=STEP_S)).log_start_offset

    assert world.in_client(talk()) == 7
    link = world.links.ready(NODE)
    assert link is not None
    waiting = world.in_client(send_and_wait(link))
    world.server.kill()
    with pytest.raises(LinkLost):
        world.in_client(waiting_for(waiting))
    lost_at_s = world.loop.time()
    for _ in range(5):
        with pytest.raises(LinkLost):
            world.in_client(talk())
    world.start_server()
    assert world.in_client(talk()) == 7
    assert world.loop.time() - lost_at_s < 1.5
    world.in_client(world.links.close())
    world.end()


async def send_and_wait(link: Link) -> asyncio.Future[Any]:
    sent = link.send(BEFORE, ask(1, wait_ms=10_000), timeout_s=60)
    await asyncio.sleep(0.1)
    return sent


async def waiting_for(future: asyncio.Future[Any]) -> Any:
    return await future


def test_a_node_that_hangs_times_out_and_answers_late_without_harm() -> None:
    world = World(6)
    world.in_client(world.open_links())

    async def talk(number: int) -> int:
        return (await world.links.call(NODE, BEFORE, ask(number), timeout_s=2.0)).log_start_offset

    assert world.in_client(talk(1)) == 1
    link = world.links.ready(NODE)
    world.server.pause()
    began_s = world.loop.time()
    for number in (2, 3):
        with pytest.raises(LinkTimeout):
            world.in_client(talk(number))
    assert world.loop.time() - began_s == pytest.approx(4.0, abs=0.01)
    world.server.resume()
    assert world.in_client(talk(4)) == 4
    assert world.links.ready(NODE) is link  # one connection all the while
    world.in_client(world.links.close())
    world.end()


def test_an_unreachable_host_is_given_up_in_time() -> None:
    world = World(7)
    world.network.cut("node-1", HOST)
    world.in_client(world.open_links())

    async def talk() -> None:
        await world.links.link(NODE)

    began_s = world.loop.time()
    with pytest.raises(LinkLost):
        world.in_client(talk())
    assert world.loop.time() - began_s == pytest.approx(2.0, abs=0.1)
    world.network.heal()
    world.in_client(talk())
    world.in_client(world.links.close())
    world.end()
