"""A whole cluster of bmq on this machine: ZooKeeper, HDFS and nodes over them, each a process that can be broken.

Everything is in one directory: the files of ZooKeeper and HDFS, which are kept for the next run, and `log`. The nodes
of bmq hold no data, so the next run may have other nodes. When the cluster is scaled, the active controller starts and
stops further ones, in `scaled`; those end with the cluster too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bmq.admin.drivers.driver import NodeSpec
from bmq.admin.drivers.local import LocalProcesses
from bmq.dev.bmq_node import BmqNode, NodeReport
from bmq.dev.bmq_plan import SCALED_IDS, WholePlan
from bmq.dev.cluster import Order
from bmq.dev.daemon import Daemon
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.http_get import HttpsAccess
from bmq.dev.parallel_orders import run_parallel
from bmq.dev.ports import check_free
from bmq.dev.secure_hdfs import SecureHdfsCluster
from bmq.dev.secured import SecuredFiles
from bmq.dev.zookeeper import ZooKeeperServer
from bmq.protocol.errors import BmqError

ROOT: Final = "/bmq"
SETTINGS_FILE: Final = "bmq.toml"
SCALED: Final = "scaled"
# Longer than a node may take by itself (stop_timeout_ms), so that it ends in order even on a busy machine.
NODE_STOP_WAIT_S: Final = 20.0
STEPS: Final = ("proxy", "broker", "controller")


class UnknownNode(BmqError):
    """There is no daemon of that name."""


class BmqCluster:
    """`hdfs`, `zookeeper`: of `plan`, not started. `secured`: its files, which exist; None: everything is open.
    `before_nodes`: is run once HDFS is there. Implements bmq.dev.cluster.DevCluster.
    """

    def __init__(
        self,
        directory: Path,
        plan: WholePlan,
        hdfs: HdfsCluster | SecureHdfsCluster,
        zookeeper: ZooKeeperServer,
        secured: SecuredFiles | None = None,
        before_nodes: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.plan = plan
        self.hdfs = hdfs
        self.zookeeper = zookeeper
        self._scaled = LocalProcesses(self.directory / SCALED, SCALED_IDS, _never_asked)
        self.secured = secured
        self._before_nodes = before_nodes
        settings = self.directory / SETTINGS_FILE
        access = None if secured is None else HttpsAccess.of(secured.login())
        self.nodes = tuple(
            BmqNode(server, self.directory, self.store, self.zookeeper_url, settings, access) for server in plan.servers
        )

    # -- The whole cluster -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything and wait until every node serves; on failure nothing is left running. Raises a BmqError."""
        check_free(address for server in self.plan.servers for address in server.addresses)
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / SETTINGS_FILE).write_text(self._settings())
        # Nodes left behind by an `up` that was killed.
        await self._stop_scaled()
        try:
            await run_parallel((self.zookeeper.start(), self.hdfs.start()))
            if self._before_nodes is not None:
                await self._before_nodes()
            await run_parallel(node.start() for node in self.nodes)
        except BaseException:
            await run_parallel(daemon.kill() for daemon in self.daemons)
            raise

    async def stop(self) -> None:
        """End everything in order: first the nodes that clients use, last the services others need. The files stay."""
        await self._stop_scaled()
        for role in STEPS:
            await run_parallel(
                node.daemon.stop(NODE_STOP_WAIT_S)
                for node in self.nodes
                if role in node.plan.roles and node.daemon.is_running
            )
        await self.zookeeper.stop()
        await self.hdfs.stop()

    def _settings(self) -> str:
        """Settings common to all nodes; `BMQ_…` variables still override them."""
        roles = next(server.roles for server in self.plan.servers if "broker" in server.roles)
        hdfs = "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.hdfs.client_settings.items())
        return (
            f"[hdfs]\nreplication = {min(3, len(self.plan.hdfs.datanodes))}\n{hdfs}"
            f'[scale]\ndriver = "local"\ndirectory = {json.dumps(str(self.directory / SCALED))}\n'
            f'first_node_id = {SCALED_IDS[0]}\nlast_node_id = {SCALED_IDS[-1]}\nroles = "{",".join(roles)}"\n'
            + ("" if self.secured is None else self.secured.settings())
        )

    async def _stop_scaled(self) -> None:
        await run_parallel(self._scaled.stop_node(handle.node_id) for handle in await self._scaled.list_nodes())

    # -- Parts -------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> str:
        """For `--store`."""
        return f"{self.hdfs.url}{ROOT}"

    @property
    def zookeeper_url(self) -> str:
        """For `--zookeeper`."""
        return f"{self.zookeeper.address}{ROOT}"

    @property
    def bootstrap(self) -> str:
        """For Kafka clients."""
        return ",".join(str(server.kafka) for server in self.plan.servers if server.kafka)

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return (*(node.daemon for node in self.nodes), *self.zookeeper.daemons, *self.hdfs.daemons)

    def daemon(self, name: str) -> Daemon:
        """By name: `bmq1`, `nn0`. Raises UnknownNode."""
        for daemon in self.daemons:
            if daemon.name == name:
                return daemon
        known = ", ".join(daemon.name for daemon in self.daemons)
        raise UnknownNode(f"there is no node {name!r}; this cluster has {known}")

    @property
    def special_orders(self) -> Mapping[str, Order]:
        return {}

    # -- Watching ----------------------------------------------------------------------------------------------------

    async def reports(self) -> dict[str, NodeReport]:
        """Every bmq node's report about itself, by name."""
        found = await asyncio.gather(*(node.report() for node in self.nodes))
        return {node.plan.name: report for node, report in zip(self.nodes, found, strict=True)}

    async def roles(self) -> Mapping[str, str]:
        """By daemon; for a bmq node its roles, whether it is the active controller, and how much it owns."""
        reports, zookeeper, hdfs = await asyncio.gather(self.reports(), self.zookeeper.roles(), self.hdfs.roles())
        servers = {}
        for server in self.plan.servers:
            report = reports[server.name]
            said = [",".join(server.roles)]
            said += ["active controller"] if report.controller_id == server.node_id else []
            said += [f"{report.owned} partitions"] if report.owned else []
            said += [] if report.state == "running" else [report.state]
            servers[server.name] = "; ".join(said)
        return {**servers, **zookeeper, **hdfs}


def _never_asked(spec: NodeSpec) -> Sequence[str]:
    """Never called: the nodes' own driver starts nodes; this one only finds and stops them."""
    raise AssertionError(f"node {spec.node_id} is not to be started here")
