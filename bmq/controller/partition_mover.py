"""Performs planned moves at the active controller: draining nodes, balancing, operators' requests.

So many partitions in use are on their way at once as new owners start quickly (hand_over_pace.py): each is down only for a
moment. Moving an unused partition does not start it, so many of them go at once. Changes that nobody waits for (which
replicas live) come last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from bmq.controller.background import keep_running
from bmq.controller.balancer import Balancer
from bmq.controller.config import ControllerConfig
from bmq.controller.decision import Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.decision_log import DecisionLog
from bmq.controller.failover import replica_changes
from bmq.controller.hand_over_pace import HandOverPace, Key
from bmq.controller.moves import Move, drain_moves, move_records, next_part
from bmq.controller.partition_reports import PartitionReports
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage, Node
from bmq.protocol.errors import BmqError

_log = structlog.get_logger("bmq.controller")

_PARTS: Final = 20
_RETRY_S: Final = 1.0


class PartitionMover:
    """`is_settled`: whether we know which nodes live; nothing is balanced before that."""

    def __init__(
        self,
        decisions: DecisionLog,
        context: Callable[[], DecisionContext],
        reports: PartitionReports,
        config: ControllerConfig,
        is_settled: Callable[[], bool],
    ) -> None:
        self._decisions = decisions
        self._decision_context = context
        self._reports = reports
        self._config = config
        self._is_settled = is_settled
        self._balancer = Balancer(config.balancer)
        self._pace = HandOverPace(
            config.moves_in_use_at_once, config.moves_in_use_at_once_max, config.move_pause_max_ms / 1000
        )
        self._one_part = asyncio.Lock()
        self._reported = asyncio.Event()
        self._balance_now = asyncio.Event()
        self._replicas_changed = asyncio.Event()
        self._draining: dict[int, asyncio.Task[None]] = {}
        self._drain_reasons: dict[int, str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Continue drains that another controller began, and balance."""
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(keep_running("follow_replicas", self._follow_replicas)))
        if self._config.balancer_enabled:
            self._tasks.append(loop.create_task(keep_running("balance", self._balance)))
        self.nodes_changed()

    async def close(self) -> None:
        tasks = [*self._tasks, *self._draining.values()]  # in a fixed order, so that runs are reproducible
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def nodes_changed(self) -> None:
        """Nodes came, went, began to drain, or were cut off from the store. Partitions leave a draining node until it owns none
        or is undrained.
        """
        self._replicas_changed.set()
        self._balance_now.set()
        for node_id in self._draining_nodes():
            if node_id not in self._draining:
                drain = keep_running("drain", partial(self._drain, node_id))
                task = asyncio.get_running_loop().create_task(drain)
                self._draining[node_id] = task
                task.add_done_callback(lambda _, node_id=node_id: self._draining.pop(node_id, None))  # type: ignore[misc]

    def reported(self) -> None:
        """An owner has reported."""
        now_s = asyncio.get_running_loop().time()
        for key in [key for key in self._pace.under_way if self._is_served(key)]:
            self._pace.served(key, now_s)
        self._reported.set()

    async def apply(self, moves: Sequence[Move], *, is_gentle: bool = False) -> Sequence[Move]:
        """Carry these moves out; returns those still valid when their turn came. Raises KafkaError.

        `is_gentle`: nobody waits for them. They go in parts, each of which is served before a pause as long as the part
        took, and once a node has to be drained the remaining moves are dropped.
        """
        if not is_gentle:
            return await self._carry_out(moves, lambda: True)
        loop = asyncio.get_running_loop()
        made: list[Move] = []
        left = tuple(moves)
        while left and not self._draining:
            began_s = loop.time()
            size = self._part_size(left, len(moves), self._config.moves_in_use_at_once)
            made += await self._carry_out(left[:size], lambda: True)
            left = left[size:]
            await asyncio.sleep(loop.time() - began_s)
        return made

    def placed(self, before: MetadataImage, after: MetadataImage) -> None:
        """An operator has moved the partitions whose owner differs in `after`: the balancer leaves them for a while."""
        if after.topics_by_id is before.topics_by_id:
            return
        changed = [
            (topic_id, now.partition)
            for topic_id, topic in after.topics_by_id.items()
            if topic.view is None
            if (old := before.topics_by_id.get(topic_id)) is not None and old is not topic
            for was, now in zip(old.partitions, topic.partitions, strict=False)
            if was.leader != now.leader
        ]
        self._balancer.placed(changed, asyncio.get_running_loop().time())

    def is_handing_over(self, node_id: int) -> bool:
        """Whether the node's drain still runs.

        It waits, for a limited time, until new owners serve partitions in use.
        """
        return node_id in self._draining

    def explain_drain(self, node_id: int, reason: str) -> None:
        """Set the reason for a node's drain, for the history of its partitions."""
        self._drain_reasons[node_id] = reason

    # --- parts

    async def _carry_out(self, moves: Sequence[Move], is_wanted: Callable[[], bool]) -> Sequence[Move]:
        """Make these moves while they are wanted, part by part, and wait until those in use are served; the ones made."""
        made: list[Move] = []
        left = moves
        while left and is_wanted():
            async with self._one_part:
                await self._until(lambda: self._pace.room > 0)
                size = self._part_size(left, len(moves), self._pace.room)
                made += await self._move_part(left[:size])
            left = left[size:]
        keys = {(move.topic_id, move.partition) for move in made}
        await self._until(lambda: keys.isdisjoint(self._pace.under_way))
        return made

    def _part_size(self, left: Sequence[Move], total: int, in_use_at_once: int) -> int:
        at_once = max(self._config.moves_at_once, -(-total // _PARTS))
        return next_part(left, self._is_in_use, at_once=at_once, in_use_at_once=in_use_at_once)

    def _is_in_use(self, move: Move) -> bool:
        partition = self._decisions.image.partition(move.topic_id, move.partition)
        now_s = asyncio.get_running_loop().time()
        return partition is not None and self._reports.is_in_use(move.topic_id, partition, now_s)

    async def _move_part(self, moves: Sequence[Move]) -> Sequence[Move]:
        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[Sequence[Move]]:
            records = move_records(self._decision_context(), moves)
            made = {(record.topic_id, record.partition_id) for record in records}
            return Decision([move for move in moves if (move.topic_id, move.partition) in made], records)

        in_use = {(move.topic_id, move.partition) for move in moves if self._is_in_use(move)}
        made = await self._decisions.decide(decide, self._config.internal_request_wait_max_ms)
        if made:
            self._decisions.metrics.partitions_moved += len(made)
            _log.info("partitions_moved", partitions=len(made), reason=made[0].reason)
            keys = [(move.topic_id, move.partition) for move in made]
            self._pace.begin([key for key in keys if key in in_use], asyncio.get_running_loop().time())
        return made

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        """Until owners have reported so much. Hand-overs cease to count after a time, so it does not last for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._pace.expire(loop.time())
            if is_reached():
                return
            self._reported.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._pace.next_end_s):
                    await self._reported.wait()

    def _is_served(self, key: Key) -> bool:
        topic_id, number = key
        partition = self._decisions.image.partition(topic_id, number)
        return partition is None or self._reports.is_served(topic_id, partition)

    async def _drain(self, node_id: int) -> None:
        moved = 0
        while self._is_draining(node_id):
            context = self._decision_context()
            reason = self._drain_reasons.get(node_id, f"node {node_id} is being drained")
            if node_id in context.cut_off:
                reason = f"node {node_id} alone cannot reach the store"
            moves = drain_moves(context, node_id, reason)
            if not moves:
                break
            try:
                moved += len(await self._carry_out(moves, partial(self._is_draining, node_id)))
            except BmqError as error:
                _log.warning("drain_interrupted", node_id=node_id, error=str(error))
                await asyncio.sleep(_RETRY_S)
        if not self._is_draining(node_id):
            self._drain_reasons.pop(node_id, None)
        if moved:
            _log.info("node_drained", node_id=node_id, partitions_moved=moved)

    def _is_draining(self, node_id: int) -> bool:
        return self._decisions.is_active and node_id in self._draining_nodes()

    def _draining_nodes(self) -> list[int]:
        return [node_id for node_id, node in self._decision_context().owners.items() if node.is_draining]

    # --- background work

    async def _balance(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._config.balancer_interval_ms / 1000):
                    await self._balance_now.wait()
            self._balance_now.clear()
            if not self._is_settled() or self._draining or not self._decisions.is_active:
                continue
            now_s = loop.time()
            moves = self._balancer.plan(
                self._decisions.image,
                self._takers(),
                lambda topic_id, partition, now_s=now_s: self._reports.rates(topic_id, partition, now_s),  # type: ignore[misc]
                now_s,
            )
            try:
                self._balancer.moved(await self.apply(moves, is_gentle=True), loop.time())
            except BmqError as error:
                _log.warning("balancing_interrupted", error=str(error))
                await asyncio.sleep(_RETRY_S)

    def _takers(self) -> dict[int, Node]:
        return {node_id: node for node_id, node in self._decision_context().owners.items() if not node.is_draining}

    async def _follow_replicas(self) -> None:
        while True:
            await self._replicas_changed.wait()
            self._replicas_changed.clear()
            try:
                is_behind = True
                while is_behind:
                    wait_ms = self._config.internal_request_wait_max_ms
                    is_behind = await self._decisions.decide(self._replica_changes, wait_ms)
            except BmqError as error:
                _log.warning("replicas_not_followed", error=str(error))
                await asyncio.sleep(_RETRY_S)
                if self._decisions.is_active:
                    self._replicas_changed.set()
            except Exception:
                self._replicas_changed.set()  # the next round has to do it
                raise

    def _replica_changes(self, image: MetadataImage, broker: BrokerConfigs) -> Decision[bool]:
        records = replica_changes(self._decision_context(), self._config.replica_changes_at_once)
        return Decision(bool(records), records)
