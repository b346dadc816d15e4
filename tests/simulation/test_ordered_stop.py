"""A broker that stops in order hands hundreds of partitions over within seconds, each of them in a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tests.simulation.cluster_node import NodeProcess
from tests.simulation.quiet_cluster import QuietCluster, create_topic_at, produce, quiet_cluster

pytestmark = pytest.mark.simulation

TOPIC: Final = "orders"
PARTITIONS: Final = 500
STOP_S_MAX: Final = 3.0
GAP_S_MAX: Final = 0.3
PRODUCE_S_MAX: Final = 0.5
"""A gap, and what a client waits before it tries again."""
LOOK_S: Final = 0.005
SAMPLE: Final = range(0, PARTITIONS, 25)
PACE_S: Final = 0.05


class Gaps:
    """For how long each partition has nobody who serves it. `longest_s`: by partition."""

    def __init__(self, cluster: QuietCluster) -> None:
        self.longest_s = dict.fromkeys(range(PARTITIONS), 0.0)
        self._cluster = cluster
        self._since_s: dict[int, float] = {}

    async def watch(self) -> None:
        while True:
            self._look(set(self._served()), self._cluster.loop.time())
            await asyncio.sleep(LOOK_S)

    def _look(self, served: set[int], now_s: float) -> None:
        for number in self.longest_s:
            if number not in served:
                gap_s = now_s - self._since_s.setdefault(number, now_s)
                self.longest_s[number] = max(self.longest_s[number], gap_s)
            else:
                self._since_s.pop(number, None)

    def _served(self) -> Iterable[int]:
        for node in self._cluster.nodes.values():
            if node.process.is_alive and node.roles is not None:
                for runtime in node.roles.manager.owned():
                    if runtime.topic_name == TOPIC and not runtime.state.is_leaving:
                        yield runtime.topic_partition.partition


class Produces:
    """One producer for each partition of the sample. `longest_s`: of all records from their sending to their answer."""

    def __init__(self, cluster: QuietCluster, at: Iterable[int]) -> None:
        self.longest_s = 0.0
        self._cluster = cluster
        self._at = tuple(at)

    @contextmanager
    def running(self) -> Iterator[None]:
        works = [self._cluster.loop.create_task(self._produce(number)) for number in SAMPLE]
        yield
        for work in works:
            assert not work.done(), work.exception()
            work.cancel()

    async def _produce(self, number: int) -> None:
        client = self._cluster.client(f"producer {number}", *self._at)
        while True:
            began_s = self._cluster.loop.time()
            await produce(client, TOPIC, range(number, number + 1))
            self.longest_s = max(self.longest_s, self._cluster.loop.time() - began_s)
            await asyncio.sleep(PACE_S)


async def cluster_in_use(cluster: QuietCluster) -> NodeProcess:
    """All partitions are in use at the node that is returned; another one has the active controller."""
    await cluster.start()
    stopping = next(node for node in cluster.nodes.values() if not node.is_controller)
    client = cluster.client("first")
    await create_topic_at(client, TOPIC, PARTITIONS, stopping.node_id)
    await produce(client, TOPIC, range(PARTITIONS))
    await cluster.until(lambda: cluster.owned_count(stopping, TOPIC) == PARTITIONS)
    await asyncio.sleep(1.5)  # it has reported their use
    return stopping


async def stop_of_one(cluster: QuietCluster) -> None:
    stopping = await cluster_in_use(cluster)
    gaps, produces = Gaps(cluster), Produces(cluster, cluster.nodes.keys() - {stopping.node_id})
    watching = cluster.loop.create_task(gaps.watch())
    with produces.running():
        await asyncio.sleep(1.0)
        took_s = await cluster.stop(stopping)
        await asyncio.sleep(1.0)
    watching.cancel()
    owners = [cluster.owned_count(node, TOPIC) for node in cluster.nodes.values() if node is not stopping]
    assert sum(owners) == PARTITIONS
    assert took_s <= STOP_S_MAX
    assert 0 < max(gaps.longest_s.values()) <= GAP_S_MAX
    assert produces.longest_s <= PRODUCE_S_MAX


def test_hundreds_of_partitions_in_use_are_handed_over_within_seconds() -> None:
    with quiet_cluster() as cluster:
        cluster.loop.run_until_complete(stop_of_one(cluster))
