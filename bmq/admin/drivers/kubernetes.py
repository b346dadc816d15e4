"""Nodes as the pods of a StatefulSet: the node id is the first id plus the pod's ordinal, and the last pod goes first."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from bmq.admin.drivers.driver import DriverFailed, DriverRefused, NodeHandle, NodeSpec
from bmq.admin.drivers.stateful_set import StatefulSet, StatefulSets

STATEFUL_SET: Final = "bmq-node"
# A pod that is being stopped has `terminationGracePeriodSeconds`; the rest is for Kubernetes to notice its end.
STOP_WAIT_MIN_S: Final = 240.0
AFTER_GRACE_S: Final = 40.0
POLL_INTERVAL_S: Final = 1.0
# While a pod stops, an API server that is away for a moment fails nothing.
FAILED_READS_MAX: Final = 5


class StatefulSetPods:
    """Implements Driver. The pod's own template says how it is started; here only the number of pods changes."""

    stops_in_order = True

    def __init__(
        self,
        sets: StatefulSets,
        node_ids: range,
        *,
        stateful_set: str = STATEFUL_SET,
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        self._sets = sets
        self._node_ids = node_ids
        self._name = stateful_set
        self._poll_interval_s = poll_interval_s

    async def next_node_ids(self, count: int, taken: Collection[int]) -> Sequence[int]:
        """Ordinals cannot be skipped, so an id that another node has makes this fail."""
        pods = await self._sets.read(self._name)
        first = self._node_ids.start + pods.replicas
        node_ids = range(first, first + count)
        if node_ids.stop > self._node_ids.stop:
            raise DriverRefused(
                f"{self._name} may have {len(self._node_ids)} pods and {pods.replicas + count} are needed; "
                f"widen scale.first_node_id and scale.last_node_id"
            )
        in_the_way = sorted(set(node_ids) & set(taken))
        if in_the_way:
            raise DriverRefused(f"the next pod of {self._name} would be node {in_the_way[0]}, which lives already")
        return tuple(node_ids)

    async def start_node(self, spec: NodeSpec) -> NodeHandle:
        pods = await self._sets.read(self._name)
        ordinal = spec.node_id - self._node_ids.start
        if ordinal > pods.replicas or ordinal < 0:
            wanted = self._node_ids.start + pods.replicas
            raise DriverFailed(
                f"the next pod of {self._name} is node {wanted}, so node {spec.node_id} cannot be started"
            )
        if ordinal == pods.replicas:
            await self._sets.scale(self._name, pods, pods.replicas + 1)
        return NodeHandle(spec.node_id, True, self._pod(pods, ordinal))

    async def stop_node(self, node_id: int) -> None:
        pods = await self._sets.read(self._name)
        ordinal = node_id - self._node_ids.start
        if ordinal < pods.replicas:
            if ordinal != pods.replicas - 1:
                last = self._node_ids.start + pods.replicas - 1
                raise DriverFailed(
                    f"{self._name} gives up its last pod first: node {last} has to stop before node {node_id}"
                )
            await self._sets.scale(self._name, pods, ordinal)
        await self._wait_until_gone(pods, ordinal)

    async def list_nodes(self) -> Sequence[NodeHandle]:
        """Pods that are being stopped are listed: their nodes are registered still."""
        pods = await self._sets.read(self._name)
        return [
            NodeHandle(self._node_ids.start + ordinal, True, self._pod(pods, ordinal))
            for ordinal in range(max(pods.replicas, pods.existing))
        ]  # fmt: skip

    def _pod(self, pods: StatefulSet, ordinal: int) -> str:
        return f"{self._name}-{pods.first_ordinal + ordinal}"

    async def _wait_until_gone(self, pods: StatefulSet, ordinal: int) -> None:
        wait_s = max(STOP_WAIT_MIN_S, pods.grace_s + AFTER_GRACE_S)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        failed_reads = 0
        while True:
            try:
                now = await self._sets.read(self._name)
            except DriverFailed:
                failed_reads += 1
                if failed_reads > FAILED_READS_MAX:
                    raise
            else:
                failed_reads = 0
                if now.replicas > ordinal:
                    raise DriverFailed(f"another client has scaled {self._name} to {now.replicas} pods meanwhile")
                if now.is_seen and now.existing <= ordinal:
                    return
            if loop.time() > deadline_s:
                raise DriverFailed(f"pod {self._pod(pods, ordinal)} is still there after {wait_s:.0f} s")
            await asyncio.sleep(self._poll_interval_s)
