"""Nodes that do not reach the store: one alone gives its partitions up; where all do not, nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from tests.simulation.cluster_node import NodeProcess
from tests.simulation.quiet_cluster import QuietCluster, create_topic_at, produce, quiet_cluster

pytestmark = pytest.mark.simulation

TOPIC: Final = "orders"
PARTITIONS: Final = 6
MOVED_S_MAX: Final = 20.0
"""Below the 30 s for which produces wait for the store."""
CONTROLLER_MOVED_S_MAX: Final = 40.0
AWAY_S: Final = 60.0


def run(work: Coroutine[Any, Any, None], cluster: QuietCluster) -> None:
    cluster.loop.run_until_complete(work)


async def used(cluster: QuietCluster, *, is_controller: bool) -> NodeProcess:
    """The node whose partitions are in use."""
    await cluster.start()
    owner = next(node for node in cluster.nodes.values() if node.is_controller is is_controller)
    client = cluster.client("first")
    await create_topic_at(client, TOPIC, PARTITIONS, owner.node_id)
    await produce(client, TOPIC, range(PARTITIONS))
    await asyncio.sleep(1.5)
    return owner


def epochs(cluster: QuietCluster) -> list[int]:
    """Leader epochs by the newest metadata."""
    image = max((node.server.image for node in cluster.nodes.values() if node.server), key=lambda image: image.offset)
    return [partition.leader_epoch for partition in image.topics[TOPIC].partitions]


@pytest.mark.parametrize("is_controller", [False, True])
def test_others_take_over_from_a_node_that_alone_does_not_reach_the_store(is_controller: bool) -> None:
    async def main(cluster: QuietCluster) -> None:
        owner = await used(cluster, is_controller=is_controller)
        began_s = cluster.loop.time()
        owner.client.cut_off()
        client = cluster.client("producer", *(cluster.nodes.keys() - {owner.node_id}))
        await produce(client, TOPIC, range(PARTITIONS), timeout_ms=100_000)
        took_s = cluster.loop.time() - began_s
        assert took_s <= (CONTROLLER_MOVED_S_MAX if is_controller else MOVED_S_MAX)
        assert cluster.owned_count(owner, TOPIC) == 0
        assert not owner.is_controller
        owner.client.reconnect()
        await asyncio.sleep(10)
        assert owner.server is not None
        assert not any(node.is_draining for node in owner.server.image.nodes.values())

    with quiet_cluster() as cluster:
        run(main(cluster), cluster)


def test_nobody_gives_up_while_all_do_not_reach_the_store() -> None:
    async def main(cluster: QuietCluster) -> None:
        owner = await used(cluster, is_controller=False)
        before = epochs(cluster)
        for node in cluster.nodes.values():
            node.client.cut_off()
        await asyncio.sleep(AWAY_S)
        assert owner.roles is not None and owner.roles.store_watch.is_away
        for number, node in enumerate(cluster.nodes.values()):
            cluster.loop.call_later(number * 0.5, node.client.reconnect)  # and they do not come back together
        await produce(cluster.client("producer"), TOPIC, range(PARTITIONS))
        await asyncio.sleep(10)
        assert epochs(cluster) == before
        assert cluster.owned_count(owner, TOPIC) == PARTITIONS

    with quiet_cluster() as cluster:
        run(main(cluster), cluster)
