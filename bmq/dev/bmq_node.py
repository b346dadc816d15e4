"""One bmq node on this machine as a daemon: starts it, tells when it is ready, and reads its report about itself."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import httpx

from bmq.dataclass import dataclass
from bmq.dev.bmq_plan import ServerPlan
from bmq.dev.daemon import Daemon, DaemonFailed
from bmq.dev.http_get import HttpsAccess, http_get

ANSWER_WAIT_S: Final = 1.0
# The variable that names bmq's settings file.
FILE_VARIABLE: Final = "BMQ_CONFIG"
_OWN_SENTENCE: Final = "bmq: "


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node's present state. `state`: running, paused, stopped (and how it ended), silent, or not registered.

    `controller_id` and `nodes`: this node's view, as in `GET /v1/cluster`. `partitions`: how many it has in each state
    of the partition's state machine.
    """

    state: str
    controller_id: int = -1
    partitions: Mapping[str, int] = field(default_factory=dict)
    nodes: Sequence[Mapping[str, Any]] = ()

    @property
    def owned(self) -> int:
        """How many partitions it has."""
        return sum(self.partitions.values())


class BmqNode:
    """`bmq node` as a daemon. `url`: of the store; `zookeeper`: hosts and chroot; `settings`: a TOML file.

    `access`: how its REST address is asked; None: without TLS and login.
    """

    def __init__(
        self,
        plan: ServerPlan,
        directory: Path,
        url: str,
        zookeeper: str,
        settings: Path,
        access: HttpsAccess | None = None,
    ) -> None:
        self.plan = plan
        self._access = access
        command = [sys.executable, "-P", "-m", "bmq.cli.main", "node", "--roles", ",".join(plan.roles)]
        command += ["--node-id", str(plan.node_id), "--store", url, "--zookeeper", zookeeper]
        command += ["--listen", str(plan.kafka)] if plan.kafka else []
        command += ["--internal", str(plan.internal), "--rest", str(plan.rest), "--workers", "0"]
        log_file = directory / "log" / f"{plan.name}.log"
        # Not as an option: nodes that this one starts when the cluster is scaled inherit it.
        self.daemon = Daemon(plan.name, command, log_file, self._probe, {FILE_VARIABLE: str(settings)})

    async def start(self) -> None:
        """Return once it serves. Raises DaemonFailed with one sentence, the node's own if it printed one."""
        self.daemon.spawn()
        try:
            await self.daemon.wait_ready()
        except DaemonFailed as error:
            own = [line for line in self.daemon.log_head().splitlines() if line.startswith(_OWN_SENTENCE)]
            if not own:
                raise
            sentence = own[-1].removeprefix(_OWN_SENTENCE)
            raise DaemonFailed(f"{self.plan.name} did not start: {sentence}") from error

    async def report(self) -> NodeReport:
        """The node's report about itself; a node that does not answer in time is silent."""
        if self.daemon.state == "stopped":
            return NodeReport(f"stopped ({self.daemon.exit_text})")
        if self.daemon.state == "paused":
            return NodeReport("paused")
        try:
            async with asyncio.timeout(ANSWER_WAIT_S):
                seen = json.loads(await http_get(self.plan.rest, "/v1/cluster", self._access))
            nodes = seen["nodes"]
            is_registered = any(node["node_id"] == self.plan.node_id for node in nodes)
            state = "running" if is_registered else "not registered"
            return NodeReport(state, int(seen["controller_id"]), seen["partition_states"], nodes)
        except (TimeoutError, httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
            return NodeReport("silent")

    async def _probe(self) -> str | None:
        try:
            async with asyncio.timeout(ANSWER_WAIT_S):
                await http_get(self.plan.rest, "/v1/health", self._access)
        except TimeoutError:
            return "it does not answer"
        except httpx.HTTPError as error:
            return str(error)
        return None
