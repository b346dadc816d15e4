"""Nodes as the pods of a StatefulSet: the node id is the first id plus the pod's ordinal, and the last pod goes first."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

from bmq.admin.drivers.commands import CommandRunner, output_of
from bmq.admin.drivers.driver import DriverFailed, DriverRefused, NodeHandle, NodeSpec
from bmq.dataclass import dataclass

READ_WAIT_S: Final = 10.0
ORDER_WAIT_S: Final = 30.0
# A pod that is being stopped has `terminationGracePeriodSeconds`; 30 is Kubernetes' default.
STOP_WAIT_S: Final = 240.0
REPLICAS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Set:
    replicas: int
    first_ordinal: int


class StatefulSetPods:
    """Implements Driver. The pod's own template says how it is started; here only the number of pods changes."""

    stops_in_order = True

    def __init__(
        self,
        run: CommandRunner,
        *,
        first_node_id: int,
        stateful_set: str = "bmq-node",
        namespace: str = "",
        context: str = "",
    ) -> None:
        self._run = run
        self._first_node_id = first_node_id
        self._name = stateful_set
        self._kubectl = [
            "kubectl",
            *(["--context", context] if context else []),
            *(["--namespace", namespace] if namespace else []),
        ]

    async def next_node_ids(self, count: int, taken: Collection[int]) -> Sequence[int]:
        """Ordinals cannot be skipped, so an id that another node has makes this fail."""
        pods = await self._read_stateful_set()
        first = self._first_node_id + pods.replicas
        node_ids = tuple(range(first, first + count))
        in_the_way = sorted(set(node_ids) & set(taken))
        if in_the_way:
            raise DriverRefused(f"the next pod of {self._name} would be node {in_the_way[0]}, which lives already")
        return node_ids

    async def start_node(self, spec: NodeSpec) -> NodeHandle:
        pods = await self._read_stateful_set()
        ordinal = spec.node_id - self._first_node_id
        if ordinal > pods.replicas or ordinal < 0:
            wanted = self._first_node_id + pods.replicas
            raise DriverFailed(
                f"the next pod of {self._name} is node {wanted}, so node {spec.node_id} cannot be started"
            )
        if ordinal == pods.replicas:
            await self._scale(pods.replicas, pods.replicas + 1)
        return NodeHandle(spec.node_id, True, self._pod(pods, ordinal))

    async def stop_node(self, node_id: int) -> None:
        pods = await self._read_stateful_set()
        ordinal = node_id - self._first_node_id
        if ordinal >= pods.replicas:
            return
        if ordinal != pods.replicas - 1:
            last = self._first_node_id + pods.replicas - 1
            raise DriverFailed(
                f"{self._name} gives up its last pod first: node {last} has to stop before node {node_id}"
            )
        await self._scale(pods.replicas, ordinal)
        pod = f"pod/{self._pod(pods, ordinal)}"
        wait = ["wait", "--for=delete", f"--timeout={STOP_WAIT_S:.0f}s", pod]
        await output_of(self._run, [*self._kubectl, *wait], STOP_WAIT_S + READ_WAIT_S)

    async def list_nodes(self) -> Sequence[NodeHandle]:
        pods = await self._read_stateful_set()
        return [
            NodeHandle(self._first_node_id + ordinal, True, self._pod(pods, ordinal))
            for ordinal in range(pods.replicas)
        ]  # fmt: skip

    def _pod(self, pods: _Set, ordinal: int) -> str:
        return f"{self._name}-{pods.first_ordinal + ordinal}"

    async def _read_stateful_set(self) -> _Set:
        text = await output_of(self._run, [*self._kubectl, "get", "statefulset", self._name, "-o", "json"], READ_WAIT_S)
        try:
            found: Any = json.loads(text)
            spec = found["spec"]
            ordinals = spec.get("ordinals") or {}
            pods = _Set(int(spec["replicas"]), int(ordinals.get("start", 0)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DriverFailed(f"kubectl's answer about StatefulSet {self._name} cannot be understood") from error
        if not 0 <= pods.replicas <= REPLICAS_MAX:
            raise DriverFailed(f"StatefulSet {self._name} says it has {pods.replicas} replicas")
        return pods

    async def _scale(self, before: int, after: int) -> None:
        """Kubernetes refuses this if somebody else has scaled the StatefulSet since we read it."""
        order = ["scale", f"statefulset/{self._name}", f"--current-replicas={before}", f"--replicas={after}"]
        await output_of(self._run, [*self._kubectl, *order], ORDER_WAIT_S)
