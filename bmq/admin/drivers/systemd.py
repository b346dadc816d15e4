"""Nodes as instances of a systemd template unit: bmq-node@100.service, which reads its settings as the unit file says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from bmq.admin.drivers.commands import CommandRunner, output_of
from bmq.admin.drivers.driver import NodeHandle, NodeSpec, first_free

READ_WAIT_S: Final = 5.0
ORDER_WAIT_S: Final = 60.0
_RUNNING: Final = frozenset({"active", "activating", "reloading", "deactivating"})


class SystemdUnits:
    """Implements Driver. `unit`: the template's name; `host`: another machine, as `systemctl --host` takes it.

    The unit decides on roles and addresses; NodeSpec.roles is for drivers that make the command line themselves.
    """

    stops_in_order = False

    def __init__(self, run: CommandRunner, node_ids: range, *, unit: str = "bmq-node", host: str = "") -> None:
        self._run = run
        self._node_ids = node_ids
        self._unit = unit
        self._systemctl = ["systemctl", *(["--host", host] if host else [])]

    async def next_node_ids(self, count: int, taken: Collection[int]) -> Sequence[int]:
        running = {node.node_id for node in await self.list_nodes() if node.is_running}
        return first_free(self._node_ids, count, running | set(taken))

    async def start_node(self, spec: NodeSpec) -> NodeHandle:
        name = self._name(spec.node_id)
        await output_of(self._run, [*self._systemctl, "start", name], ORDER_WAIT_S)
        return NodeHandle(spec.node_id, True, name)

    async def stop_node(self, node_id: int) -> None:
        await output_of(self._run, [*self._systemctl, "stop", self._name(node_id)], ORDER_WAIT_S)

    async def list_nodes(self) -> Sequence[NodeHandle]:
        pattern = f"{self._unit}@*.service"
        options = ["--all", "--full", "--plain", "--no-legend", "--no-pager"]
        listing = await output_of(self._run, [*self._systemctl, "list-units", *options, pattern], READ_WAIT_S)
        found = [handle for line in listing.splitlines() if (handle := self._handle(line.split())) is not None]
        return sorted(found, key=lambda handle: handle.node_id)

    def _handle(self, columns: list[str]) -> NodeHandle | None:
        """Parse UNIT LOAD ACTIVE SUB DESCRIPTION; None for an instance that is not our node, or was stopped."""
        if len(columns) < 4:
            return None
        instance = columns[0].removeprefix(f"{self._unit}@").removesuffix(".service")
        if not (instance.isascii() and instance.isdigit()) or int(instance) not in self._node_ids:
            return None
        active, sub = columns[2], columns[3]
        if active == "inactive":
            return None
        return NodeHandle(int(instance), active in _RUNNING, f"{columns[0]} is {active} ({sub})")

    def _name(self, node_id: int) -> str:
        return f"{self._unit}@{node_id}.service"
