"""One soak: a cluster of its own, a server on it, clients, faults, and what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Final

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import Address
from testing.hdfs import until
from testing.processes import JARS, ProcessFailed
from tests.soak.clients import GROUPS, Clients, Load, create_topic, judge
from tests.soak.faults import QUIET_END_S, Fault, Kind, Track, is_due, plan
from tests.soak.hazards import HSYNC, LATE_S, LATE_SHARE, disks_of, lose_power
from tests.soak.journal import Journal
from tests.soak.kerberized import KerberizedHdfs, by_name
from tests.soak.logins import ANYBODY, Logins, Secured
from tests.soak.memory import growth_problems
from tests.soak.queues.groups import SERVER_CONFIGS, configure_groups, make_topics
from tests.soak.queues.ledger import Span
from tests.soak.queues.load import GROUPS as QUEUE_GROUPS
from tests.soak.queues.load import TOPICS as QUEUE_TOPICS
from tests.soak.queues.load import Queues
from tests.soak.queues.plan import RECORDS_PER_S
from tests.soak.report import Report
from tests.soak.served import unserved
from tests.soak.server import HdfsBmqServer
from tests.soak.stalls import Trouble
from tests.support.late_calls import LateCalls

DATANODES: Final = 3
# Hadoop's own settings, so that the NameNode goes on naming a DataNode that hangs; but after its restart it waits five
# seconds instead of thirty before it takes writes, or a short soak would be little else.
PROPERTIES: Final = {"dfs.namenode.safemode.extension": "5000"}
LOAD: Final = Load("soak", partitions=6, records_per_s=400, producers=({}, {}), members=({}, {}))
SEGMENT_BYTES: Final = 2 * 1024 * 1024  # a roll of each partition every dozen seconds
MEMORY_MIB_MAX: Final = 600.0
# By themselves the caches would take a share of the machine.
READ_CACHE_BYTES_MAX: Final = 256 * 1024 * 1024
TAIL_CACHE_BYTES_MAX: Final = 64 * 1024 * 1024
# Without caches, which the last reading of all fills: between the medians of the first and of the last quarter of a run that is long
# enough to have warm servers in both.
GROWTH_MIB_MAX: Final = 60.0
GROWTH_SEEN_S_MIN: Final = 600.0
WATCH_INTERVAL_S: Final = 0.5
OWN_MEMORY_INTERVAL_S: Final = 4.0
# Of the time of a run: a server that is away or stands still is not asked.
OWN_MEMORY_SHARE_MIN: Final = 0.25
# A start gives up when a DataNode that alone has what it reads stands still for longer than its own minute.
START_TIMEOUT_S: Final = 120.0
START_PAUSE_S: Final = 1.0
HEAL_TIMEOUT_S: Final = 200.0
# After a power loss the NameNode has to recover leases, and others may be hurt meanwhile.
SERVED_TIMEOUT_S: Final = 180.0
# A run in which little happened proves little.
RECORDS_SHARE_MIN: Final = 0.5
# Share sessions end with them.
OUTAGES: Final = frozenset({Kind.SERVER_KILL, Kind.SERVER_STANDSTILL})


class Soak:
    """Everything that runs. Violations go into `report` as they are found.

    `hazards`: faults beside the usual ones; they slow the whole run down, since everything is synced where power is lost,
    and passes through a proxy where calls are late. `is_secured`: the server has TLS, logins by SCRAM and ACLs.
    `is_kerberized`: HDFS has Kerberos, and tickets and tokens that soon end.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        minutes: float,
        hazards: frozenset[Kind] = frozenset(),
        *,
        is_secured: bool = False,
        is_kerberized: bool = False,
    ) -> None:
        self.report = Report(seed, minutes)
        self._duration_s = minutes * 60
        self._plan = plan(seed, self._duration_s, DATANODES, hazards)
        self._kerberized = KerberizedHdfs(directory / "hdfs", DATANODES, PROPERTIES) if is_kerberized else None
        if self._kerberized is None:
            self._cluster = HdfsCluster(directory / "hdfs", JARS / "hadoop", datanodes=DATANODES, properties=PROPERTIES)
        else:
            self._cluster = self._kerberized.hdfs
        self._late_calls = self._proxy(Random(seed)) if Kind.LATE_CALLS in hazards else None
        self._disks = disks_of(self._cluster) if Kind.POWER_LOSS in hazards else ()
        self._directory = directory
        self._secured = Secured(directory / "certificates") if is_secured else None
        self._logins: Logins = self._secured or ANYBODY
        self._is_serving = False

    def _proxy(self, random: Random) -> LateCalls:
        if self._kerberized is None:
            return LateCalls(self._cluster.namenodes[0], random)
        return LateCalls(self._kerberized.namenode, random, authentication=self._kerberized.login)

    async def run(self) -> Report:
        try:
            for disk in self._disks:
                disk.make()
            async with AsyncExitStack() as stack:
                running = self._cluster if self._kerberized is None else self._kerberized.running()
                await stack.enter_async_context(running)
                # Of a DataNode's format nothing is synced, and nobody formats while power fails.
                for disk in self._disks:
                    disk.sync()
                namenode = self._cluster.namenodes[0]
                if self._late_calls is not None:
                    namenode = (await stack.enter_async_context(self._late_calls)).address
                await self._serve(namenode if self._kerberized is None else by_name(namenode))
        finally:
            for disk in self._disks:
                disk.close()
        return self.report

    async def _serve(self, namenode: Address) -> None:
        environment = {
            "BMQ_FETCH__READ_CACHE_BYTES_MAX": str(READ_CACHE_BYTES_MAX),
            "BMQ_BROKER__TAIL_CACHE_BYTES_MAX": str(TAIL_CACHE_BYTES_MAX),
        }
        self._server = HdfsBmqServer(
            self._directory / "server",
            namenode,
            "/bmq",
            environment,
            self._secured,
            has_extras=self._kerberized is not None,
        )
        configs = {**SERVER_CONFIGS, **(HSYNC if self._disks else {})}
        if self._secured is not None:
            configs |= self._secured.configs(self._server.port)
            self._server.set_environment(self._secured.environment)
            await asyncio.to_thread(self._secured.make_administrator, self._server.directory, self._server.store)
        self._server.set_environment({"BMQ_KAFKA": json.dumps(configs)})
        try:
            await self._on_cluster()
        finally:
            await asyncio.to_thread(self._server.close)

    async def _on_cluster(self) -> None:
        await self._start_server()
        bootstrap, logins = self._server.bootstrap, self._logins
        if self._secured is not None:
            topics, groups = (LOAD.topic, *QUEUE_TOPICS), (*GROUPS, *QUEUE_GROUPS)
            await asyncio.to_thread(self._secured.make_users, bootstrap, topics, groups)
        await asyncio.to_thread(create_topic, bootstrap, LOAD, SEGMENT_BYTES, logins=logins)
        await asyncio.to_thread(make_topics, bootstrap, SEGMENT_BYTES, logins)
        await asyncio.to_thread(configure_groups, self._server.port, logins)
        clients = Clients.make(bootstrap, LOAD, Journal(self._directory / "clients.log"), logins)
        queues = Queues(bootstrap, self.report.seed, self._directory / "members", logins)
        watches = [asyncio.create_task(watch) for watch in (self._watch_server(), self._watch_memory())]
        try:
            clients.start()
            queues.start()
            self.report.began_s = began_s = time.monotonic()
            await asyncio.gather(self._track(self._plan.datanodes, began_s), self._track(self._plan.others, began_s))
            await asyncio.sleep(max(QUIET_END_S, began_s + self._duration_s - time.monotonic()))
            await self._wait_served()
            await asyncio.to_thread(self._judge, clients, queues)
        except Exception as error:
            # What was found until here is worth more than a traceback.
            self.report.violations.append(f"the soak could not go on: {type(error).__name__}: {error}")
        finally:
            for watch in watches:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch
            await asyncio.to_thread(clients.close)
            await asyncio.to_thread(queues.close)
            await asyncio.to_thread(self._server.add_counters)
            self._account(clients)

    # --- the server

    async def _start_server(self) -> None:
        """As a supervisor would: one that gives its start up is started again. Raises ProcessFailed in the end."""
        began_s = time.monotonic()
        while True:
            # In this thread: the process dies with the thread that started it.
            self._server.execute()
            try:
                await asyncio.to_thread(self._server.wait_until_ready)
                break
            except ProcessFailed as error:
                await asyncio.to_thread(self._server.close)
                self.report.failed_starts.append(str(error).splitlines()[-1])
                if time.monotonic() - began_s > START_TIMEOUT_S:
                    raise
                await asyncio.sleep(START_PAUSE_S)
        self.report.start_s.append(time.monotonic() - began_s)
        self._is_serving = True

    async def _wait_served(self) -> None:
        await until(lambda: asyncio.to_thread(self._is_all_served), SERVED_TIMEOUT_S, "every partition tells its end")

    def _is_all_served(self) -> bool:
        return not unserved(LOAD.topic, LOAD.partitions, self._server.port, logins=self._logins)

    async def _watch_server(self) -> None:
        """Its memory; and that it ends only when we kill it."""
        while True:
            self._server.sample_memory()
            if self._is_serving and not self._server.is_running:
                self._is_serving = False
                process = self._server.process
                last_line = str(process).splitlines()[-1]
                self.report.violations.append(f"the server ended by itself with {process.exit_code}: {last_line}")
                await self._start_server()
            await asyncio.sleep(WATCH_INTERVAL_S)

    async def _watch_memory(self) -> None:
        """Without its caches, for which it has to be asked."""
        while True:
            await asyncio.to_thread(self._server.sample_own_memory)
            await asyncio.sleep(OWN_MEMORY_INTERVAL_S)

    # --- faults

    async def _track(self, track: Track, began_s: float) -> None:
        for place, fault in enumerate(track.faults):
            if not is_due(track, place, time.monotonic() - began_s, self._duration_s):
                return
            await asyncio.sleep(fault.after_s)
            begin_s = time.monotonic()
            try:
                heal_s = SERVED_TIMEOUT_S if fault.kind is Kind.POWER_LOSS else HEAL_TIMEOUT_S
                async with asyncio.timeout(fault.lasts_s + heal_s):
                    await self._PERFORMERS[fault.kind](self, fault)
            except Exception as error:
                self.report.violations.append(
                    f"all was not well again after {fault.kind} at {begin_s - began_s:.1f} s: "
                    f"{type(error).__name__}: {error}"
                )
            # Clients and faults go by the same clock.
            self.report.troubles.append(Trouble(fault.kind, begin_s, time.monotonic()))
            print(f"  {begin_s - began_s:7.1f} s {fault.kind} for {time.monotonic() - begin_s:.1f} s", flush=True)

    async def _kill_datanode(self, fault: Fault) -> None:
        node = self._cluster.datanode(fault.target)
        await node.kill()
        await asyncio.sleep(fault.lasts_s)
        await node.start()
        await self._cluster.wait_live(DATANODES)

    async def _pause_datanode(self, fault: Fault) -> None:
        node = self._cluster.datanode(fault.target)
        await node.pause()
        await asyncio.sleep(fault.lasts_s)
        await node.resume()
        await self._cluster.wait_live(DATANODES)

    async def _restart_datanode(self, fault: Fault) -> None:
        await self._cluster.datanode(fault.target).restart()
        await self._cluster.wait_live(DATANODES)

    async def _kill_server(self, fault: Fault) -> None:
        await asyncio.to_thread(self._server.add_counters)
        self._is_serving = False
        await asyncio.to_thread(self._server.kill)
        await asyncio.sleep(fault.lasts_s)
        await self._start_server()

    async def _restart_namenode(self, fault: Fault) -> None:
        namenode = self._cluster.namenode(0)
        await namenode.kill()
        await asyncio.sleep(fault.lasts_s)
        await namenode.start()
        await self._cluster.wait_live(DATANODES)

    async def _pause_server(self, fault: Fault) -> None:
        self._server.process.pause()
        await asyncio.sleep(fault.lasts_s)
        self._server.process.resume()

    async def _delay_calls(self, fault: Fault) -> None:
        """Until it is over calls are kept back; they are carried out when their times come, whatever else happens then."""
        assert self._late_calls is not None
        self._late_calls.begin(LATE_SHARE, LATE_S)
        await asyncio.sleep(fault.lasts_s)
        self._late_calls.end()

    async def _lose_power(self, fault: Fault) -> None:
        await lose_power(self._cluster, self._disks, fault.lasts_s)
        await self._cluster.wait_live(DATANODES)
        # HDFS does not sync what it closes by itself; until we have, the next power loss could cost it.
        await self._wait_served()

    _PERFORMERS: Final[dict[Kind, Callable[[Soak, Fault], Awaitable[None]]]] = {
        Kind.DATANODE_KILL: _kill_datanode,
        Kind.DATANODE_PAUSE: _pause_datanode,
        Kind.DATANODE_RESTART: _restart_datanode,
        Kind.SERVER_KILL: _kill_server,
        Kind.NAMENODE_RESTART: _restart_namenode,
        Kind.SERVER_STANDSTILL: _pause_server,
        Kind.DATANODE_STANDSTILL: _pause_datanode,
        Kind.LATE_CALLS: _delay_calls,
        Kind.POWER_LOSS: _lose_power,
    }

    # --- what came of it

    def _judge(self, clients: Clients, queues: Queues) -> None:
        judgement = judge(clients, self._server.bootstrap, self._logins)
        self.report.violations += judgement.violations
        self.report.read_count = judgement.read_count
        outages = [Span(one.begin_s, one.end_s) for one in self.report.troubles if one.kind in OUTAGES]
        findings = queues.judge(self._server.get, outages)
        self.report.violations += findings.violations
        self.report.queued_count = findings.acknowledged_count
        self.report.share_groups = findings.figures

    def _account(self, clients: Clients) -> None:
        report = self.report
        report.sent_count = clients.sent_count
        report.acknowledged_count = clients.acknowledged_count
        report.stalls = clients.produce_stalls
        report.group_again_count = clients.group.again_count
        report.group_commit_count = clients.group.commit_count
        report.counters = self._server.counters
        if self._late_calls is not None:
            report.late_calls = self._late_calls.delivered
        report.memory_mib = self._server.memory_mib
        report.own_memory_mib = self._server.own_memory_mib
        greatest_mib = max(report.memory_mib, default=0.0)
        if greatest_mib > MEMORY_MIB_MAX:
            report.violations.append(f"the server used {greatest_mib:.0f} MiB; {MEMORY_MIB_MAX:g} are allowed")
        if self._duration_s >= GROWTH_SEEN_S_MIN:
            wanted = OWN_MEMORY_SHARE_MIN * self._duration_s / OWN_MEMORY_INTERVAL_S
            report.violations += growth_problems(report.own_memory_mib, wanted, GROWTH_MIB_MAX)
        wanted = RECORDS_SHARE_MIN * len(LOAD.producers) * LOAD.records_per_s * self._duration_s
        if report.acknowledged_count < wanted:
            report.violations.append(f"only {report.acknowledged_count} records were acknowledged, of {wanted:.0f}")
        wanted = RECORDS_SHARE_MIN * RECORDS_PER_S * self._duration_s
        if report.queued_count < wanted:
            report.violations.append(f"only {report.queued_count} records came to share groups, of {wanted:.0f}")
        if "Traceback (most recent call last)" in self._server.log_file.read_text(errors="replace"):
            report.violations.append(f"the server logged a traceback: {self._server.log_file}")
        if report.group_commit_count == 0:
            report.violations.append("the group never committed")
