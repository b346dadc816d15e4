"""Shared by the `bmq dev …` commands: they find the cluster of a directory and have its process carry orders out."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Final, Generic, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from bmq.dataclass import dataclass
from bmq.dev.cluster import Plan
from bmq.dev.cluster_file import ClusterBusy, ClusterFile, NoCluster, exclusive
from bmq.dev.control import NodeStatus, give_order
from bmq.hdfs.config import Address
from bmq.protocol.errors import BmqError

# Ending the daemons takes seconds; the first HDFS of a machine then makes an archive of their classes.
DOWN_WAIT_S: Final = 120.0
LOOK_INTERVAL_S: Final = 0.1

PlanT = TypeVar("PlanT", bound=Plan)


class StillRunning(BmqError):
    """A cluster that was told to end still runs."""


@dataclass(frozen=True, slots=True)
class DevOrders(Generic[PlanT]):
    """`command`: the one these orders belong to, as `bmq dev hdfs`. `what`: a word for what runs, as `cluster`.

    `role_heading`: above the column that says what a node is in the cluster.
    """

    command: str
    what: str
    role_heading: str
    plan_class: type[PlanT]

    def before(self, data: Path) -> PlanT | None:
        """The plan of the last run; None without one. Raises BadClusterFile."""
        found = ClusterFile.read(data, self.plan_class)
        return None if found is None else found.plan

    def give(self, data: Path, order: str, node: str = "", *, as_json: bool = False) -> None:
        """Have the order carried out and print the nodes' states after it.

        Raises NoCluster, OrderFailed, ClusterSilent.
        """
        running = self._running(data)
        if node:
            _check_node(running, node)
        self._print_nodes(asyncio.run(give_order(self._control(running, data), order, node)), as_json=as_json)

    def down(self, data: Path) -> None:
        """End it, and return once it has ended. Raises NoCluster, StillRunning."""
        running = self._running(data)
        asyncio.run(give_order(self._control(running, data), "down"))
        deadline = time.monotonic() + DOWN_WAIT_S
        while time.monotonic() < deadline:
            try:
                with exclusive(data):
                    return
            except ClusterBusy:
                time.sleep(LOOK_INTERVAL_S)
        raise StillRunning(f"the {self.what} on {data} is still running after {DOWN_WAIT_S:g} s")

    def print_log(self, data: Path, node: str, lines: int, *, is_followed: bool) -> None:
        """The last `lines` of the daemon's log; with `is_followed` until Ctrl-C. Raises NoCluster."""
        _check_node(self._known(data), node)
        path = data / "log" / f"{node}.log"
        try:
            with path.open(errors="replace") as log:
                for line in deque(log, maxlen=lines):
                    sys.stdout.write(line)
                log.seek(0, 2)
                while is_followed:
                    if text := log.read():
                        sys.stdout.write(text)
                    sys.stdout.flush()
                    time.sleep(LOOK_INTERVAL_S)
        except FileNotFoundError:
            raise NoCluster(f"{node} has no log in {data} yet") from None
        except KeyboardInterrupt:
            return

    def _known(self, data: Path) -> ClusterFile[PlanT]:
        found = ClusterFile.read(data, self.plan_class)
        if found is None:
            raise NoCluster(
                f"there is no {self.what} in {data}: `{self.command} up` makes one, --data names another directory"
            )
        return found

    def _running(self, data: Path) -> ClusterFile[PlanT]:
        found = self._known(data)
        try:
            with exclusive(data):
                pass
        except ClusterBusy:
            return found
        raise NoCluster(f"the {self.what} in {data} is not running: start it with `{self.command} up`")

    def _control(self, running: ClusterFile[PlanT], data: Path) -> Address:
        if running.control is None:
            raise NoCluster(f"the {self.what} in {data} is still starting, or ending")
        return running.control

    def _print_nodes(self, nodes: list[NodeStatus], *, as_json: bool) -> None:
        if as_json:
            typer.echo(json.dumps([asdict(node) for node in nodes], indent=2))
            return
        table = Table("node", "process", self.role_heading, "pid", "address", box=None, pad_edge=False)
        for node in nodes:
            pid = "" if node.pid is None else str(node.pid)
            table.add_row(node.name, node.state, node.role, pid, node.address)
        Console(soft_wrap=True).print(table)


def _check_node(found: ClusterFile[PlanT], node: str) -> None:
    known = [each.name for each in found.plan.nodes]
    if node not in known:
        raise typer.BadParameter(f"there is no node {node!r}; this cluster has {', '.join(known)}")


def say(text: str) -> None:
    """A line on standard output, at once."""
    typer.echo(text)
    sys.stdout.flush()
