"""Links by node: shared attempts, back-off, addresses that change. Sockets are real; where time counts it is virtual."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import pytest
import structlog

from bmq.internode_client.link import Link, LinkClosed, LinkLost, LinkTimeout
from bmq.internode_client.links import Links
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import UnsupportedVersion
from bmq.protocol.internal_messages import DeleteBeforeRequest, DeleteBeforeResponse
from tests.fakes.loop_time import LoopTime
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.unit.internode_client.scripted_peer import ScriptedPeer, scripted_peer
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit

LONG_S = 60.0
NODE = 7


class Directory:
    """Where nodes are, and how often that was asked."""

    def __init__(self, *peers: ScriptedPeer) -> None:
        self.addresses: dict[int, tuple[str, int]] = {
            NODE + number: (peer.host, peer.port) for number, peer in enumerate(peers)
        }
        self.asked: list[int] = []

    def __call__(self, node_id: int) -> tuple[str, int] | None:
        self.asked.append(node_id)
        return self.addresses.get(node_id)


@pytest.fixture
def directory(peer: ScriptedPeer) -> Directory:
    return Directory(peer)


@pytest.fixture
async def links(directory: Directory) -> AsyncIterator[Links]:
    made = Links("node-1", directory)
    yield made
    await made.close()


async def until_lost(link: Link) -> None:
    gone = asyncio.Event()
    link.on_lost(gone.set)
    await gone.wait()


async def test_a_link_is_opened_when_needed_and_kept(links: Links, peer: ScriptedPeer, directory: Directory) -> None:
    assert links.ready(NODE) is None
    assert peer.connections == []
    link = await links.link(NODE)
    assert links.ready(NODE) is link and await links.link(NODE) is link
    assert peer.greetings[0].header.client_id == "node-1"
    assert directory.asked == [NODE] and len(peer.connections) == 1


async def test_concurrent_callers_share_one_attempt(links: Links, peer: ScriptedPeer, directory: Directory) -> None:
    found = await asyncio.gather(*(links.link(NODE) for _ in range(20)))
    assert len(set(found)) == 1 and len(peer.connections) == 1 and directory.asked == [NODE]


async def test_each_purpose_has_a_link_of_its_own(links: Links, peer: ScriptedPeer) -> None:
    plain, tail = await asyncio.gather(links.link(NODE), links.link(NODE, "tail"))
    assert plain is not tail and len(peer.connections) == 2
    assert links.ready(NODE, "tail") is tail and links.ready(NODE) is plain
    assert links.ready(NODE, "control") is None


async def test_a_lost_link_is_opened_anew_where_the_node_is_now(
    links: Links, peer: ScriptedPeer, directory: Directory
) -> None:
    link = await links.link(NODE)
    async with scripted_peer() as elsewhere:
        directory.addresses[NODE] = (elsewhere.host, elsewhere.port)
        peer.connections[0].reset()
        await until_lost(link)
        assert links.ready(NODE) is None
        again = await links.link(NODE)
        assert again is not link and again.is_open
        assert len(elsewhere.connections) == 1 and len(peer.connections) == 1
        links.forget(NODE)


async def test_who_cannot_be_reached_fails_for_all_who_wait(links: Links, directory: Directory) -> None:
    del directory.addresses[NODE]
    with structlog.testing.capture_logs() as lines:
        outcomes = await asyncio.gather(*(links.link(NODE) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(outcome, LinkLost) and "not known" in str(outcome) for outcome in outcomes)
        assert len(set(map(id, outcomes))) == 3
        for _ in range(2):
            with pytest.raises(LinkLost):
                await links.link(NODE)
    assert directory.asked == [NODE] * 3
    # A node that stops in order refuses one attempt before it has left; later ones add nothing.
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("info", "link_not_opened"),
        ("warning", "link_not_opened"),
    ]


async def test_a_link_that_was_closed_at_this_end_says_so(links: Links, peer: ScriptedPeer) -> None:
    link = await links.link(NODE)
    asked = asyncio.ensure_future(
        link.call(ApiKey.DELETE_BEFORE, DeleteBeforeRequest(before_offset=1), timeout_s=LONG_S)
    )
    await peer.request(0)
    links.forget(NODE)
    with pytest.raises(LinkClosed):
        await asked
    peer.is_mute = True
    opening = asyncio.ensure_future(links.link(NODE))
    await until(lambda: len(peer.connections) == 2)
    links.forget(NODE)
    with pytest.raises(LinkClosed):
        await opening


async def test_a_link_that_the_peer_closed_does_not_say_so(links: Links, peer: ScriptedPeer) -> None:
    link = await links.link(NODE)
    peer.connections[0].reset()
    await until_lost(link)
    link.close()
    assert not isinstance(link.failure(), LinkClosed)


async def test_a_peer_of_another_protocol_version_is_a_lost_link(links: Links, peer: ScriptedPeer) -> None:
    peer.raw_greeting = bytes(4) + (35).to_bytes(2, "big") + bytes(4)
    with pytest.raises(LinkLost, match="ApiVersions"):
        await links.link(NODE)


async def test_a_caller_that_gives_up_does_not_end_the_attempt(links: Links, peer: ScriptedPeer) -> None:
    peer.is_mute = True
    first, second = (asyncio.ensure_future(links.link(NODE)) for _ in range(2))
    greeting = await peer.request()
    first.cancel()
    greeting.answer(peer.versions())
    assert (await second).is_open
    assert first.cancelled()


async def test_an_attempt_that_nobody_waits_for_any_more_is_finished_quietly(links: Links, peer: ScriptedPeer) -> None:
    peer.is_mute = True
    only = asyncio.ensure_future(links.link(NODE))
    greeting = await peer.request()
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    greeting.connection.close()
    await peer.until(lambda: not greeting.connection.is_open)
    await until(lambda: len(asyncio.all_tasks()) == 1)  # the attempt was a task; its failure is nobody's
    gc.collect()
    peer.is_mute = False
    assert (await links.link(NODE)).is_open


async def test_call_opens_the_link_and_asks(links: Links, peer: ScriptedPeer) -> None:
    for number in range(2):
        calling = asyncio.ensure_future(
            links.call(NODE, ApiKey.DELETE_BEFORE, DeleteBeforeRequest(before_offset=number), timeout_s=LONG_S)
        )
        received = await peer.request(number)
        assert received.message.before_offset == number
        received.answer(DeleteBeforeResponse(log_start_offset=number))
        assert (await calling).log_start_offset == number
    assert len(peer.connections) == 1


async def test_the_time_limit_of_a_call_holds_for_connecting_too(
    links: Links, peer: ScriptedPeer, loop_time: LoopTime
) -> None:
    peer.is_mute = True
    calling = asyncio.ensure_future(links.call(NODE, ApiKey.DELETE_BEFORE, DeleteBeforeRequest(), timeout_s=1))
    await peer.request()
    await loop_time.pass_s(1)
    with pytest.raises(LinkTimeout):
        await calling


async def test_call_of_an_api_the_peer_does_not_have(links: Links, peer: ScriptedPeer) -> None:
    peer.ranges = {}
    with pytest.raises(UnsupportedVersion):
        await links.call(NODE, ApiKey.DELETE_BEFORE, DeleteBeforeRequest(), timeout_s=LONG_S)


async def test_forgetting_a_node_ends_its_links_and_nobody_elses(peer: ScriptedPeer) -> None:
    async with scripted_peer() as other:
        links = Links("node-1", Directory(peer, other))
        mine = [await links.link(NODE), await links.link(NODE, "tail")]
        theirs = await links.link(NODE + 1)
        waiting = mine[1].send(ApiKey.DELETE_BEFORE, DeleteBeforeRequest(), timeout_s=LONG_S)
        links.forget(NODE)
        assert [link.is_open for link in mine] == [False, False] and theirs.is_open
        assert isinstance(waiting.exception(), LinkLost)
        assert links.ready(NODE) is None and links.ready(NODE + 1) is theirs
        assert (await links.link(NODE)).is_open
        await links.close()


async def test_forgetting_a_node_ends_the_attempt_under_way(links: Links, peer: ScriptedPeer) -> None:
    peer.is_mute = True
    waiting = [asyncio.ensure_future(links.link(NODE)) for _ in range(2)]
    connection = (await peer.request()).connection
    links.forget(NODE)
    for task in waiting:
        with pytest.raises(LinkLost):
            await task
    await peer.until(lambda: not connection.is_open)
    peer.is_mute = False
    assert (await links.link(NODE)).is_open  # a fresh one, without a pause


async def test_closed_links_stay_closed_and_leave_nothing(peer: ScriptedPeer) -> None:
    links = Links("node-1", Directory(peer))
    link = await links.link(NODE)
    peer.is_mute = True
    waiting = asyncio.ensure_future(links.link(NODE, "tail"))
    await peer.request()
    await links.close()
    assert not link.is_open
    for attempt in (waiting, links.link(NODE), links.call(NODE, ApiKey.DELETE_BEFORE, None, timeout_s=1)):
        with pytest.raises(LinkLost):
            await attempt
    await peer.until(lambda: not any(connection.is_open for connection in peer.connections))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await links.close()


# --- pauses, in virtual time


class World:
    """A virtual network; `attempts`: when a connection to the node was tried."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualTimeLoop()
        self.network = Network(self.loop, random.Random(seed), delay_s=(0.0, 0.0))
        self.attempts: list[float] = []

    def address_of(self, node_id: int) -> tuple[str, int]:
        self.attempts.append(self.loop.time())
        return ("node", 9192)

    @property
    def pauses(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.attempts, self.attempts[1:], strict=False)]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.loop.discard()


async def try_for_ever(links: Links, count: int) -> None:
    for _ in range(count):
        with pytest.raises(LinkLost):
            await links.link(NODE)


def test_attempts_wait_longer_and_longer_after_failures(world: World) -> None:
    links = Links("node-1", world.address_of)
    world.loop.run_until_complete(try_for_ever(links, 12))
    assert world.attempts[0] == 0
    longest = [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    for pause, at_most in zip(world.pauses, longest, strict=True):
        assert at_most / 2 <= pause <= at_most + 0.001
    assert len(set(world.pauses[5:])) > 1  # jitter
    world.loop.run_until_complete(links.close())


def test_the_jitter_differs_between_nodes_and_repeats_itself() -> None:
    def pauses(client_id: str, chance: Random | None = None) -> list[float]:
        world = World()
        world.loop.run_until_complete(try_for_ever(Links(client_id, world.address_of, random=chance), 6))
        world.loop.discard()
        return world.pauses

    assert pauses("node-1") == pauses("node-1") != pauses("node-2")
    assert pauses("node-1", Random(5)) == pauses("node-2", Random(5))


def test_a_node_that_takes_connections_and_drops_them_is_not_hammered(world: World) -> None:
    """A handshake that works and a connection that ends at once: as bad as one that is refused."""
    peer = ScriptedPeer()
    peer.host = "node"

    async def scenario() -> None:
        await peer.start(9192)
        links = Links("node-1", world.address_of)
        for _ in range(8):
            link = await links.link(NODE)
            peer.connections[-1].close()
            await until_lost(link)
        await links.close()
        await peer.stop()

    world.loop.run_until_complete(scenario())
    assert len(world.attempts) == 8
    assert all(pause >= at_least for pause, at_least in zip(world.pauses, [0.01, 0.02, 0.04, 0.08, 0.16], strict=False))


def test_a_link_that_was_steady_is_opened_again_at_once(world: World) -> None:
    peer = ScriptedPeer()
    peer.host = "node"

    async def scenario() -> None:
        await peer.start(9192)
        links = Links("node-1", world.address_of)
        for _ in range(3):
            link = await links.link(NODE)
            await asyncio.sleep(5)
            peer.connections[-1].close()
            await until_lost(link)
        await links.close()
        await peer.stop()

    world.loop.run_until_complete(scenario())
    assert world.pauses == pytest.approx([5.0, 5.0], abs=0.005)


def test_an_address_function_that_fails_leaves_nobody_waiting(world: World) -> None:
    def broken(node_id: int) -> Any:
        raise ValueError("a mistake")

    links = Links("node-1", broken)

    async def scenario() -> None:
        with pytest.raises(LinkLost):
            await links.link(NODE)
        await links.close()

    world.loop.run_until_complete(scenario())
    gc.collect()
    assert [type(failure["exception"]) for failure in world.loop.failures] == [
        ValueError
    ]  # told, as a mistake should be
