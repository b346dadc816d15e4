"""A candidate asks another node before it deposes a controller that it does not hear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from tests.simulation.cluster_node import NodeProcess
from tests.simulation.quiet_cluster import QuietCluster, quiet_cluster

pytestmark = pytest.mark.simulation

CUT_S: Final = 20.0
KILLED_S_MAX: Final = 1.5
HUNG_S_MAX: Final = 5.0


def epoch_of(node: NodeProcess) -> int:
    """The epoch of the active controller there."""
    assert node.roles is not None
    return node.roles.leadership.epoch


def test_a_candidate_that_alone_does_not_hear_the_controller_deposes_nobody() -> None:
    async def main(cluster: QuietCluster) -> None:
        await cluster.start()
        controller = cluster.controller
        epoch = epoch_of(controller)
        candidate = next(node for node in cluster.nodes.values() if node is not controller)
        cluster.network.cut(candidate.process.host, controller.process.host)
        until_s = cluster.loop.time() + CUT_S
        while cluster.loop.time() < until_s:
            await asyncio.sleep(0.05)
            assert controller.is_controller and epoch_of(controller) == epoch
        cluster.network.heal()
        await cluster.until(lambda: candidate.server is not None and candidate.server.is_serving)
        assert epoch_of(controller) == epoch

    with quiet_cluster() as cluster:
        cluster.loop.run_until_complete(main(cluster))


@pytest.mark.parametrize(
    ("hurt", "limit_s"),
    [(lambda node: node.process.kill(), KILLED_S_MAX), (lambda node: node.process.pause(), HUNG_S_MAX)],
    ids=["killed", "hung"],
)
def test_a_controller_that_nobody_hears_is_replaced_soon(hurt: Callable[[NodeProcess], None], limit_s: float) -> None:
    async def main(cluster: QuietCluster) -> None:
        await cluster.start()
        controller = cluster.controller
        began_s = cluster.loop.time()
        hurt(controller)
        others = [node for node in cluster.nodes.values() if node is not controller]
        await cluster.until(lambda: any(node.is_controller for node in others))
        assert cluster.loop.time() - began_s <= limit_s

    with quiet_cluster() as cluster:
        cluster.loop.run_until_complete(main(cluster))


def test_without_a_third_node_the_candidate_decides_alone() -> None:
    async def main(cluster: QuietCluster) -> None:
        await cluster.start()
        controller = cluster.controller
        candidate = next(node for node in cluster.nodes.values() if node is not controller)
        cluster.network.cut(candidate.process.host, controller.process.host)
        await cluster.until(lambda: candidate.is_controller)

    with quiet_cluster(2) as cluster:
        cluster.loop.run_until_complete(main(cluster))
