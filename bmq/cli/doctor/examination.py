"""All checks of `bmq doctor`: the quick ones beside each other, then what would disturb or needs them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from dataclasses import replace as replaced
from importlib.metadata import version
from random import Random
from typing import Final

import httpx

from bmq.cli.doctor.checks import Check, run_checks
from bmq.cli.doctor.finding import Finding, error, not_applicable, ok, warning
from bmq.cli.doctor.machine import Machine
from bmq.cli.doctor.probes.appends import StoreSeen, append_probe
from bmq.cli.doctor.probes.clock import ClockWatch
from bmq.cli.doctor.probes.cluster import NodeAsker, SeenCluster
from bmq.cli.doctor.probes.listeners import certificates, listeners
from bmq.cli.doctor.probes.machine import data_directory, data_disk, memory, open_files_limit
from bmq.cli.doctor.probes.names import names_in_use, resolved
from bmq.cli.doctor.probes.ports import addresses_in_use, listen_addresses
from bmq.cli.doctor.probes.zookeeper import zookeeper_servers
from bmq.cli.doctor.verdicts import access, appends, clock, hdfs, nodes
from bmq.cli.doctor.verdicts import certificates as certificate_verdicts
from bmq.cli.doctor.verdicts import machine as machine_verdicts
from bmq.cli.doctor.verdicts import names as name_verdicts
from bmq.cli.doctor.verdicts import ports as port_verdicts
from bmq.cli.doctor.verdicts import zookeeper as zookeeper_verdicts
from bmq.dataclass import dataclass
from bmq.hdfs.cluster_report import namenode_reports
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.location import is_hdfs, located, system_user
from bmq.log.store import SegmentStore, StoreError
from bmq.rest_client.login import RestLogin
from bmq.server.setting_checks import is_any_address, misspelt_variables
from bmq.server.settings import BadSettings, Settings, require_usable_addresses
from bmq.server.tracing import check_tracing

SETTINGS: Final = "settings"
QUICK_MAX_S: Final = 5.0
ANSWER_MAX_S: Final = 3.0
ANSWERS_MAX_S: Final = 15.0
"""Of nodes, NameNodes and ZooKeeper, several answers after each other."""
APPENDS_MAX_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The server to examine. `rest`: the address that the user gave, empty: the one of the settings. `has_append_probe`: the store
    may be written to.
    """

    settings: Settings
    rest: str = ""
    login: RestLogin = field(default_factory=RestLogin)
    has_append_probe: bool = True

    @property
    def is_node(self) -> bool:
        return bool(self.settings.zookeeper)

    @property
    def rest_url(self) -> str:
        """Where the node of this machine is asked."""
        if self.rest:
            return self.rest if "://" in self.rest else f"http://{self.rest}"
        settings = self.settings
        address = settings.rest_advertised or settings.rest
        if is_any_address(address):
            host = "[::1]" if "[" in address else "127.0.0.1"
            address = f"{host}:{address.rpartition(':')[2]}"
        return f"{settings.rest_security.protocol.value}://{address}"


def hdfs_store(config: HdfsConfig, random: Random) -> SegmentStore:
    """A store that makes nothing when it is opened."""
    from bmq.hdfs.store import HdfsStore

    return HdfsStore(replaced(config, retry_max_s=QUICK_MAX_S), random)


class Examination:
    """Made for one run of `findings`. `transport`: of requests to nodes in place of sockets; `open_store`: of the store on
    HDFS; for tests.
    """

    def __init__(
        self,
        subject: Subject,
        machine: Machine,
        random: Random,
        transport: httpx.BaseTransport | None = None,
        open_store: Callable[[HdfsConfig, Random], SegmentStore] = hdfs_store,
    ) -> None:
        self._subject = subject
        self._settings = subject.settings
        self._machine = machine
        self._random = random
        self._transport = transport
        self._open_store = open_store
        self._cluster = SeenCluster()
        self._is_running = False
        self._why_no_appends = "" if subject.has_append_probe else "they are left out here"
        self._store_seen = StoreSeen(appends.AppendProbe(skipped="the store is a local directory"))

    async def findings(self) -> list[Finding]:
        """In the order of the checks, the most basic first. Ends within 40 s, whatever hangs."""
        watch = ClockWatch(self._machine)
        watching = asyncio.create_task(watch.watch())
        try:
            first = await run_checks(self._first_checks())
            then = await run_checks(self._later_checks())
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        watch.look()
        clocks = [each for each in (*self._cluster.clocks, self._store_seen.clock) if each is not None]
        jumps = clock.jump_findings(watch.offsets_ms, is_synchronized=self._machine.is_clock_synchronized())
        return [
            *self._settings_findings(),
            *clock.clock_findings(clocks),
            *jumps,
            *then,
            *first,
            *nodes.node_findings(self._cluster.nodes, is_running_here=self._is_running),
            nodes.version_finding(self._cluster.nodes, version("bmq")),
        ]

    # --- checks

    def _first_checks(self) -> Sequence[Check]:
        return (
            Check(port_verdicts.CHECK, QUICK_MAX_S, self._ports),
            Check(access.CHECK, QUICK_MAX_S, self._access),
            Check(certificate_verdicts.CHECK, QUICK_MAX_S, self._certificates),
            Check(machine_verdicts.OPEN_FILES, QUICK_MAX_S, self._open_files),
            Check(machine_verdicts.MEMORY, QUICK_MAX_S, self._memory),
            Check(machine_verdicts.DATA_DISK, ANSWERS_MAX_S, self._data_disk),
            Check(zookeeper_verdicts.CHECK, ANSWERS_MAX_S, self._zookeeper),
            Check(hdfs.NAMENODES, ANSWERS_MAX_S, self._hdfs),
            Check(nodes.NODES, ANSWERS_MAX_S, self._nodes),
        )

    def _later_checks(self) -> Sequence[Check]:
        return (
            Check(name_verdicts.CHECK, QUICK_MAX_S, self._names),
            Check(appends.CHECK, APPENDS_MAX_S, self._appends),
        )

    def _settings_findings(self) -> list[Finding]:
        found = []
        try:
            require_usable_addresses(self._settings, is_node=self._subject.is_node)
            check_tracing(self._settings)
        except BadSettings as wrong:
            found.append(
                error(SETTINGS, str(wrong), "correct it; `bmq config show` prints where each value comes from")
            )
        for variable, setting in misspelt_variables(os.environ, Settings.model_fields):
            found.append(warning(SETTINGS, f"the variable {variable} names no setting", f"did you mean {setting}?"))
        return found or [ok(SETTINGS, "a server can start with them")]

    async def _ports(self) -> Sequence[Finding]:
        addresses = addresses_in_use(self._settings, is_node=self._subject.is_node)
        seen = await asyncio.to_thread(listen_addresses, addresses, self._machine.root)
        self._is_running = any(each.state is port_verdicts.PortState.OURS for each in seen)
        return port_verdicts.port_findings(seen)

    async def _access(self) -> Sequence[Finding]:
        return access.access_findings(listeners(self._settings, is_node=self._subject.is_node))

    async def _certificates(self) -> Sequence[Finding]:
        found = await asyncio.to_thread(
            lambda: certificates(self._settings, self._machine, is_node=self._subject.is_node)
        )
        return certificate_verdicts.certificate_findings(found)

    async def _open_files(self) -> Sequence[Finding]:
        limit = await asyncio.to_thread(open_files_limit, self._settings, self._machine)
        return [machine_verdicts.open_files_finding(limit)]

    async def _memory(self) -> Sequence[Finding]:
        return machine_verdicts.memory_findings(await asyncio.to_thread(memory, self._settings, self._machine))

    async def _data_disk(self) -> Sequence[Finding]:
        directory = data_directory(self._settings)
        disk = None if directory is None else await asyncio.to_thread(data_disk, directory, self._machine)
        return machine_verdicts.data_disk_findings(disk)

    async def _zookeeper(self) -> Sequence[Finding]:
        if not self._settings.zookeeper:
            return [not_applicable(zookeeper_verdicts.CHECK, "the settings name none: this is no node of a cluster")]
        return zookeeper_verdicts.zookeeper_findings(await zookeeper_servers(self._settings.zookeeper, self._machine))

    async def _hdfs(self) -> Sequence[Finding]:
        if not is_hdfs(self._settings.store):
            return hdfs.without_hdfs()
        config = self._hdfs_config()
        reports = await namenode_reports(config, limit_s=ANSWER_MAX_S, elapsed_s=self._machine.elapsed_s)
        active = [report for report in reports if report.is_active]
        if not active:
            self._why_no_appends = "no active NameNode answers"
        elif active[0].is_in_safe_mode:
            self._why_no_appends = "the NameNode is in safe mode"
        return hdfs.hdfs_findings(reports, replication=config.replication)

    async def _nodes(self) -> Sequence[Finding]:
        asker = NodeAsker(self._subject.login, self._machine, self._transport)
        self._cluster = await asker.cluster(self._subject.rest_url, is_named=bool(self._subject.rest))
        return ()

    async def _names(self) -> Sequence[Finding]:
        config = self._hdfs_config() if is_hdfs(self._settings.store) else None
        own = names_in_use(self._settings, config, is_node=self._subject.is_node)
        known = {name.name for name in own}
        others = [name for name in self._cluster.names if name.name not in known]
        return name_verdicts.name_findings(await resolved([*own, *others], self._machine))

    async def _appends(self) -> Sequence[Finding]:
        if is_hdfs(self._settings.store):
            await self._append_to_hdfs()
        return appends.append_findings(self._store_seen.appends)

    async def _append_to_hdfs(self) -> None:
        if self._why_no_appends:
            self._store_seen = StoreSeen(appends.AppendProbe(skipped=self._why_no_appends))
            return
        config = self._hdfs_config()
        store = self._open_store(config, self._random)
        try:
            if await store.status("") is None:
                why = f"{config.root} does not exist yet: the first node makes it"
                self._store_seen = StoreSeen(appends.AppendProbe(skipped=why))
                return
            name = f"{self._random.getrandbits(64):016x}"
            self._store_seen = await append_probe(store, name, self._machine)
        except StoreError as failure:
            self._store_seen = StoreSeen(appends.AppendProbe(trouble=str(failure)))
        finally:
            await store.close()

    def _hdfs_config(self) -> HdfsConfig:
        """Raises BadLocation, BadSecurity."""
        return located(
            self._settings.store,
            self._settings.hdfs,
            system_user=system_user(),
            hadoop=hadoop_properties(os.environ),
        )
