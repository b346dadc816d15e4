"""Consumers in another rack: sent to a proxy of theirs once, served when they come back (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from bmq.metadata.image import Node
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.preferred_read_replica import PreferredReadReplicas
from tests.unit.proxy_fetch.cluster import NODE, TOPIC_ID, FetchCluster, results, want

pytestmark = pytest.mark.unit

NEVER_MS = 60_000
JAVA = "apache-kafka-java"


class Connection:
    """One client's: an identity."""

    def on_lost(self, lost: Callable[[], None]) -> None: ...


class Racks:
    """This proxy is in rack r1 and leads everything; 2 and 3 are proxies in r2, 4 a broker there; replicas are 1 and 2."""

    def __init__(self, config: FetchSettings | None = None) -> None:
        self.cluster = FetchCluster(config=config)
        others = [Node(2, "h2", 1, "r2"), Node(3, "h3", 1, "r2"), Node(4, "h4", 1, "r2", roles=frozenset({"broker"}))]
        self.connection = Connection()
        self.change(nodes={node.node_id: node for node in [NODE, *others]})
        self.set_partitions(replicas=(1, 2))

    def change(self, **changes: Any) -> None:
        self.cluster.controller.image = replace(self.cluster.controller.image, **changes)

    def set_partitions(self, **changes: Any) -> None:
        topic = self.cluster.controller.image.topics["t"]
        topic = replace(topic, partitions=tuple(replace(one, **changes) for one in topic.partitions))
        self.change(topics={"t": topic}, topics_by_id={TOPIC_ID: topic})

    async def fetch(
        self,
        request: FetchRequest,
        rack: str = "r2",
        version: int = 18,
        *,
        peer: object = None,
        software: str = "unknown",
    ) -> Any:
        request.rack_id = rack
        context = RequestContext(version, "test", "127.0.0.1", software, peer=peer or self.connection)  # type: ignore[arg-type]
        return await asyncio.wait_for(self.cluster.send(request, version, context), 10)


@pytest.fixture
async def racks() -> AsyncIterator[Racks]:
    made = Racks()
    yield made
    await made.cluster.fetcher.close()


@pytest.mark.parametrize("version", [11, 12, 13, 18])
async def test_a_consumer_is_sent_to_its_rack_once_and_at_once(racks: Racks, version: int) -> None:
    racks.cluster.produce(0)
    response = await racks.fetch(want({0: 0, 1: 0}, max_wait_ms=NEVER_MS, min_bytes=10**6), version=version)
    found = results(response)
    for partition in (0, 1):
        one = found[partition]
        assert (one.error_code, one.preferred_read_replica, one.records or b"") == (0, 2, b"")
    assert found[0].high_watermark == 1
    again = results(await racks.fetch(want({0: 0, 1: 0}), version=version))
    assert again[0].preferred_read_replica == again[1].preferred_read_replica == -1 and again[0].records
    assert racks.cluster.fetcher.shared.counts.sent_to_rack == 2


@pytest.mark.parametrize(
    ("rack", "version"), [("", 18), ("r1", 18), ("nowhere", 18), ("r2", 10)], ids=["none", "ours", "unknown", "old"]
)
async def test_others_are_served(racks: Racks, rack: str, version: int) -> None:
    racks.cluster.produce(0)
    one = results(await racks.fetch(want({0: 0}), rack, version))[0]
    assert one.records and one.preferred_read_replica == -1


async def test_a_proxy_that_is_not_the_leader_serves_everybody(racks: Racks) -> None:
    racks.cluster.produce(0)
    racks.set_partitions(leader=3)
    assert results(await racks.fetch(want({0: 0})))[0].records


async def test_a_stand_in_is_the_leader_too(racks: Racks) -> None:
    nodes = racks.cluster.controller.image.nodes
    racks.change(nodes={**nodes, 4: replace(nodes[4], rack="r1")})  # 1 is the only proxy of that rack
    racks.set_partitions(leader=4)
    assert results(await racks.fetch(want({0: 0})))[0].preferred_read_replica == 2


async def test_draining_proxies_get_nobody(racks: Racks) -> None:
    nodes = racks.cluster.controller.image.nodes
    racks.change(nodes={**nodes, 2: replace(nodes[2], is_draining=True), 3: replace(nodes[3], is_draining=True)})
    racks.cluster.produce(0)
    assert results(await racks.fetch(want({0: 0})))[0].records


async def test_a_java_consumer_is_sent_to_replicas_only(racks: Racks) -> None:
    """It goes nowhere else, and would ask the leader for new metadata instead."""
    racks.cluster.produce(0)
    racks.set_partitions(replicas=(1, 4))
    assert results(await racks.fetch(want({0: 0}), software=JAVA))[0].records
    other = results(await racks.fetch(want({0: 0}), software="librdkafka"))[0]
    assert other.preferred_read_replica in (2, 3)
    racks.set_partitions(replicas=(1, 3))
    assert results(await racks.fetch(want({1: 0}), software=JAVA))[1].preferred_read_replica == 3


async def test_each_connection_is_told_for_itself(racks: Racks) -> None:
    first, second = Connection(), Connection()
    for peer, sent in ((first, 2), (second, 2), (first, -1), (second, -1)):
        assert results(await racks.fetch(want({0: 0}), peer=peer))[0].preferred_read_replica == sent


async def test_a_session_hears_of_it_and_goes_on(racks: Racks) -> None:
    racks.cluster.produce(0)
    request = want({1: 0, 2: 0}, session=(0, 0))
    opened = await racks.fetch(request)
    assert [one.preferred_read_replica for one in results(opened).values()] == [2, 2]
    added = await racks.fetch(want({0: 0}, session=(opened.session_id, 1)))
    assert [(p, one.preferred_read_replica) for p, one in results(added).items()] == [(0, 2)], "only what is news"
    served = await racks.fetch(want({}, session=(opened.session_id, 2)))
    assert results(served)[0].records


async def test_a_session_hears_of_it_when_nothing_else_is_new() -> None:
    racks = Racks(FetchSettings(fetch_rack_again_ms=0))
    opened = await racks.fetch(want({0: 0}, session=(0, 0)))
    again = await racks.fetch(want({}, session=(opened.session_id, 1)))
    assert results(again)[0].preferred_read_replica == 2
    await racks.cluster.fetcher.close()


async def test_errors_go_before(racks: Racks) -> None:
    one = results(await racks.fetch(want({0: 0}, epoch=1)))[0]
    assert (one.error_code, one.preferred_read_replica) == (ErrorCode.FENCED_LEADER_EPOCH, -1)
    assert results(await racks.fetch(want({7: 0})))[7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_that_is_started_keeps_its_answer(racks: Racks) -> None:
    """The fetch looks twice, and says the same of the partition that was ready the first time."""
    key = next(key for key in racks.cluster.partitions.logs if key.partition == 1)
    racks.cluster.partitions.idle.add(key)
    found = results(await racks.fetch(want({0: 0, 1: 0})))
    assert [found[0].preferred_read_replica, found[1].preferred_read_replica] == [2, 2]
    assert racks.cluster.fetcher.shared.counts.sent_to_rack == 2


async def test_a_refused_fetch_names_the_leader_clients_can_reach(racks: Racks) -> None:
    racks.set_partitions(leader=4)
    response = await racks.fetch(want({0: 0}, epoch=1), rack="")
    hint = results(response)[0].current_leader
    assert hint.leader_id in (2, 3) and [n.node_id for n in response.node_endpoints] == [hint.leader_id]


def test_who_was_told_is_forgotten_in_time_and_in_number() -> None:
    cluster_counts = type("Counts", (), {"sent_to_rack": 0})()
    replicas = PreferredReadReplicas(cluster_counts, again_ms=1_000, redirects_max=2)
    keys: list[Any] = [(n, None) for n in range(3)]
    assert [replicas.send(keys[0], s) for s in (0.0, 0.5, 0.99, 1.0, 1.5)] == [True, False, False, True, False]
    assert replicas.send(keys[1], 2.0) and replicas.send(keys[2], 2.0)
    assert replicas.send(keys[0], 1.6), "the earliest one had to go"
    assert len(replicas._redirected) == 2
