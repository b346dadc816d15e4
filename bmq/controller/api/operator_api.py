"""The operators' orders to the active controller (drains, moves, tables), and the loads that it shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from bmq.controller.api.context import ControllerContext
from bmq.controller.balancer import equalize
from bmq.controller.cluster_nodes import ClusterNodes
from bmq.controller.decision import Decision
from bmq.controller.moves import Move, drain_moves
from bmq.controller.partition_mover import PartitionMover
from bmq.controller.partition_reports import NodeLoad
from bmq.controller.task_records import decide_keep_task
from bmq.metadata.image import MetadataImage

R = TypeVar("R")


class OperatorApi:
    """Implements the ports of bmq.admin.ports, besides the image."""

    def __init__(self, context: ControllerContext, nodes: ClusterNodes, mover: PartitionMover) -> None:
        self._context = context
        self._nodes = nodes
        self._mover = mover

    async def set_draining(self, node_id: int, is_draining: bool, reason: str) -> None:
        """Start draining a node (it gives its partitions away and gets no new ones), or stop it. Returns when that is
        written, not when the node is empty. A restart of the node ends it too. Raises KafkaError.
        """
        if is_draining:
            self._mover.explain_drain(node_id, reason)
        await self._nodes.set_draining(node_id, is_draining)

    def drain_plan(self, node_id: int) -> Sequence[Move]:
        """The moves that draining the node would need now."""
        return drain_moves(self._context.decision_context(), node_id, f"node {node_id} is being drained")

    def rebalance_plan(self) -> Sequence[Move]:
        """The moves that would even out the nodes' numbers of partitions now, all at once."""
        takers = {
            node_id: node for node_id, node in self._context.decision_context().owners.items() if not node.is_draining
        }
        return equalize(self._context.image, takers, lambda key: True, self._context.image.partition_count)

    async def apply_moves(self, moves: Sequence[Move], reason: str) -> None:
        """Carry a plan out; outdated moves are left out. `reason` precedes each move's own in the history.

        Raises KafkaError.
        """
        before = self._context.image
        await self._mover.apply([replace(move, reason=f"{reason}: {move.reason}") for move in moves])
        self._mover.placed(before, self._context.image)

    def loads(self) -> Mapping[int, NodeLoad]:
        """By live node: its number of partitions, and its measured rates."""
        return self._context.reports.loads(self._context.image, asyncio.get_running_loop().time())

    def now_ms(self) -> int:
        return self._context.clock.now_ms()

    async def decide_with_id(self, decide: Callable[[MetadataImage, UUID, int], Decision[R]]) -> R:
        """Decide in turn, with an unused id and the present time; returns the answer once its records are applied.

        Raises KafkaError, and whatever `decide` raises.
        """
        new_id, now_ms = self._context.new_uuid(), self._context.clock.now_ms()
        return await self._context.decisions.decide(
            lambda image, broker: decide(image, new_id, now_ms), self._context.config.internal_request_wait_max_ms
        )

    async def keep_task(self, task_id: str, text: str, forgotten: Sequence[str]) -> None:
        """Write an operator's task into the metadata log, and take the forgotten ones out. Raises KafkaError."""
        await self._context.decisions.decide(
            lambda image, broker: decide_keep_task(image, task_id, text, forgotten),
            self._context.config.internal_request_wait_max_ms,
        )

    def end_offset(self, topic_id: UUID, number: int) -> int:
        """The least end offset a partition is known to have, from its owner's last report; 0 when unknown."""
        partition = self._context.image.partition(topic_id, number)
        return 0 if partition is None else self._context.reports.floor_of(topic_id, partition)
