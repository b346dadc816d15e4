"""A real HDFS on this machine: one NameNode, or two (HA), and DataNodes, each a process that can be broken.

    async with HdfsCluster(directory, jars) as cluster:
        cluster.namenodes[0]                  # Address, to be put into HdfsConfig or a store URL
        await cluster.datanode(0).kill()
        await cluster.datanode(0).restart()

Everything a cluster writes is in its directory: `nn0`, `dn0`, … with each daemon's files, `log` with their output,
`conf` with a configuration for Hadoop's own clients. Daemons keep their ports and files over a restart, and a cluster
started again on its directory has its files back.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

import structlog

from bmq.dev.class_archive import ClassArchive
from bmq.dev.cluster import Order
from bmq.dev.daemon import POLL_INTERVAL_S, Daemon, DaemonFailed
from bmq.dev.hadoop_configuration import (
    LOGGING,
    METRICS,
    SHARED_EDITS,
    TEMPORARY,
    ClusterPlan,
    DataNodePlan,
    NameNodePlan,
    client_properties,
    configuration_xml,
    daemon_properties,
)
from bmq.dev.java import QUICK_START_JVM_OPTIONS, java_command
from bmq.dev.namenode_admin import TransitionFailed, become_active, become_standby
from bmq.dev.namenode_status import NameNodeStatus, NoStatus, namenode_status
from bmq.dev.parallel_orders import run_parallel
from bmq.dev.ports import HOST, check_free, pick_ports
from bmq.hdfs.authentication import Authentication
from bmq.hdfs.config import Address
from bmq.protocol.errors import BmqError

LIVE_WAIT_S: Final = 90.0
ACTIVE_WAIT_S: Final = 60.0
STANDBY_WAIT_S: Final = 5.0
FORMAT_WAIT_S: Final = 60.0
HEAP_MB: Final = 256
FORMATTED_MARK: Final = "formatted"

_NAMENODE: Final = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE: Final = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_REPORTED: Final = re.compile(r"Successfully sent block report .* to namenode: \S*:(\d+),")

_log = structlog.get_logger("bmq.dev")


class ClusterFailed(BmqError):
    """The cluster as a whole is not usable: too few DataNodes, no active NameNode."""


class UnknownNode(BmqError):
    """There is no daemon of that name or number."""


class HdfsCluster:
    """At least one DataNode; `is_ha`: two NameNodes. Raises JavaMissing, JarsMissing.

    `properties`: for all daemons, over Hadoop's defaults (see QUICK_PROPERTIES). `plan`: names and ports, instead of
    `datanodes` and `is_ha` and ports that are free. `jvm_options`: STEADY_JVM_OPTIONS when figures matter.
    `jvm_properties`: Java's, of all daemons. `admin_login`: of a superuser, for a failover on a kerberized cluster.

    All methods may be called under any event loop, but `start`, and the start of a daemon, from a thread that lives on:
    the daemons die with it. A NameNode that was restarted, or became active soon after its start, may still be in safe
    mode: `wait_live` waits for that too.
    """

    def __init__(  # noqa: PLR0913
        self,
        directory: Path,
        jars: Path,
        *,
        datanodes: int = 3,
        is_ha: bool = False,
        properties: Mapping[str, str] | None = None,
        is_permission_checked: bool = False,
        heap_mb: int = HEAP_MB,
        jvm_options: Sequence[str] = QUICK_START_JVM_OPTIONS,
        jvm_properties: Mapping[str, str] | None = None,
        admin_login: Authentication | None = None,
        plan: ClusterPlan | None = None,
        random: Random | None = None,
    ) -> None:
        self.directory = directory.resolve()
        if plan is None:
            namenodes = 2 if is_ha else 1
            ports = pick_ports(HOST, 2 * namenodes + 3 * datanodes, random or Random())
            plan = ClusterPlan.of_ports(ports, namenodes=namenodes, datanodes=datanodes)
        self.plan = plan
        self._properties = {"dfs.permissions.enabled": str(is_permission_checked).lower(), **(properties or {})}
        self._java = partial(java_command, jars=jars, heap_mb=heap_mb)
        self._admin_login = admin_login
        self._jvm_options = tuple(jvm_options)
        # Not among the options: the class archive is made for those.
        self._jvm_properties = tuple(f"-D{name}={value}" for name, value in (jvm_properties or {}).items())
        self._archive = ClassArchive(jars, jvm_options)
        # Without an archive, one daemon of each kind lists the classes for it.
        self._listing: tuple[str, ...] = ()
        if not self._archive.is_there:
            self._listing = (plan.namenodes[0].name, plan.datanodes[0].name)
        self._namenodes = [self._namenode_daemon(node) for node in plan.namenodes]
        self._datanodes = [self._datanode_daemon(node) for node in plan.datanodes]

    # -- The whole cluster -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Format a new cluster, start everything, wait until all DataNodes are live; on failure nothing is left running.

        Raises DaemonFailed with the end of the log of the daemon at fault, ClusterFailed, TransitionFailed, PortTaken.
        """
        is_formatted = self._is_formatted()
        check_free(self.plan.addresses)
        self._write_configuration()
        try:
            # Start DataNodes right away: they wait for the NameNode by themselves, and a JVM is slow to start.
            for daemon in self._datanodes:
                daemon.spawn()
            if not is_formatted:
                await self._format()
            for daemon in self._namenodes:
                daemon.spawn()
            await run_parallel(daemon.wait_ready() for daemon in self._namenodes)
            if self.is_ha:
                # Both NameNodes start as standby, so none has to step back first, or be killed if it is slow to.
                await become_active(self.plan.namenodes[0].rpc, ACTIVE_WAIT_S, self._admin_login)
            await run_parallel(daemon.wait_ready() for daemon in self._datanodes)
            await self.wait_live(len(self._datanodes))
        except BaseException:
            await run_parallel(daemon.kill() for daemon in self.daemons)
            raise

    async def stop(self) -> None:
        """End all daemons in order; the files stay. Raises DaemonFailed when one cannot be ended.

        The first cluster of a machine then makes an archive of the daemons' classes, which takes 10 s of CPU.
        """
        await run_parallel(daemon.stop() for daemon in self._datanodes)
        await run_parallel(daemon.stop() for daemon in self._namenodes)
        lists = [self._class_list(name) for name in self._listing]
        if lists and not self._archive.is_there and all(path.exists() for path in lists):
            await self._archive.make(lists, self.directory)

    async def wait_live(self, count: int, timeout_s: float = LIVE_WAIT_S) -> None:
        """Return once every running NameNode counts `count` live DataNodes or more and the active one left safe mode.

        Raises ClusterFailed after `timeout_s`.
        """
        reason = "nothing was asked yet"
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    reason = await self._missing_for(count)
                    if not reason:
                        return
                    await asyncio.sleep(POLL_INTERVAL_S)
        except TimeoutError:
            raise ClusterFailed(f"the cluster was not ready within {timeout_s:g} s: {reason}") from None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- HA ----------------------------------------------------------------------------------------------------------

    async def transition_to_active(
        self, index: int, timeout_s: float = ACTIVE_WAIT_S, standby_wait_s: float = STANDBY_WAIT_S
    ) -> None:
        """Make one NameNode of an HA cluster the active one, as an operator's failover does.

        The other steps back first. If it is paused or does not answer in `standby_wait_s` it is killed: two writers
        would ruin the shared edits, and only its death keeps a paused one from continuing where it stopped. Raises
        ClusterFailed (no HA cluster, not running), TransitionFailed.
        """
        if not self.is_ha:
            raise ClusterFailed("this cluster has a single NameNode; HA was not asked for")
        target = self._namenodes[index]
        if target.state != "running":
            raise ClusterFailed(f"{target.name} is {target.state}, so it cannot become active")
        for node, daemon in zip(self.plan.namenodes, self._namenodes, strict=True):
            if daemon is target or not daemon.is_running:
                continue
            try:
                if daemon.is_paused:
                    raise TransitionFailed(f"{daemon.name} is paused")
                await become_standby(node.rpc, standby_wait_s, self._admin_login)
            except TransitionFailed as failure:
                _log.warning("namenode_killed", name=daemon.name, reason=str(failure))
                await daemon.kill()
        await become_active(self.plan.namenodes[index].rpc, timeout_s, self._admin_login)

    async def active_index(self) -> int | None:
        """The index of the NameNode that says it is active; None when no running one does."""
        statuses = await self.statuses()
        for index, node in enumerate(self.plan.namenodes):
            if node.name in statuses and statuses[node.name].role == "active":
                return index
        return None

    @property
    def special_orders(self) -> Mapping[str, Order]:
        return {"activate": self._activate}

    async def _activate(self, daemon: Daemon) -> None:
        if daemon not in self._namenodes:
            raise ClusterFailed(f"{daemon.name} is no NameNode")
        await self.transition_to_active(self._namenodes.index(daemon))

    # -- Parts -------------------------------------------------------------------------------------------------------

    @property
    def is_ha(self) -> bool:
        return self.plan.is_ha

    @property
    def namenodes(self) -> tuple[Address, ...]:
        """Where clients reach the NameNodes."""
        return tuple(node.rpc for node in self.plan.namenodes)

    @property
    def datanodes(self) -> tuple[Address, ...]:
        """The transfer addresses of the DataNodes, as they stand in located blocks."""
        return tuple(node.transfer for node in self.plan.datanodes)

    @property
    def url(self) -> str:
        """For `--store`, without a directory: `hdfs://127.0.0.1:8020`."""
        return f"hdfs://{','.join(str(address) for address in self.namenodes)}"

    @property
    def client_settings(self) -> Mapping[str, str]:
        """Settings for a server's table `[hdfs]`: none, it finds all by itself."""
        return {}

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return (*self._namenodes, *self._datanodes)

    def namenode(self, index: int) -> Daemon:
        return self._namenodes[index]

    def datanode(self, index: int) -> Daemon:
        return self._datanodes[index]

    def datanode_at(self, transfer: Address) -> Daemon:
        """The DataNode that has this transfer address. Raises UnknownNode."""
        for node, daemon in zip(self.plan.datanodes, self._datanodes, strict=True):
            if node.transfer == transfer:
                return daemon
        raise UnknownNode(f"no DataNode of this cluster has the transfer address {transfer}")

    def daemon(self, name: str) -> Daemon:
        """By name: `nn0`, `dn2`. Raises UnknownNode."""
        for daemon in self.daemons:
            if daemon.name == name:
                return daemon
        known = ", ".join(daemon.name for daemon in self.daemons)
        raise UnknownNode(f"there is no node {name!r}; this cluster has {known}")

    # -- Daemons -----------------------------------------------------------------------------------------------------

    def _namenode_daemon(self, node: NameNodePlan) -> Daemon:
        async def probe() -> str | None:
            try:
                status = await namenode_status(node.http)
                _, writer = await asyncio.open_connection(*node.rpc)
            except (NoStatus, OSError) as error:
                return str(error)
            writer.transport.abort()
            return None if status.role in ("active", "standby") else f"it is {status.role}"

        return Daemon(node.name, self._command(_NAMENODE, node.name), self._log_file(node.name), probe)

    def _datanode_daemon(self, node: DataNodePlan) -> Daemon:
        async def probe() -> str | None:
            wanted = {
                str(namenode.rpc.port): namenode.name
                for namenode, running in zip(self.plan.namenodes, self._namenodes, strict=True)
                if running.is_running and not running.is_paused
            }
            if not wanted:
                return "no NameNode is running"
            missing = wanted.keys() - set(_REPORTED.findall(daemon.log_head()))
            return (
                f"it has not reported its blocks to {', '.join(wanted[port] for port in missing)}" if missing else None
            )

        daemon = Daemon(node.name, self._command(_DATANODE, node.name), self._log_file(node.name), probe)
        return daemon

    def _command(self, main_class: str, name: str, *arguments: str) -> list[str]:
        options = self._jvm_options
        if self._archive.is_there:
            options += self._archive.options()
        elif name in self._listing and not arguments:
            options += self._archive.listing_options(self._class_list(name))
        # A daemon that is killed leaves what its web server unpacked.
        options += (f"-Djava.io.tmpdir={self._temporary_of(name)}", *self._jvm_properties)
        return self._java(main_class, arguments, configuration=self._configuration_of(name), options=options)

    def _class_list(self, name: str) -> Path:
        return self.directory / name / "classes.txt"

    def _configuration_of(self, name: str) -> Path:
        return self.directory / name / "conf"

    def _temporary_of(self, name: str) -> Path:
        return self.directory / name / TEMPORARY

    def _log_file(self, name: str) -> Path:
        return self.directory / "log" / f"{name}.log"

    def _write_configuration(self) -> None:
        for node in self.plan.hadoop_nodes:
            directory = self._configuration_of(node.name)
            # The web servers insist on a directory of pages, though they serve their status without any.
            (directory / "webapps" / "hdfs").mkdir(parents=True, exist_ok=True)
            (directory / "webapps" / "datanode").mkdir(parents=True, exist_ok=True)
            self._temporary_of(node.name).mkdir(exist_ok=True)
            found = daemon_properties(self.plan, node, self.directory, self._properties)
            (directory / "hdfs-site.xml").write_text(configuration_xml(found))
            (directory / "core-site.xml").write_text(configuration_xml(found))
            (directory / "log4j.properties").write_text(LOGGING)
            (directory / "hadoop-metrics2.properties").write_text(METRICS)
        clients = self.directory / "conf"
        clients.mkdir(exist_ok=True)
        for name in ("core-site.xml", "hdfs-site.xml"):
            (clients / name).write_text(configuration_xml(client_properties(self.plan)))
        (clients / "log4j.properties").write_text(LOGGING)

    # -- Starting ----------------------------------------------------------------------------------------------------

    async def _format(self) -> None:
        """Make the first NameNode's empty image; a second one begins with a copy of it, as bootstrapStandby would."""
        first, *others = self.plan.namenodes
        # Remove leftovers of an interrupted format: no NameNode ever ran on them.
        for left in (*(self.directory / node.name / "name" for node in self.plan.namenodes), self._shared_edits):
            shutil.rmtree(left, ignore_errors=True)
        formatter = Daemon(
            f"the format of {first.name}",
            self._command(_NAMENODE, first.name, "-format", "-nonInteractive"),
            self._log_file("format"),
            _never_ready,
        )
        formatter.spawn()
        try:
            if await formatter.wait_ended(FORMAT_WAIT_S) != 0:
                raise DaemonFailed(f"{formatter.name} ended with {formatter.exit_text}{formatter.log_tail()}")
        finally:
            await formatter.kill()
        for other in others:
            shutil.copytree(self.directory / first.name / "name", self.directory / other.name / "name")
        (self.directory / FORMATTED_MARK).write_text(self._namenode_names)

    def _is_formatted(self) -> bool:
        """Whether a format for these NameNodes has ended well. Raises ClusterFailed when it was for others."""
        try:
            found = (self.directory / FORMATTED_MARK).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if found != self._namenode_names:
            raise ClusterFailed(
                f"{self.directory} holds a cluster with the NameNodes {found}, not {self._namenode_names}"
            )
        return True

    @property
    def _namenode_names(self) -> str:
        return " ".join(node.name for node in self.plan.namenodes)

    @property
    def _shared_edits(self) -> Path:
        return self.directory / SHARED_EDITS

    # -- Watching ----------------------------------------------------------------------------------------------------

    async def statuses(self) -> dict[str, NameNodeStatus]:
        """The status of NameNodes that run and answer, by name."""
        found: dict[str, NameNodeStatus] = {}

        async def ask(node: NameNodePlan) -> None:
            with suppress(NoStatus):
                found[node.name] = await namenode_status(node.http)

        await run_parallel(
            ask(node)
            for node, daemon in zip(self.plan.namenodes, self._namenodes, strict=True)
            if daemon.state == "running"
        )
        return found

    async def roles(self) -> Mapping[str, str]:
        """By daemon: `active`, `standby`, `live`, `not live`; `?` when no NameNode answers."""
        namenodes = await self.statuses()
        # DataNodes report to every NameNode, so any that answers knows the live ones, even one just promoted.
        live = {address for status in namenodes.values() for address in status.live}
        found = {
            node.name: namenodes[node.name].role if node.name in namenodes else "?" for node in self.plan.namenodes
        }
        for node in self.plan.datanodes:
            found[node.name] = "?" if not namenodes else "live" if str(node.transfer) in live else "not live"
        return found

    async def _missing_for(self, count: int) -> str:
        """Why fewer than `count` DataNodes are usable, in a few words; empty when that many are."""
        statuses = await self.statuses()
        if not statuses:
            return "no NameNode answers"
        for name, status in statuses.items():
            if len(status.live) < count:
                return f"{name} counts {len(status.live)} live DataNodes of {count}"
        active = [status for status in statuses.values() if status.role == "active"]
        if not active:
            return "no NameNode is active"
        return "the active NameNode is in safe mode" if active[0].is_in_safe_mode else ""


async def _never_ready() -> str | None:
    return "it is no server"
