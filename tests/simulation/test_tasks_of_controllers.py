"""Operators' tasks outlive their controller: the next one shows them, goes on with them, and knows their idempotency keys."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from bmq.admin.idempotency import KeyReused
from bmq.admin.operations import Operations
from bmq.admin.orders import Drain, MovePartition, Order
from bmq.admin.tasks import Task, TaskState
from tests.simulation.quiet_cluster import QuietCluster, create_topic_at, produce, quiet_cluster

pytestmark = pytest.mark.simulation

TOPIC: Final = "orders"
PARTITIONS: Final = 40
ENDED_S_MAX: Final = 20.0


async def ordered(cluster: QuietCluster, order: Order, key: str) -> Task:
    """The task, at the active controller."""
    return await cluster.operations[cluster.controller.node_id].submit(order, key)


async def killed_controller(cluster: QuietCluster, task: Task) -> Operations:
    """Kill the controller in the middle of the task; the operations of the next one."""
    former = cluster.controller
    await cluster.until(lambda: task.progress > 0 or not task.is_running)
    assert task.is_running
    former.process.kill()
    del cluster.nodes[former.node_id]
    await cluster.until(lambda: any(node.is_controller for node in cluster.nodes.values()))
    return cluster.operations[cluster.controller.node_id]


async def ended(cluster: QuietCluster, task: Task) -> Task:
    async with asyncio.timeout(ENDED_S_MAX):
        await cluster.until(lambda: not task.is_running)
    return task


def test_the_next_controller_goes_on_with_a_drain_and_gives_the_same_answer_to_its_key() -> None:
    async def main(cluster: QuietCluster) -> None:
        await cluster.start()
        drained = next(node for node in cluster.nodes.values() if not node.is_controller)
        client = cluster.client("client")
        await create_topic_at(client, TOPIC, PARTITIONS, drained.node_id)
        await produce(client, TOPIC, range(PARTITIONS))
        await asyncio.sleep(1.5)  # their use is reported, so they move a few at a time
        before = await ordered(cluster, Drain(drained.node_id), "the first")
        operations = await killed_controller(cluster, before)
        task = operations.tasks.get(before.task_id)
        assert task is not before and task.started_at_ms == before.started_at_ms
        assert await operations.submit(Drain(drained.node_id), "the first") is task
        other = next(
            node for node in cluster.nodes.values() if node is not drained
        )  # the next controller may be `drained`
        with pytest.raises(KeyReused):
            await operations.submit(Drain(other.node_id), "the first")
        assert (await ended(cluster, task)).state is TaskState.SUCCEEDED, task.error
        assert cluster.owned_count(drained, TOPIC) == 0
        assert await operations.submit(Drain(drained.node_id), "the first") is task

    with quiet_cluster() as cluster:
        cluster.loop.run_until_complete(main(cluster))


def test_a_task_that_the_next_controller_cannot_go_on_with_fails_with_the_reason() -> None:
    async def main(cluster: QuietCluster) -> None:
        await cluster.start()
        first = cluster.controller
        owner = next(node for node in cluster.nodes.values() if node is not first)
        client = cluster.client("client", owner.node_id)
        await create_topic_at(client, TOPIC, 1, owner.node_id)
        await produce(client, TOPIC, range(1))
        await asyncio.sleep(1.5)
        order = MovePartition(TOPIC, 0, first.node_id)
        task = await ordered(cluster, order, "to the one that dies")
        first.process.kill()
        del cluster.nodes[first.node_id]
        await cluster.until(lambda: any(node.is_controller for node in cluster.nodes.values()))
        found = cluster.operations[cluster.controller.node_id].tasks.get(task.task_id)
        assert (await ended(cluster, found)).state is TaskState.FAILED
        assert found.error is not None and f"node {first.node_id}" in found.error

    with quiet_cluster() as cluster:
        cluster.loop.run_until_complete(main(cluster))
