"""Shows a running development cluster: a table on a terminal, else a line for each change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from bmq.cli.dev_orders import say
from bmq.dev.bmq_cluster import BmqCluster
from bmq.dev.bmq_node import NodeReport
from bmq.dev.bmq_plan import ServerPlan

REFRESH_INTERVAL_S: Final = 1.0


class ClusterWatch:
    """`start` once the cluster is up. `say` writes a line, above the table if there is one."""

    def __init__(self, cluster: BmqCluster, console: Console | None = None) -> None:
        self._cluster = cluster
        self._console = console or Console(soft_wrap=True)
        self._live: Live | None = None
        self._task: asyncio.Task[None] | None = None

    def say(self, text: str) -> None:
        if self._live is None:
            say(text)
        else:
            self._console.print(text, markup=False, highlight=False)

    def start(self) -> None:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._task = asyncio.get_running_loop().create_task(self._refresh())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._live is not None:
            self._live.stop()
            self._live = None

    async def _refresh(self) -> None:
        before: dict[str, NodeReport] = {}
        while True:
            now = await self._cluster.reports()
            if self._live is not None:
                self._live.update(render(self._cluster, now), refresh=True)
            else:
                for line in changes(self._cluster.plan.servers, before, now):
                    self.say(line)
            before = now
            await asyncio.sleep(REFRESH_INTERVAL_S)


def changes(servers: tuple[ServerPlan, ...], before: dict[str, NodeReport], now: dict[str, NodeReport]) -> list[str]:
    """A line for each node that has changed: its state, its role, how much it owns."""
    return [
        f"{server.name}: {_summary(server, now[server.name])}"
        for server in servers
        if server.name not in before or _summary(server, before[server.name]) != _summary(server, now[server.name])
    ]


def _summary(server: ServerPlan, report: NodeReport) -> str:
    parts = [report.state]
    parts += ["active controller"] if report.controller_id == server.node_id else []
    if "broker" in server.roles and report.state == "running":
        parts.append(f"{report.owned} partition{'' if report.owned == 1 else 's'}")
    return ", ".join(parts)


def render(cluster: BmqCluster, reports: dict[str, NodeReport]) -> Table:
    """One line for each process."""
    table = Table("node", "roles", "state", "pid", "clients", "REST", "partitions", box=None, pad_edge=False)
    for server in cluster.plan.servers:
        report = reports[server.name]
        is_active = report.controller_id == server.node_id
        roles = ", ".join(f"{role} (active)" if role == "controller" and is_active else role for role in server.roles)
        states = ", ".join(f"{count} {state}" for state, count in sorted(report.partitions.items()) if count)
        pid = cluster.daemon(server.name).pid
        clients = "" if server.kafka is None else str(server.kafka)
        table.add_row(server.name, roles, report.state, str(pid or ""), clients, str(server.rest), states)
    for node in _scaled(cluster.plan.servers, reports):
        clients = "" if node["port"] is None else f"{node['host']}:{node['port']}"
        owned = f"{node['partitions_led']} owned" if node["partitions_led"] else ""
        table.add_row(f"bmq{node['node_id']}", ", ".join(node["roles"]), "scaled", "", clients, node["rest"], owned)
    for daemon in (*cluster.zookeeper.daemons, *cluster.hdfs.daemons):
        table.add_row(daemon.name, "", daemon.state, str(daemon.pid or ""), "", "", "")
    return table


def _scaled(servers: tuple[ServerPlan, ...], reports: dict[str, NodeReport]) -> list[Mapping[str, Any]]:
    """Nodes that were started later by scaling, as reported by the node that knows of the most nodes."""
    planned = {server.node_id for server in servers}
    nodes = max((report.nodes for report in reports.values()), key=len, default=())
    return [node for node in nodes if node["node_id"] not in planned]
