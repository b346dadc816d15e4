"""Carries operators' orders out on the active controller: each one a task that can be followed.

The metadata log is the truth, so a task only gives orders and looks at images until its goal is reached. The task itself
is in the log too, when it begins and when it ends. So the next controller shows the newest tasks, plans the orders of those
that had not ended anew and goes on from there, and knows their idempotency keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import structlog

from bmq.admin.drivers.driver import Driver, DriverFailed, NodeHandle, NodeSpec
from bmq.admin.idempotency import KEY_EXPIRY_MS, IdempotencyKeys
from bmq.admin.orders import (
    Drain,
    MovePartition,
    Order,
    OrderRefused,
    Plan,
    Rebalance,
    Scale,
    Undrain,
    check_drain,
    choose_to_stop,
    exclude_each_other,
    growth_moves,
    kind_of,
    led_counts,
    node_of,
    partition_of,
    plan_move,
    shrink_moves,
    subject_of,
    topic_of,
)
from bmq.admin.ports import ClusterController
from bmq.admin.stored_tasks import StoredTask, read_stored, stored_text
from bmq.admin.tasks import Task, TaskBook, TooBusy
from bmq.controller.moves import Move
from bmq.controller.replica_placement import owner_nodes
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

ORDERS_WAITING_MAX: Final = 32
STORED_MAX: Final = 200
"""Tasks in the metadata log: the newest, and all that have not ended."""
STORED_MS: Final = 7 * 24 * 60 * 60 * 1000
"""Those that ended are there for so long at most, from the next order on."""
VERSIONS_SKIPPED: Final = 1_000
"""At the next controller: what a follower has seen of the last one's versions was not all in the log."""

_log = structlog.get_logger("bmq.admin")


class NotActiveController(BmqError):
    """Orders are taken by the active controller only, and it is not in this process."""

    def __init__(self) -> None:
        super().__init__("this node is not the active controller")


class OperationFailed(BmqError):
    """The order was begun and could not be completed."""


@dataclass(frozen=True, slots=True)
class OperationsConfig:
    """Waits are the longest ones; a task that waits longer fails with a sentence that says what for."""

    poll_interval_ms: int = 50
    drain_wait_ms: int = 120_000
    register_wait_ms: int = 60_000
    gone_wait_ms: int = 30_000
    driver_poll_interval_ms: int = 1_000
    resume_delay_ms: int = 3_000
    """After so long a new controller has fenced the nodes that died with the last one."""
    moves_at_once_min: int = 50
    parts: int = 20
    """A plan is carried out in this many parts, if each then has at least `moves_at_once_min` moves."""
    rounds_max: int = 20
    """How often a plan is made anew because the cluster changed meanwhile."""
    roles: str = "proxy,broker,coordinator"
    """Roles of nodes that are started."""


def forgotten_tasks(stored: Collection[Task], now_ms: int) -> list[Task]:
    """The tasks that have to leave the log, as there are too many or they ended long ago. `stored`: those in it, the oldest first."""
    ended = [task for task in stored if task.ended_at_ms is not None]
    surplus = max(0, len(stored) - STORED_MAX)
    return [task for n, task in enumerate(ended) if n < surplus or now_ms - (task.ended_at_ms or 0) > STORED_MS]


def _age(stored: StoredTask) -> tuple[int, str]:
    return stored.started_at_ms, stored.id


class Operations:
    """One in each process that may become the active controller. `controller()`: the active one if it is here."""

    def __init__(
        self,
        controller: Callable[[], ClusterController | None],
        driver: Driver | None,
        clock: Clock,
        rng: Random,
        config: OperationsConfig | None = None,
    ) -> None:
        self._controller = controller
        self._driver = driver
        self._config = config or OperationsConfig()
        self._book = TaskBook(clock, rng)
        self._keys: IdempotencyKeys[Task] = IdempotencyKeys(clock)
        self._clock = clock
        self._stored: dict[Task, tuple[Order, str | None]] = {}  # in the metadata log, the oldest first
        self._running: dict[Task, tuple[Order, asyncio.Task[None]]] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0

    # --- public methods

    @property
    def is_active(self) -> bool:
        return self._controller() is not None

    @property
    def tasks(self) -> TaskBook:
        return self._book

    async def plan(self, order: Order) -> Plan:
        """A plan of what the order would do now; nothing is changed.

        Raises NotActiveController, UnknownSubject, OrderRefused, DriverFailed.
        """
        return await self._plan(self._active(), order)

    async def submit(self, order: Order, key: str | None = None) -> Task:
        """Begin to carry the order out. The same `key` with an equal order gives the earlier task.

        Raises NotActiveController, UnknownSubject, OrderRefused, DriverFailed, KeyReused, TooBusy.
        """
        if self._waiting >= ORDERS_WAITING_MAX:
            raise TooBusy(f"{self._waiting} orders wait for their turn, and no more may")
        self._waiting += 1
        try:
            # One at a time, because planning may await the driver: two equal orders must not both find nothing begun.
            async with self._turn:
                return await self._submit(self._active(), order, key)
        finally:
            self._waiting -= 1

    def controller_gained(self) -> None:
        """The active controller is here: take over the tasks that the metadata log has, and go on with those that had not
        ended.
        """
        controller = self._active()
        oldest_ms = self._clock.now_ms() - KEY_EXPIRY_MS
        found = (read_stored(task_id, text) for task_id, text in controller.image.tasks.items())
        for stored in sorted((one for one in found if one is not None), key=_age):
            task, order = stored.task(stored.version + VERSIONS_SKIPPED), stored.decoded_order()
            self._book.adopt(task)
            if order is None:
                self._book.end(task, "this release does not know the order")
                continue
            self._stored[task] = order, stored.key
            if stored.key is not None and stored.started_at_ms > oldest_ms:
                self._keys.remember(stored.key, order, task)
            if task.is_running:
                self._begin(task, controller, order, None)

    def controller_lost(self) -> None:
        """The active controller is no longer here: the next one goes on with its tasks. Fine to call when there are none."""
        self._keys.forget_all()
        self._stored.clear()
        self._book.forget_all()
        for _, work in list(self._running.values()):
            work.cancel()

    async def close(self) -> None:
        """Leave every task to the next controller, and wait until nothing runs."""
        works = [work for _, work in self._running.values()]
        self.controller_lost()
        if works:
            await asyncio.wait(works)

    # --- beginning

    def _active(self) -> ClusterController:
        controller = self._controller()
        if controller is None:
            raise NotActiveController
        return controller

    async def _submit(self, controller: ClusterController, order: Order, key: str | None) -> Task:
        if key is not None and (before := self._keys.outcome_of(key, order)) is not None:
            return before
        for task, (other, _) in self._running.items():
            if task.is_running and exclude_each_other(order, other):
                raise OrderRefused(f"task {task.task_id} ({task.kind} {task.subject}) has to end first")
        plan = await self._plan(controller, order)
        self._check(controller)
        task = self._book.open(kind_of(order), subject_of(order))
        self._book.step(task, plan.summary)
        self._stored[task] = order, key
        try:
            await self._keep(controller, task)
        except BmqError:
            # It may be in the log all the same; then the next controller carries it out, and knows its key.
            self._stored.pop(task, None)
            self._book.forget(task)
            raise
        self._begin(task, controller, order, plan)
        if key is not None:
            self._keys.remember(key, order, task)
        _log.info("order_taken", task=task.task_id, kind=task.kind, subject=task.subject, plan=plan.summary)
        return task

    def _begin(self, task: Task, controller: ClusterController, order: Order, plan: Plan | None) -> None:
        work = asyncio.get_running_loop().create_task(self._run(task, controller, order, plan))
        self._running[task] = (order, work)
        work.add_done_callback(lambda _: self._running.pop(task, None) and None)

    async def _keep(self, controller: ClusterController, task: Task) -> None:
        """Write the task as it is now. Raises KafkaError."""
        order, key = self._stored[task]
        forgotten = forgotten_tasks(self._stored, self._clock.now_ms())
        await controller.keep_task(task.task_id, stored_text(task, order, key), [one.task_id for one in forgotten])
        for one in forgotten:
            self._stored.pop(one, None)

    async def _plan(self, controller: ClusterController, order: Order) -> Plan:
        image = controller.image
        match order:
            case Drain(node_id):
                check_drain(image, node_id)
                count = led_counts(image)[node_id]
                summary = f"Node {node_id} takes no partitions on and gives {_partitions(count)} away."
                return Plan(summary, controller.drain_plan(node_id))
            case Undrain(node_id):
                if not node_of(image, node_id).is_draining:
                    return Plan(f"Node {node_id} is not draining: nothing changes.")
                return Plan(f"Node {node_id} takes partitions on again; a rebalance gives it some.")
            case Rebalance():
                moves = controller.rebalance_plan()
                summary = (
                    "1 partition changes its owner." if len(moves) == 1 else f"{len(moves)} partitions change owners."
                )
                return Plan(summary if moves else "Nothing has to move.", moves)
            case MovePartition():
                return plan_move(image, order)
            case Scale(brokers):
                return await self._plan_scale(controller, brokers)

    async def _plan_scale(self, controller: ClusterController, wanted: int) -> Plan:
        if wanted < 1:
            raise OrderRefused("a cluster needs at least one broker")
        handles = await self._driver_list()
        image = controller.image
        brokers = owner_nodes(image.nodes)
        # Count nodes that were started and have not registered yet, too.
        managed = {
            each.node_id
            for each in handles
            if each.is_running and (each.node_id in brokers or each.node_id not in image.nodes)
        }
        present = managed | brokers.keys()
        if wanted < len(present):
            stop = choose_to_stop(
                len(present) - wanted,
                managed,
                led_counts(image),
                [node_id for node_id, node in image.nodes.items() if node.is_draining],
                image.controller_id,
                is_in_order=self._driver is not None and self._driver.stops_in_order,
            )
            gone = "gives its partitions away and stops" if len(stop) == 1 else "give their partitions away and stop"
            summary = f"{_nodes(stop).capitalize()} {gone}: {_brokers(wanted)} then."
            return Plan(summary, shrink_moves(image, stop), stop=stop)
        start: Sequence[int] = ()
        if wanted > len(present):
            assert self._driver is not None
            start = await self._driver.next_node_ids(wanted - len(present), set(image.nodes) | present)
        summary = f"There are {_brokers(wanted)} already."
        if start:
            verb = "starts" if len(start) == 1 else "start"
            summary = f"{_nodes(start).capitalize()} {verb}: {_brokers(wanted)} then."
        return Plan(summary, growth_moves(image, start), start=start)

    # --- carrying out

    async def _run(self, task: Task, controller: ClusterController, order: Order, plan: Plan | None) -> None:
        """`plan` None: another controller has begun."""
        error: str | None = None
        try:
            if plan is None:
                await self._pause(self._config.resume_delay_ms)
                self._check(controller)
                plan = await self._plan(controller, order)
                self._book.step(task, f"Another controller goes on: {plan.summary}")
            await self._perform(task, controller, order, plan)
        except NotActiveController:
            self._leave(task)
            return
        except BmqError as failure:
            if failure.code is ErrorCode.NOT_CONTROLLER or self._controller() is not controller:
                self._leave(task)
                return
            error = str(failure)
        except Exception as failure:  # noqa: BLE001 any bug is answered or logged
            # A bug of ours. The task must not seem to run for ever, and the log needs the traceback.
            _log.exception("task_failed", task=task.task_id, kind=task.kind)
            error = f"an unexpected {type(failure).__name__}; the log of the controller's node has more"
        self._book.end(task, error)
        _log.info("task_ended", task=task.task_id, kind=task.kind, state=task.state, error=task.error)
        try:
            await self._keep(controller, task)
        except BmqError as failure:
            # The next controller finds that nothing is left to do, or fails as this one did.
            _log.warning("task_end_not_kept", task=task.task_id, reason=str(failure))

    def _leave(self, task: Task) -> None:
        """The controller moved: its next one goes on with the task, and followers have to ask there."""
        self._stored.pop(task, None)
        self._book.forget(task)
        _log.info("task_left", task=task.task_id, kind=task.kind)

    async def _perform(self, task: Task, controller: ClusterController, order: Order, plan: Plan) -> None:
        match order:
            case Drain(node_id):
                await controller.set_draining(node_id, True, f"node {node_id} is drained by an operator")
                await self._emptied(task, controller, node_id)
            case Undrain(node_id):
                await controller.set_draining(node_id, False, f"node {node_id} is undrained by an operator")
            case Rebalance():
                await self._rebalance(task, controller, plan.moves, "rebalance")
            case MovePartition(name, number, to_node):
                await self._move(task, controller, plan.moves, "move")
                owner = partition_of(topic_of(controller.image, name), number).leader
                if owner != to_node:
                    raise OperationFailed(f"{name}-{number} did not move; node {owner} owns it")
            case Scale():
                await self._scale(task, controller, plan)

    async def _emptied(self, task: Task, controller: ClusterController, node_id: int, until: float = 1.0) -> None:
        """Wait until a draining node leads nothing; progress approaches `until` meanwhile. Raises OperationFailed.

        The controller moves a draining node's partitions away by itself; here we only wait.
        """
        begun_at, led_count = task.progress, self._led_by(controller, node_id)
        total = least = led_count()
        self._book.step(task, f"node {node_id} is draining; it leads {_partitions(total)}")
        deadline_s = self._deadline_s(self._config.drain_wait_ms)
        while left := led_count():
            self._check(controller)
            node = controller.image.nodes.get(node_id)
            if node is not None and not node.is_draining:
                raise OperationFailed(f"node {node_id} was undrained meanwhile; it still leads {_partitions(left)}")
            if left < least:  # progress: some node takes them over, so wait longer
                least, deadline_s = left, self._deadline_s(self._config.drain_wait_ms)
            if asyncio.get_running_loop().time() > deadline_s:
                raise OperationFailed(f"node {node_id} still leads {_partitions(left)}: no other node takes them over")
            self._book.advance(task, begun_at + (until - begun_at) * (1 - left / max(total, 1)))
            await self._pause(self._config.poll_interval_ms)
        self._book.step(task, f"node {node_id} leads nothing")

    async def _scale(self, task: Task, controller: ClusterController, plan: Plan) -> None:
        if plan.stop:
            await self._scale_in(task, controller, plan.stop)
            return
        if plan.start:
            await self._start_nodes(task, controller, plan.start)
            self._book.advance(task, 0.5)
        await self._rebalance(task, controller, controller.rebalance_plan(), "scale out")

    async def _start_nodes(self, task: Task, controller: ClusterController, node_ids: Sequence[int]) -> None:
        """Start nodes and wait until all are registered; late ones are stopped again. Raises OperationFailed."""
        assert self._driver is not None
        started: list[int] = []
        try:
            for node_id in node_ids:
                self._check(controller)
                handle = await self._driver.start_node(NodeSpec(node_id, self._config.roles))
                started.append(node_id)
                self._book.step(task, f"node {node_id} starts ({handle.detail})")
            await self._registered(task, controller, node_ids)
        except (OperationFailed, DriverFailed):
            for node_id in reversed(started):  # a StatefulSet gives up its last pod first
                if node_id not in owner_nodes(controller.image.nodes):
                    with suppress(DriverFailed):
                        await self._driver.stop_node(node_id)
                    self._book.step(task, f"node {node_id} did not register and was stopped again")
            raise

    async def _registered(self, task: Task, controller: ClusterController, node_ids: Sequence[int]) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = self._deadline_s(self._config.register_wait_ms)
        next_poll_s = loop.time()
        missing = set(node_ids)
        while missing:
            self._check(controller)
            for node_id in sorted(missing & set(owner_nodes(controller.image.nodes))):
                missing.discard(node_id)
                self._book.step(task, f"node {node_id} is registered")
                self._book.advance(task, 0.5 * (1 - len(missing) / len(node_ids)))
            if not missing:
                return
            # A node that ended says why: that is more than that it is late.
            is_late = loop.time() > deadline_s
            if is_late or loop.time() >= next_poll_s:
                next_poll_s = loop.time() + self._config.driver_poll_interval_ms / 1000
                for handle in await self._driver_list():
                    if handle.node_id in missing and not handle.is_running:
                        raise OperationFailed(f"node {handle.node_id} did not stay: {handle.detail}")
            if is_late:
                raise OperationFailed(f"{_nodes(missing)} did not register within {self._config.register_wait_ms} ms")
            await self._pause(self._config.poll_interval_ms)

    async def _scale_in(self, task: Task, controller: ClusterController, node_ids: Sequence[int]) -> None:
        """Drain all, then stop one after the other. On failure, nodes that were not stopped are undrained again."""
        assert self._driver is not None
        live = [node_id for node_id in node_ids if node_id in controller.image.nodes]
        was_draining = {node_id for node_id in live if controller.image.nodes[node_id].is_draining}
        left = list(node_ids)
        try:
            # Set all of them draining first, so that none gets partitions of another.
            for node_id in live:
                await controller.set_draining(node_id, True, f"node {node_id} stops: scale in")
            for count, node_id in enumerate(live, 1):
                await self._emptied(task, controller, node_id, 0.5 * count / len(live))
            for count, node_id in enumerate(node_ids, 1):
                self._check(controller)
                self._book.step(task, f"node {node_id} stops")
                await self._driver.stop_node(node_id)
                await self._gone(controller, node_id)
                left.remove(node_id)
                self._book.advance(task, 0.5 + 0.5 * count / len(node_ids))
        except BmqError:
            for node_id in left:
                if node_id in controller.image.nodes and node_id not in was_draining:
                    # The first failure is the task's error; if the controller has moved, undraining cannot succeed.
                    with suppress(BmqError):
                        await controller.set_draining(node_id, False, f"node {node_id} stays: scale in failed")
            raise

    async def _gone(self, controller: ClusterController, node_id: int) -> None:
        deadline_s = self._deadline_s(self._config.gone_wait_ms)
        while node_id in controller.image.nodes:
            self._check(controller)
            if asyncio.get_running_loop().time() > deadline_s:
                raise OperationFailed(f"node {node_id} was stopped, and is registered still")
            await self._pause(self._config.poll_interval_ms)

    async def _rebalance(self, task: Task, controller: ClusterController, moves: Sequence[Move], reason: str) -> None:
        """Carry the plan out, then plan again for what is still uneven, since the cluster changes meanwhile."""
        for _ in range(self._config.rounds_max):
            if not moves:
                return
            await self._move(task, controller, moves, reason)
            moves = controller.rebalance_plan()
        raise OperationFailed(
            f"after {self._config.rounds_max} plans {_partitions(len(moves))} would still have to move"
        )

    async def _move(self, task: Task, controller: ClusterController, moves: Sequence[Move], reason: str) -> None:
        """Move in parts: the controller returns when a part's new owners serve it, then the next part begins."""
        size = max(self._config.moves_at_once_min, -(-len(moves) // self._config.parts))
        begun_at = task.progress
        for start in range(0, len(moves), size):
            self._check(controller)
            await controller.apply_moves(moves[start : start + size], reason)
            done = min(start + size, len(moves))
            self._book.advance(task, begun_at + (1 - begun_at) * 0.99 * done / len(moves))
            self._book.step(task, f"{done} of {_partitions(len(moves))} moved")

    # --- helpers

    def _check(self, controller: ClusterController) -> None:
        """Raises NotActiveController when `controller` is no longer the active one."""
        if self._controller() is not controller:
            raise NotActiveController

    def _led_by(self, controller: ClusterController, node_id: int) -> Callable[[], int]:
        """A function that counts the partitions the node leads; recounts only for a new image."""
        seen: MetadataImage | None = None
        count = 0

        def led_count() -> int:
            nonlocal seen, count
            if controller.image is not seen:
                seen = controller.image
                count = led_counts(seen)[node_id]
            return count

        return led_count

    async def _driver_list(self) -> Sequence[NodeHandle]:
        if self._driver is None:
            raise _no_driver()
        return await self._driver.list_nodes()

    def _deadline_s(self, wait_ms: int) -> float:
        return asyncio.get_running_loop().time() + wait_ms / 1000

    async def _pause(self, pause_ms: int) -> None:
        await asyncio.sleep(pause_ms / 1000)


def _no_driver() -> OrderRefused:
    return OrderRefused("no driver starts and stops nodes here: set scale.driver to local, systemd or kubernetes")


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _brokers(count: int) -> str:
    return "1 broker" if count == 1 else f"{count} brokers"


def _nodes(node_ids: Collection[int]) -> str:
    ids = ", ".join(str(node_id) for node_id in sorted(node_ids))
    return f"node {ids}" if len(node_ids) == 1 else f"nodes {ids}"
