"""Orders carried out against a controller and a driver in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from structlog.testing import capture_logs

from bmq.admin.drivers.driver import DriverFailed
from bmq.admin.idempotency import KEY_EXPIRY_MS, KEYS_MAX, KeyReused
from bmq.admin.operations import (
    ORDERS_WAITING_MAX,
    STORED_MAX,
    STORED_MS,
    NotActiveController,
    Operations,
    OperationsConfig,
)
from bmq.admin.orders import (
    Drain,
    MovePartition,
    Order,
    OrderRefused,
    Rebalance,
    Scale,
    Undrain,
    UnknownSubject,
    led_counts,
)
from bmq.admin.tasks import RUNNING_MAX, TASKS_MAX, Task, TaskState, TooBusy
from bmq.controller.moves import Move
from bmq.metadata.image import Node
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_controller import FakeController, FakeDriver, image_of, topic_image

pytestmark = pytest.mark.unit

QUICK = OperationsConfig(
    poll_interval_ms=1,
    driver_poll_interval_ms=1,
    resume_delay_ms=1,
    drain_wait_ms=200,
    register_wait_ms=200,
    gone_wait_ms=200,
    moves_at_once_min=4,
    parts=2,
)


class Cluster:
    """Nodes 1 to 3 with 10 partitions each; node 1 is the active controller. The driver manages `managed`."""

    def __init__(self, *, managed: tuple[int, ...] = (), is_in_order: bool = False) -> None:
        nodes = [Node(n, "127.0.0.1", 9092, epoch=n) for n in (1, 2, 3, *managed)]
        topics = [topic_image("a", 1, [1, 2, 3] * 8), topic_image("b", 2, [1, 2, 3] * 2)]
        self.clock = FakeClock()
        self.controller = FakeController(image_of(nodes, topics), self.clock)
        self.active: FakeController | None = self.controller
        self.driver = FakeDriver(self.controller, is_in_order=is_in_order)
        self.driver.running = dict.fromkeys(managed, "broker")
        self.operations = Operations(lambda: self.active, self.driver, self.clock, Random(1), QUICK)

    async def ended(self, task: Task) -> Task:
        async with asyncio.timeout(20):
            while task.is_running:
                await self.operations.tasks.changed(task, task.version, 20)
        return task

    async def done(self, order: Order) -> Task:
        return await self.ended(await self.operations.submit(order))

    def counts(self) -> Counter[int]:
        return led_counts(self.controller.image)

    @property
    def nodes(self) -> set[int]:
        return set(self.controller.image.nodes)


def texts(task: Task) -> list[str]:
    return [step.text for step in task.steps]


async def test_drain_waits_until_the_node_leads_nothing() -> None:
    cluster = Cluster()
    plan = await cluster.operations.plan(Drain(2))
    assert len(plan.moves) == 10
    assert {move.from_node for move in plan.moves} == {2}
    assert cluster.counts()[2] == 10, "a plan changes nothing"
    task = await cluster.done(Drain(2))
    assert (task.state, task.progress, task.error) == (TaskState.SUCCEEDED, 1.0, None)
    assert cluster.counts() == Counter({1: 15, 3: 15})
    assert cluster.controller.image.nodes[2].is_draining
    assert texts(task)[0] == "Node 2 takes no partitions on and gives 10 partitions away."
    assert texts(task)[-1] == "node 2 leads nothing"
    again = await cluster.done(Undrain(2))
    assert again.state is TaskState.SUCCEEDED
    assert not cluster.controller.image.nodes[2].is_draining


async def test_a_drain_that_nobody_helps_gives_up_with_what_is_left() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    task = await cluster.done(Drain(2))
    assert task.state is TaskState.FAILED
    assert task.error == "node 2 still leads 10 partitions: no other node takes them over"


async def test_a_drain_takes_as_long_as_somebody_takes_partitions_over() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    draining = await cluster.operations.submit(Drain(2))
    began_s = asyncio.get_running_loop().time()
    while moves := cluster.controller.drain_plan(2):
        await asyncio.sleep(QUICK.drain_wait_ms / 1000 / 4)
        cluster.controller._apply(moves[:1], "slowly")
    task = await cluster.ended(draining)
    assert asyncio.get_running_loop().time() - began_s > QUICK.drain_wait_ms / 1000
    assert (task.state, task.error) == (TaskState.SUCCEEDED, None)


async def test_undraining_ends_a_drain() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    drain = await cluster.operations.submit(Drain(2))
    await cluster.operations.tasks.changed(drain, drain.version, 20)
    assert (await cluster.done(Undrain(2))).state is TaskState.SUCCEEDED
    assert (await cluster.ended(drain)).error == "node 2 was undrained meanwhile; it still leads 10 partitions"


async def test_rebalance_applies_the_controllers_plan_in_parts() -> None:
    cluster = Cluster()
    topic = cluster.controller.image.topics["a"]
    cluster.controller.balanced = [
        Move(topic.topic_id, "a", partition, 1, 2, "node 1 does twice as much as node 2")
        for partition in range(0, 24, 3)
    ]
    plan = await cluster.operations.plan(Rebalance())
    assert (len(plan.moves), plan.summary) == (8, "8 partitions change owners.")
    task = await cluster.done(Rebalance())
    assert task.state is TaskState.SUCCEEDED
    assert cluster.counts() == Counter({2: 18, 3: 10, 1: 2})
    assert cluster.controller.reasons == ["move 4: rebalance"] * 2
    history = cluster.controller.history.of(topic.topic_id, 0)
    assert [change.reason for change in history] == ["rebalance: node 1 does twice as much as node 2"]
    assert texts(task)[1:] == ["4 of 8 partitions moved", "8 of 8 partitions moved"]


async def test_moving_one_partition() -> None:
    cluster = Cluster()
    task = await cluster.done(MovePartition("a", 0, 3))
    assert task.state is TaskState.SUCCEEDED
    assert (task.kind, task.subject) == ("move", "a-0 to node 3")
    assert cluster.controller.image.topics["a"].partitions[0].leader == 3
    assert (await cluster.done(MovePartition("a", 0, 3))).state is TaskState.SUCCEEDED
    with pytest.raises(UnknownSubject):
        await cluster.operations.submit(MovePartition("nope", 0, 3))
    cluster.controller.is_stuck = True
    assert (await cluster.done(MovePartition("a", 0, 2))).error == "a-0 did not move; node 3 owns it"


async def test_scale_out_starts_nodes_and_evens_the_counts() -> None:
    cluster = Cluster()
    plan = await cluster.operations.plan(Scale(5))
    assert plan.start == (100, 101)
    assert Counter(move.to_node for move in plan.moves) == Counter({100: 6, 101: 6})
    assert cluster.driver.running == {}
    task = await cluster.done(Scale(5))
    assert (task.state, task.error) == (TaskState.SUCCEEDED, None)
    assert cluster.nodes == {1, 2, 3, 100, 101}
    assert set(cluster.counts().values()) == {6}
    assert cluster.driver.running == dict.fromkeys((100, 101), QUICK.roles)
    assert "node 100 is registered" in texts(task)


async def test_scale_to_what_is_there_only_spreads() -> None:
    cluster = Cluster()
    await cluster.done(Drain(3))
    await cluster.done(Undrain(3))
    task = await cluster.done(Scale(3))
    assert task.state is TaskState.SUCCEEDED
    assert set(cluster.counts().values()) == {10}


async def test_a_node_that_was_started_before_the_controller_moved_counts() -> None:
    cluster = Cluster()
    cluster.driver.running[100] = "broker"
    assert (await cluster.operations.plan(Scale(5))).start == (101,)


async def test_a_node_without_the_broker_role_does_not_count() -> None:
    cluster = Cluster(managed=(100,))
    cluster.controller.set_node(replace(cluster.controller.image.nodes[100], roles=frozenset({"proxy"})))
    assert (await cluster.operations.plan(Scale(4))).start == (101,)
    with pytest.raises(OrderRefused, match="the driver manages only these: none"):
        await cluster.operations.plan(Scale(2))


async def test_a_node_that_ends_while_it_starts_is_said_and_cleared_away() -> None:
    cluster = Cluster()
    cluster.driver.ending.add(101)
    task = await cluster.done(Scale(5))
    assert task.error == "node 101 did not stay: it ended: no ZooKeeper"
    assert 101 not in cluster.driver.running
    assert "node 101 did not register and was stopped again" in texts(task)


async def test_a_node_that_never_registers_is_given_up() -> None:
    cluster = Cluster()
    cluster.driver.never_register = {100}
    task = await cluster.done(Scale(4))
    assert task.error == "node 100 did not register within 200 ms"
    assert cluster.driver.running == {}


async def test_nodes_that_never_register_are_given_up_from_the_last_on() -> None:
    cluster = Cluster(is_in_order=True)
    cluster.driver.never_register = {100, 101}
    task = await cluster.done(Scale(5))
    assert task.error == "nodes 100, 101 did not register within 200 ms"
    assert cluster.driver.running == {}


async def test_scale_in_drains_first_and_spares_the_controllers_node() -> None:
    cluster = Cluster(managed=(100, 101, 102))
    assert (await cluster.done(Scale(6))).state is TaskState.SUCCEEDED
    cluster.controller.image = replace(cluster.controller.image, controller_id=102)
    plan = await cluster.operations.plan(Scale(4))
    assert set(plan.stop) == {100, 101}
    assert {move.from_node for move in plan.moves} == {100, 101}
    task = await cluster.done(Scale(4))
    assert (task.state, task.error) == (TaskState.SUCCEEDED, None)
    assert cluster.nodes == {1, 2, 3, 102}
    assert cluster.counts()[100] == cluster.counts()[101] == 0
    drained = texts(task).index("node 100 leads nothing")
    assert drained < texts(task).index("node 101 stops")
    assert sum(cluster.counts().values()) == 30


async def test_scale_in_stops_the_controllers_node_last_and_only_when_it_must() -> None:
    cluster = Cluster(managed=(100, 101))
    cluster.controller.image = replace(cluster.controller.image, controller_id=101)
    assert (await cluster.operations.plan(Scale(4))).stop == (100,)
    assert (await cluster.operations.plan(Scale(3))).stop == (100, 101)


async def test_scale_in_of_a_driver_that_stops_in_order() -> None:
    cluster = Cluster(managed=(100, 101), is_in_order=True)
    assert (await cluster.operations.plan(Scale(4))).stop == (101,)


async def test_what_scale_refuses() -> None:
    cluster = Cluster(managed=(100,))
    with pytest.raises(OrderRefused, match="a cluster needs at least one broker"):
        await cluster.operations.submit(Scale(0))
    with pytest.raises(OrderRefused, match="the driver manages only these: 100"):
        await cluster.operations.submit(Scale(2))
    with pytest.raises(DriverFailed, match="11 node ids are needed and 9 of 100 to 109 are free"):
        await cluster.operations.submit(Scale(15))
    for node_id in (1, 2, 3):
        await cluster.controller.set_draining(node_id, True, "")
    topic = topic_image("c", 3, [100])
    cluster.controller.image = replace(
        cluster.controller.image, topics={"c": topic}, topics_by_id={topic.topic_id: topic}
    )
    with pytest.raises(OrderRefused, match="none of the brokers that would stay takes partitions on"):
        await cluster.operations.submit(Scale(3))
    without = Operations(lambda: cluster.active, None, cluster.clock, Random(1), QUICK)
    with pytest.raises(OrderRefused, match=r"no driver starts and stops nodes here: set scale\.driver"):
        await without.submit(Scale(5))


async def test_when_a_node_cannot_be_stopped_it_takes_partitions_again() -> None:
    cluster = Cluster(managed=(100, 101))
    await cluster.done(Scale(5))
    cluster.driver.failing_stops.add(101)
    task = await cluster.done(Scale(3))
    assert task.error == "node 101 cannot be stopped"
    assert cluster.nodes >= {1, 2, 3, 101}
    assert not any(node.is_draining for node in cluster.controller.image.nodes.values())


async def test_a_scale_in_that_cannot_begin_leaves_nobody_draining() -> None:
    cluster = Cluster(managed=(100, 101))
    before = cluster.controller.set_draining

    async def set_draining(node_id: int, is_draining: bool, reason: str) -> None:
        if node_id == 101 and is_draining:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not done within 1 ms")
        await before(node_id, is_draining, reason)

    cluster.controller.set_draining = set_draining  # type: ignore[method-assign]
    task = await cluster.done(Scale(3))
    assert task.error == "not done within 1 ms"
    assert not any(node.is_draining for node in cluster.controller.image.nodes.values())


async def test_a_node_that_stays_registered_after_its_stop_fails_the_task() -> None:
    cluster = Cluster(managed=(100,))
    cluster.driver.never_leave.add(100)
    task = await cluster.done(Scale(3))
    assert task.error == "node 100 was stopped, and is registered still"


async def test_orders_that_would_undo_each_other_wait() -> None:
    cluster = Cluster()
    cluster.driver.never_register = {100}
    scale = await cluster.operations.submit(Scale(4))
    with pytest.raises(OrderRefused, match=f"task {scale.task_id} \\(scale 4 brokers\\) has to end first"):
        await cluster.operations.submit(Rebalance())
    await cluster.operations.close()
    assert (await cluster.done(Rebalance())).state is TaskState.SUCCEEDED


# --- the same order twice


async def test_the_same_key_and_order_give_the_same_task() -> None:
    cluster = Cluster()
    first, second = await asyncio.gather(*(cluster.operations.submit(Drain(2), "key") for _ in range(2)))
    assert first is second
    await cluster.ended(first)
    assert await cluster.operations.submit(Drain(2), "key") is first
    with pytest.raises(KeyReused, match="'key' was used for another request"):
        await cluster.operations.submit(Drain(3), "key")
    assert await cluster.operations.submit(Drain(2), "other") is not first
    await cluster.operations.close()


async def test_keys_expire_and_are_bounded() -> None:
    cluster = Cluster()
    first = await cluster.operations.submit(Undrain(2), "key")
    cluster.clock.advance(KEY_EXPIRY_MS + 1)
    await cluster.ended(first)
    second = await cluster.operations.submit(Undrain(2), "key")
    assert second is not first
    await cluster.ended(second)
    for number in range(KEYS_MAX):
        await cluster.ended(await cluster.operations.submit(Undrain(2), f"key {number}"))
    assert await cluster.operations.submit(Undrain(2), "key") is not second
    await cluster.operations.close()


async def test_a_refused_order_leaves_its_key_free() -> None:
    cluster = Cluster()
    with pytest.raises(UnknownSubject):
        await cluster.operations.submit(Drain(9), "key")
    cluster.controller.set_node(Node(9, "127.0.0.1", 9092))
    assert (await cluster.ended(await cluster.operations.submit(Drain(9), "key"))).state is TaskState.SUCCEEDED


# --- the controller moves


async def test_without_the_active_controller_nothing_is_taken() -> None:
    cluster = Cluster()
    cluster.active = None
    assert not cluster.operations.is_active
    with pytest.raises(NotActiveController):
        await cluster.operations.submit(Drain(2))
    with pytest.raises(NotActiveController):
        await cluster.operations.plan(Drain(2))


def next_controller(cluster: Cluster) -> Operations:
    """Another process, whose controller has the metadata of the last one."""
    cluster.active = None
    cluster.operations.controller_lost()
    cluster.operations = Operations(lambda: cluster.active, cluster.driver, cluster.clock, Random(2), QUICK)
    cluster.active, cluster.controller.is_stuck = cluster.controller, False
    cluster.operations.controller_gained()
    return cluster.operations


async def test_the_next_controller_goes_on_with_a_task_and_knows_its_key() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    task = await cluster.operations.submit(Drain(2), "key")
    await cluster.operations.tasks.changed(task, task.version, 20)
    operations = next_controller(cluster)
    assert operations.tasks.get(task.task_id) is not task
    again = operations.tasks.get(task.task_id)
    assert (again.kind, again.subject, again.started_at_ms) == ("drain", "node 2", task.started_at_ms)
    assert again.is_running and again.version > task.version
    assert await operations.submit(Drain(2), "key") is again
    with pytest.raises(KeyReused):
        await operations.submit(Drain(3), "key")
    with pytest.raises(OrderRefused, match=task.task_id):
        await operations.submit(Drain(2))
    assert (await cluster.ended(again)).state is TaskState.SUCCEEDED
    assert texts(again)[1].startswith("Another controller goes on: Node 2 takes no partitions on")
    assert cluster.counts()[2] == 0
    later = next_controller(cluster).tasks.get(task.task_id)
    assert (later.state, later.progress, texts(later)) == (TaskState.SUCCEEDED, 1.0, texts(again))


async def test_a_task_that_cannot_go_on_fails_with_the_reason() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    task = await cluster.operations.submit(MovePartition("a", 0, 2))
    cluster.controller.remove_node(2)
    operations = next_controller(cluster)
    ended = await cluster.ended(operations.tasks.get(task.task_id))
    assert (ended.state, ended.error) == (TaskState.FAILED, "there is no live node 2; live are: 1, 3")


async def test_a_key_that_is_too_old_is_free_at_the_next_controller_too() -> None:
    cluster = Cluster()
    task = await cluster.ended(await cluster.operations.submit(Drain(2), "key"))
    cluster.clock.advance(KEY_EXPIRY_MS)
    operations = next_controller(cluster)
    again = await operations.submit(Undrain(2), "key")
    assert again.task_id != task.task_id
    await cluster.ended(again)


async def test_the_log_has_the_newest_tasks_and_none_that_ended_long_ago() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    patient = replace(QUICK, drain_wait_ms=600_000)
    cluster.operations = Operations(lambda: cluster.active, cluster.driver, cluster.clock, Random(1), patient)
    running = await cluster.operations.submit(Drain(3))
    for _ in range(STORED_MAX + 5):
        newest = await cluster.done(Undrain(2))
    kept = cluster.controller.image.tasks
    assert len(kept) == STORED_MAX and {running.task_id, newest.task_id} <= kept.keys()
    cluster.clock.advance(STORED_MS + 1)
    newest = await cluster.done(Undrain(2))
    assert cluster.controller.image.tasks.keys() == {running.task_id, newest.task_id}
    await cluster.operations.close()


async def test_an_order_that_cannot_be_written_is_not_taken() -> None:
    cluster = Cluster()
    cluster.controller.keep_error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not done within 1 ms")
    with pytest.raises(KafkaError):
        await cluster.operations.submit(Drain(2), "key")
    assert cluster.operations.tasks.newest(10) == [] and not cluster.controller.image.nodes[2].is_draining
    cluster.controller.keep_error = None
    assert (await cluster.ended(await cluster.operations.submit(Drain(2), "key"))).state is TaskState.SUCCEEDED


async def test_what_a_later_release_has_written_is_no_reason_to_fail() -> None:
    cluster = Cluster()
    task = await cluster.done(Drain(2))
    text = cluster.controller.image.tasks[task.task_id]
    of_later = text.replace('"kind":"drain"', '"kind":"paint"').replace('"succeeded"', '"running"')
    cluster.controller.image = replace(cluster.controller.image, tasks={"1": "{", task.task_id: of_later})
    (found,) = next_controller(cluster).tasks.newest(10)
    assert (found.kind, found.error) == ("paint", "this release does not know the order")


async def test_a_controller_that_is_gone_unannounced_is_noticed() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    task = await cluster.operations.submit(Drain(2))
    await cluster.operations.tasks.changed(task, task.version, 20)
    cluster.active = FakeController(cluster.controller.image)
    await left(cluster, task)


async def left(cluster: Cluster, task: Task) -> None:
    """Wait until the task is the next controller's."""
    async with asyncio.timeout(20):
        while cluster.operations.tasks.has(task.task_id):
            await cluster.operations.tasks.changed(task, task.version, 20)


async def test_a_controller_that_may_not_write_any_more_has_moved() -> None:
    cluster = Cluster()
    cluster.controller.error = KafkaError(ErrorCode.NOT_CONTROLLER, "not me")
    await left(cluster, await cluster.operations.submit(Drain(2)))
    cluster.controller.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not done within 1 ms")
    assert (await cluster.done(Drain(2))).error == "not done within 1 ms"


async def test_a_mistake_of_ours_ends_the_task() -> None:
    cluster = Cluster()
    cluster.controller.error = ZeroDivisionError("oops")
    with capture_logs() as logs:
        task = await cluster.done(Drain(2))
    assert [entry["log_level"] for entry in logs if entry["event"] == "task_failed"] == ["error"]
    assert task.error == "an unexpected ZeroDivisionError; the log of the controller's node has more"


async def test_close_leaves_nothing_running() -> None:
    cluster = Cluster()
    cluster.controller.is_stuck = True
    before = asyncio.all_tasks()
    task = await cluster.operations.submit(Drain(2))
    await cluster.operations.close()
    assert task.is_running and not cluster.operations.tasks.has(task.task_id), "the next controller has it"
    assert asyncio.all_tasks() == before


# --- bounds


async def test_tasks_are_bounded() -> None:
    cluster = Cluster()
    for node_id in range(10, 10 + RUNNING_MAX + 1):
        cluster.controller.set_node(Node(node_id, "127.0.0.1", 9092))
    topic = topic_image("c", 3, [*range(10, 10 + RUNNING_MAX + 1)])
    cluster.controller.image = replace(
        cluster.controller.image, topics={"c": topic}, topics_by_id={topic.topic_id: topic}
    )
    cluster.controller.is_stuck = True
    for node_id in range(10, 10 + RUNNING_MAX):
        await cluster.operations.submit(Drain(node_id))
    with pytest.raises(TooBusy, match=f"{RUNNING_MAX} tasks are running"):
        await cluster.operations.submit(Drain(10 + RUNNING_MAX))
    await cluster.operations.close()
    first = await cluster.done(Undrain(10))
    for _ in range(TASKS_MAX):
        await cluster.done(Undrain(10))
    assert len(cluster.operations.tasks.newest(10 * TASKS_MAX)) == TASKS_MAX
    assert first not in cluster.operations.tasks.newest(10 * TASKS_MAX)


async def test_orders_that_wait_are_bounded() -> None:
    cluster = Cluster()
    cluster.driver.answers.clear()
    waiting = [asyncio.create_task(cluster.operations.submit(Scale(3), "key")) for _ in range(ORDERS_WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooBusy, match=f"{ORDERS_WAITING_MAX} orders wait"):
        await cluster.operations.submit(Scale(3), "key")
    cluster.driver.answers.set()
    assert len(set(await asyncio.gather(*waiting))) == 1
    await cluster.operations.close()


async def test_followers_hear_of_changes_and_of_nothing_after_their_wait() -> None:
    cluster = Cluster()
    book = cluster.operations.tasks
    task = book.open("drain", "node 1")
    await book.changed(task, 0, 0.01)
    assert task.followers == set()
    waiting = asyncio.create_task(book.changed(task, task.version, 20))
    await asyncio.sleep(0)
    book.step(task, "news")
    await waiting
    book.advance(task, 0.5)
    book.advance(task, 0.25)
    assert task.progress == 0.5
    book.end(task, "failed")
    book.end(task)
    assert (task.state, task.error, task.progress) == (TaskState.FAILED, "failed", 0.5)
    await book.changed(task, task.version, 20)
    assert [step.number for step in task.steps] == [0]
