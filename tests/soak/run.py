"""One soak: a cluster of its own, a server on it, clients, faults, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from tests.soak.faults import QUIET_END_S, Fault, Kind, is_due, plan
from tests.soak.history import compare, differences
from tests.soak.load import Client, GroupProgress, Member, Reader, SteadyProducer, run_all
from tests.soak.report import Report
from tests.soak.server import HdfsBmqServer
from tests.soak.stalls import Trouble
from tests.support.processes import JARS, ProcessFailed

DATANODES: Final = 3
# Hadoop's own settings, so that the NameNode goes on naming a DataNode that hangs; but after its restart it waits five
# seconds instead of thirty before it takes writes, or a short soak would be little else.
PROPERTIES: Final = {"dfs.namenode.safemode.extension": "5000"}
TOPIC: Final = "soak"
PARTITIONS: Final = 6
PRODUCERS: Final = 2
MEMBERS: Final = 2
RECORDS_PER_S: Final = 400  # of each producer
SEGMENT_BYTES: Final = 2 * 1024 * 1024  # a roll of each partition every dozen seconds
MEMORY_MIB_MAX: Final = 600.0
WATCH_INTERVAL_S: Final = 0.5
START_TIMEOUT_S: Final = 60.0
START_PAUSE_S: Final = 1.0
HEAL_TIMEOUT_S: Final = 90.0
READ_TIMEOUT_S: Final = 120.0
LIVE_READERS_TIMEOUT_S: Final = 120.0
# A run in which little happened proves little.
RECORDS_SHARE_MIN: Final = 0.5


class Soak:
    """Everything that runs. Violations go into `report` as they are found."""

    def __init__(self, directory: Path, seed: int, minutes: float) -> None:
        self.report = Report(seed, minutes)
        self._duration_s = minutes * 60
        self._plan = plan(seed, self._duration_s, DATANODES)
        self._cluster = HdfsCluster(directory / "hdfs", JARS / "hadoop", datanodes=DATANODES, properties=PROPERTIES)
        self._directory = directory
        self._is_serving = False

    async def run(self) -> Report:
        async with self._cluster:
            self._server = HdfsBmqServer(self._directory / "server", self._cluster.namenodes[0], "/bmq")
            try:
                await self._on_cluster()
            finally:
                await asyncio.to_thread(self._server.close)
        return self.report

    async def _on_cluster(self) -> None:
        await self._start_server()
        await asyncio.to_thread(create_topic, self._server.bootstrap)
        clients = Clients.make(self._server.bootstrap)
        watch = asyncio.create_task(self._watch_server())
        try:
            for client in clients.all:
                client.start()
            self.report.began_s = began_s = time.monotonic()
            await asyncio.gather(self._track(self._plan.datanodes, began_s), self._track(self._plan.others, began_s))
            await asyncio.sleep(max(QUIET_END_S, began_s + self._duration_s - time.monotonic()))
            await asyncio.to_thread(self._judge, clients)
        except Exception as error:
            # What was found until here is worth more than a traceback.
            self.report.violations.append(f"the soak could not go on: {type(error).__name__}: {error}")
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
            await asyncio.to_thread(clients.close)
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

    # --- faults

    async def _track(self, faults: tuple[Fault, ...], began_s: float) -> None:
        for place, fault in enumerate(faults):
            if not is_due(fault, place, time.monotonic() - began_s, self._duration_s):
                return
            await asyncio.sleep(fault.after_s)
            begin_s = time.monotonic()
            try:
                async with asyncio.timeout(fault.lasts_s + HEAL_TIMEOUT_S):
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

    _PERFORMERS: Final[dict[Kind, Callable[[Soak, Fault], Awaitable[None]]]] = {
        Kind.DATANODE_KILL: _kill_datanode,
        Kind.DATANODE_PAUSE: _pause_datanode,
        Kind.DATANODE_RESTART: _restart_datanode,
        Kind.SERVER_KILL: _kill_server,
        Kind.NAMENODE_RESTART: _restart_namenode,
    }

    # --- what came of it

    def _judge(self, clients: Clients) -> None:
        """End the producers, let the readers come to the end, read everything once more, and compare."""
        violations = self.report.violations
        run_all(list(clients.producers), lambda client: client.finish())
        final = Reader(self._server.bootstrap, TOPIC, PARTITIONS, "final reader")
        try:
            ends = final.ends()
            final.read_to(ends, READ_TIMEOUT_S)
        finally:
            final.close()
        clients.wait_until_read(ends)
        run_all(list(clients.readers), lambda client: client.finish())
        for client in (*clients.all, final):
            violations += client.failures
        self.report.read_count = sum(len(reading) for reading in final.readings.values())
        for partition, reading in final.readings.items():
            for producer in clients.producers:
                violations += compare(producer.acknowledged, reading)
            live = clients.reader.readings[partition]
            violations += [*live.problems, *differences(live, reading)]
            if len(live) < ends[partition]:
                violations.append(f"the live reader stopped at {len(live)} of {ends[partition]} in {partition}")
            if clients.group.next_offsets[partition] < ends[partition]:
                got = clients.group.next_offsets[partition]
                violations.append(f"the group stopped at {got} of {ends[partition]} in partition {partition}")

    def _account(self, clients: Clients) -> None:
        report = self.report
        report.sent_count = sum(producer.sent_count for producer in clients.producers)
        report.acknowledged_count = sum(producer.acknowledged.count for producer in clients.producers)
        report.stalls = [stall for producer in clients.producers for stall in producer.watch.stalls]
        report.group_again_count = clients.group.again_count
        report.group_commit_count = clients.group.commit_count
        report.counters = self._server.counters
        report.memory_mib = self._server.memory_mib
        greatest_mib = max(report.memory_mib, default=0.0)
        if greatest_mib > MEMORY_MIB_MAX:
            report.violations.append(f"the server used {greatest_mib:.0f} MiB; {MEMORY_MIB_MAX:g} are allowed")
        wanted = RECORDS_SHARE_MIN * PRODUCERS * RECORDS_PER_S * self._duration_s
        if report.acknowledged_count < wanted:
            report.violations.append(f"only {report.acknowledged_count} records were acknowledged, of {wanted:.0f}")
        if "Traceback (most recent call last)" in self._server.log_file.read_text(errors="replace"):
            report.violations.append(f"the server logged a traceback: {self._server.log_file}")
        if report.group_commit_count == 0:
            report.violations.append("the group never committed")


@dataclass(frozen=True, slots=True)
class Clients:
    producers: tuple[SteadyProducer, ...]
    reader: Reader
    members: tuple[Member, ...]
    group: GroupProgress

    @classmethod
    def make(cls, bootstrap: str) -> Clients:
        group = GroupProgress(PARTITIONS)
        return cls(
            tuple(SteadyProducer(bootstrap, TOPIC, number, PARTITIONS, RECORDS_PER_S) for number in range(PRODUCERS)),
            Reader(bootstrap, TOPIC, PARTITIONS),
            tuple(Member(bootstrap, TOPIC, number, group) for number in range(MEMBERS)),
            group,
        )

    @property
    def readers(self) -> tuple[Client, ...]:
        return (self.reader, *self.members)

    @property
    def all(self) -> tuple[Client, ...]:
        return (*self.producers, *self.readers)

    def wait_until_read(self, ends: dict[int, int]) -> None:
        """Readers that were there all the time come to the end soon; whether they did is judged by others."""
        deadline_s = time.monotonic() + LIVE_READERS_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if all(
                len(self.reader.readings[partition]) >= end and self.group.next_offsets[partition] >= end
                for partition, end in ends.items()
            ):
                return
            time.sleep(0.1)

    def close(self) -> None:
        for client in self.all:
            client.finish()
        self.reader.close()
        for member in self.members:
            member.close()


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, config={"segment.bytes": str(SEGMENT_BYTES)})
    admin.create_topics([topic])[TOPIC].result(timeout=30)
