"""A whole cluster under agents that wait for changes of channels at its nodes, while controllers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from bmq.admin.rest.application import rest_application
from bmq.admin.rest.sources import RestSources
from bmq.channels.channel_set import ChannelSet, parse_channel_set
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.metadata_request import MetadataRequest
from bmq.server.node import NodeServer
from tests.simulation.clients import TOPIC, Client, create_topic
from tests.simulation.cluster_kind import ALL_ROLES, ClusterKind
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.fault_rates import KINDS, FaultRates
from tests.simulation.test_group_retention import CalmCluster

pytestmark = pytest.mark.simulation

AGENTS: Final = 20
WAIT_MS: Final = 30_000
EFFECTIVE_WITHIN_S: Final = 1.0
CHANGE_WAIT_S: Final = 60.0


class NodeLost(Exception):
    """The node ended before it answered."""


class ChannelCluster(CalmCluster):
    """Three nodes that do everything, with their REST pages."""

    def __init__(self) -> None:
        super().__init__(1, FaultRates(dict.fromkeys(KINDS, 0.0)))
        self._pages: dict[int, tuple[NodeServer, FastAPI]] = {}

    def _kind(self) -> ClusterKind:
        return replace(super()._kind(), roles=dict.fromkeys((1, 2, 3), ALL_ROLES))

    def serving(self) -> list[NodeProcess]:
        return [one for one in self.nodes.values() if one.process.is_alive and one.server and one.server.is_serving]

    async def ask(self, node: NodeProcess, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        """Within the node's process: it answers as long as that lives. Raises NodeLost."""
        pages = self._pages_of(node)
        lost: asyncio.Future[None] = self.loop.create_future()

        def fail() -> None:
            if not lost.done():
                lost.set_result(None)

        node.process.on_kill(fail)

        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(app=pages, client=("agent", 5))
            async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
                return await client.request(method, path, json=body, params=query, timeout=None)

        answered = node.process.spawn(answer())
        await asyncio.wait({answered, lost}, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise NodeLost
        lost.cancel()
        return answered.result()

    async def change(self, body: Mapping[str, Any]) -> tuple[int, float]:
        """Sent to one node after another until one takes it: the new version, and when that node was asked."""
        async with asyncio.timeout(CHANGE_WAIT_S):
            while True:
                for node in self.serving():
                    asked_s = self.loop.time()
                    response = await self.ask(node, "PUT", f"/v1/channels/{body['name']}", dict(body))
                    if response.is_success:
                        return int(response.json()["version"]), asked_s
                await asyncio.sleep(0.05)

    def controller(self) -> NodeProcess:
        (found,) = [one for one in self.nodes.values() if one.is_controller]
        return found

    def _pages_of(self, node: NodeProcess) -> FastAPI:
        server = node.server
        assert server is not None
        known = self._pages.get(id(server))
        if known is None:
            sources = RestSources(
                lambda: server.is_serving,
                lambda: server.image,
                server.partition_states,
                CollectorRegistry(),
                node_id=node.node_id,
                table_controller=lambda: server.controller,
                create_topics=lambda: server.create_topics,
                channel_watch=lambda: server.channel_watch,
            )
            known = self._pages[id(server)] = (server, rest_application(sources))
        return known[1]


class Agent:
    """Asks one node for changes; another one when it is lost. `applied_s`: when each version reached it."""

    def __init__(self, number: int, cluster: ChannelCluster) -> None:
        self.known = ChannelSet()
        self.applied_s: dict[int, float] = {}
        self._number = number
        self._cluster = cluster

    async def run(self) -> None:
        while True:
            serving = self._cluster.serving()
            node = serving[self._number % len(serving)] if serving else None
            if node is None:
                await asyncio.sleep(0.05)
                continue
            ask = partial(self._cluster.ask, node, "GET", "/v1/channels/changes", agent=f"agent-{self._number:02d}")
            try:
                response = await ask(after=self.known.version, applied=self.known.version, wait_ms=WAIT_MS)
            except NodeLost:
                continue
            if response.is_success:
                told = parse_channel_set(response.json())
                if told.version > self.known.version:
                    self.known = told
                    self.applied_s[told.version] = self._cluster.loop.time()
            else:
                await asyncio.sleep(0.05)


def test_a_change_reaches_all_agents_within_a_second_also_over_controller_changes() -> None:
    cluster = ChannelCluster()
    agents = [Agent(number, cluster) for number in range(AGENTS)]

    async def changed(linger_ms: int) -> None:
        version, asked_s = await cluster.change({"name": "clicks", "topic": TOPIC, "linger_ms": linger_ms})
        await asyncio.sleep(asked_s + EFFECTIVE_WITHIN_S - cluster.loop.time())
        assert [agent.known.version for agent in agents] == [version] * AGENTS
        assert {agent.known.channels["clicks"].linger_ms for agent in agents} == {linger_ms}
        assert max(agent.applied_s[version] for agent in agents) - asked_s <= EFFECTIVE_WITHIN_S

    async def story(admin: Client) -> None:
        await create_topic(admin, 1, {})
        running = [asyncio.create_task(agent.run()) for agent in agents]
        await changed(1)
        for linger_ms in (2, 3, 4):
            killed = cluster.controller()
            killed.process.kill()
            await changed(linger_ms)
            cluster.start_node(killed.node_id)
            await changed(linger_ms * 10)
        for task in running:
            assert not task.done()
            task.cancel()
        assert {tuple(agent.applied_s) for agent in agents} == {tuple(range(1, 8))}, "no agent missed or repeated one"
        listed = set()
        for node in cluster.serving():
            page = (await cluster.ask(node, "GET", "/v1/channels/agents")).json()
            listed |= {each["id"] for each in page["agents"] if each["applied_version"] == 7}
        assert listed == {f"agent-{number:02d}" for number in range(AGENTS)}

    cluster.scenario(story)


def test_a_channel_whose_topic_is_created_with_it_is_there_after_the_controller_has_gone() -> None:
    cluster = ChannelCluster()

    async def story(admin: Client) -> None:
        await create_topic(admin, 1, {})
        node = cluster.controller()
        form = {"name": "views", "topic": "made-for-it"}
        made = await cluster.ask(node, "PUT", "/v1/channels/views", form, create_topic="true", partitions=3)
        assert (made.status_code, made.json()["channel"]["topic_problem"]) == (201, None)
        node.process.kill()
        version, _ = await cluster.change({**form, "enabled": False})
        assert version == 2
        await asyncio.sleep(1)
        for one in cluster.serving():
            shown = (await cluster.ask(one, "GET", "/v1/channels/views")).json()
            assert (shown["version"], shown["channel"]["enabled"], shown["topic_problem"]) == (2, False, None)
        topics = (
            await admin.until_done(lambda: admin.request(ApiKey.METADATA, 9, MetadataRequest(topics=None)))
        ).topics
        assert {one.name: len(one.partitions) for one in topics}["made-for-it"] == 3

    cluster.scenario(story)
