"""Nodes whose event loop stood still, in the simulated network: requests between nodes from before are void (rule 22)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from bmq.internode_client.link import Link, LinkLost
from bmq.internode_client.links import Links
from bmq.protocol.apis import ApiKey
from bmq.protocol.internal_messages import DeleteBeforeRequest, DeleteBeforeResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.services import Services
from bmq.proxy.stall_watch import StallWatch
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.unit.internode_server.internal_node import start_internal_node

pytestmark = pytest.mark.unit

BEFORE = ApiKey.DELETE_BEFORE
HOST, PORT = "node-2", 9192
BOUND_MS = 2_000


class CarriedOut(list[int]):
    """What node 2 was asked to do and did."""

    def __init__(self) -> None:
        super().__init__()
        self.grown = asyncio.Event()


@pytest.fixture
def carried_out() -> Iterator[CarriedOut]:
    done = CarriedOut()

    async def answer(request: Any, context: RequestContext, services: Services) -> DeleteBeforeResponse:
        done.append(request.before_offset)
        done.grown.set()
        return DeleteBeforeResponse(log_start_offset=request.before_offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(HANDLERS, BEFORE, answer)
        yield done


class World:
    """Node 1 has links to node 2."""

    def __init__(self, seed: int) -> None:
        self.loop = VirtualTimeLoop()
        self.network = Network(self.loop, random.Random(seed))
        self.near = Process(self.loop, "node-1")
        self.far = Process(self.loop, HOST)
        self.loop.run_until_complete(self.far.spawn(self._serve()))
        self.links = self.loop.run_until_complete(self.near.spawn(self._link()))

    async def _serve(self) -> None:
        stalls = StallWatch(BOUND_MS)
        stalls.start()
        await start_internal_node(host=HOST, port=PORT, stalls=stalls)

    async def _link(self) -> Links:
        stalls = StallWatch(BOUND_MS)
        stalls.start()
        links = Links("node-1", lambda node_id: (HOST, PORT), random=random.Random(1), stalls=stalls)
        assert (await links.call(2, BEFORE, DeleteBeforeRequest(before_offset=1), timeout_s=60)).log_start_offset == 1
        return links

    def ask(self, offset: int) -> asyncio.Task[Any]:
        return self.near.spawn(self.links.call(2, BEFORE, DeleteBeforeRequest(before_offset=offset), timeout_s=60))

    def run(self, story: Any) -> None:
        self.loop.run_until_complete(story)
        assert self.loop.failures == []
        self.loop.discard()


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_stood_still_drops_what_other_nodes_sent(seed: int, carried_out: CarriedOut) -> None:
    world = World(seed)

    async def story() -> None:
        world.far.pause()
        asked = world.ask(2)
        await asyncio.sleep(6)
        world.far.resume()
        with pytest.raises(LinkLost):
            await asked
        await asyncio.sleep(1)
        assert carried_out == [1]
        await world.ask(3)
        assert carried_out == [1, 3]

    world.run(story())


@pytest.mark.parametrize("seed", range(5))
def test_a_short_stop_of_a_node_loses_no_request(seed: int, carried_out: CarriedOut) -> None:
    world = World(seed)

    async def story() -> None:
        world.far.pause()
        asked = world.ask(2)
        await asyncio.sleep(1.4)
        world.far.resume()
        await asked
        assert carried_out == [1, 2]

    world.run(story())


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_stood_still_sends_nothing_of_before(seed: int, carried_out: CarriedOut) -> None:
    """What waits in a link when the process stops, is written in the same turn of the loop in which it goes on."""
    world = World(seed)

    async def story() -> None:
        asked = world.ask(2)
        await asyncio.sleep(0)  # it has begun; what it sends leaves at the end of the turn
        world.near.pause()
        await asyncio.sleep(6)
        world.near.resume()
        with pytest.raises(LinkLost):
            await asked
        await asyncio.sleep(1)
        assert carried_out == [1]
        await world.ask(3)

    world.run(story())


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_from_before_the_stop_is_not_taken(seed: int, carried_out: CarriedOut) -> None:
    world = World(seed)

    async def story() -> None:
        carried_out.grown.clear()
        asked = world.ask(2)
        await carried_out.grown.wait()
        world.near.pause()
        await asyncio.sleep(6)
        world.near.resume()
        with pytest.raises(LinkLost):
            await asked

    world.run(story())


async def test_what_waits_in_a_link_is_not_written_after_a_stop(carried_out: CarriedOut) -> None:
    """Over a real socket, where what was written may arrive although the connection is reset behind it."""
    now_s = 1_000.0
    stalls = StallWatch(BOUND_MS, lambda: now_s)
    stalls.start()
    node = await start_internal_node()
    link = await Link.open(node.host, node.port, client_id="node-1", stalls=stalls)
    asked = link.send(BEFORE, DeleteBeforeRequest(before_offset=2), timeout_s=60)
    now_s += 60
    with pytest.raises(LinkLost):
        await asked
    await link.wait_gone()
    await (await node.link()).call(BEFORE, DeleteBeforeRequest(before_offset=3), timeout_s=60)
    assert carried_out == [3]
    await node.stop()
    stalls.close()
