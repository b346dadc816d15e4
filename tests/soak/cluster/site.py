"""The machines of a soak: clients, ZooKeeper and HDFS in the hub's namespace, every node of bmq in one of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import psutil

from bmq.dev.hadoop_configuration import ClusterPlan, DataNodePlan, NameNodePlan
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import NAME, ZooKeeperNodePlan, ZooKeeperPlan, ZooKeeperServer
from bmq.hdfs.config import Address
from testing.cluster import ALL_ROLES, BmqCluster, ClusterNode
from testing.cluster import ENVIRONMENT as CLUSTER_ENVIRONMENT
from testing.namespaces import Network
from testing.processes import JARS, ProcessFailed, eventually
from testing.zookeeper import ZOOKEEPER_JARS
from tests.soak.cluster.logs import log_events, mistakes, partitions_offline
from tests.soak.cluster.memory import NodeMemory
from tests.soak.cluster.plan import Kind
from tests.soak.cluster.roaming import Place
from tests.soak.hazards import HSYNC, disks_of
from tests.soak.served import unserved
from tests.soak.server import COUNTERS, MIB, counters_told
from tests.support.late_calls import LateCalls

DATANODES: Final = 3
NODE_ROLES: Final = (ALL_ROLES, ALL_ROLES, ALL_ROLES, "proxy")
HEAP_MB: Final = 192
SERVED_TIMEOUT_S: Final = 60.0
SETTLED_TIMEOUT_S: Final = 120.0
ENVIRONMENT: Final = {
    "BMQ_HDFS__REPLICATION": str(DATANODES),
    # Filled soon, so that what still grows then is a leak.
    "BMQ_BROKER__TAIL_CACHE_BYTES_MAX": str(8 * MIB),
    "BMQ_BROKER__INDEX_CACHE_BYTES_MAX": str(4 * MIB),
    "BMQ_ROUTER__TAIL_CACHE_BYTES_MAX": str(8 * MIB),
    "BMQ_FETCH__READ_CACHE_BYTES_MAX": str(16 * MIB),
}


class Site:
    """`start` it in the main thread, with which all of it dies. Node ids are places in NODE_ROLES, from 1 on."""

    def __init__(self, directory: Path, network: Network, seed: int, hazards: frozenset[Kind]) -> None:
        self.directory = directory
        self.network = network
        self.zookeeper_address = network.add_service()
        self.hdfs_address = network.add_service()
        self.hdfs = HdfsCluster(
            directory / "hdfs",
            JARS / "hadoop",
            plan=_hdfs_plan(self.hdfs_address),
            properties={"dfs.datanode.hostname": self.hdfs_address, "dfs.namenode.redundancy.considerLoad": "false"},
            heap_mb=HEAP_MB,
        )
        self.zookeeper = ZooKeeperServer(
            directory / "zookeeper",
            ZOOKEEPER_JARS,
            plan=ZooKeeperPlan(ZooKeeperNodePlan(NAME, Address(self.zookeeper_address, 2181))),
        )
        self.disks = disks_of(self.hdfs) if Kind.POWER_LOSS in hazards else ()
        self.late_calls: LateCalls | None = None
        namenode, self.hdfs_addresses = self.hdfs.namenodes[0], (self.hdfs_address,)
        if Kind.LATE_CALLS in hazards:
            namenode = Address(network.add_service(), namenode.port)
            self.hdfs_addresses = (self.hdfs_address, namenode.host)  # type: ignore[assignment]
            self.late_calls = LateCalls(self.hdfs.namenodes[0], Random(seed), namenode)
        kafka = {"BMQ_KAFKA": json.dumps({**json.loads(CLUSTER_ENVIRONMENT["BMQ_KAFKA"]), **HSYNC})}
        self.cluster = BmqCluster(
            directory / "nodes",
            f"hdfs://{namenode}",
            str(self.zookeeper.address),
            "soak",
            environment={**ENVIRONMENT, **(kafka if self.disks else {})},
        )
        for number, roles in enumerate(NODE_ROLES, 1):
            self.cluster.add(roles, host=network.add_host(f"node-{number}"))
        self.places = tuple(
            Place(self.address_of(node), node.kafka_port, partial(getattr, node.process, "started_at"))
            for node in self.cluster.proxies
        )
        self.memory = {node_id: NodeMemory() for node_id in self.cluster.nodes}
        self.counters: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
        self.problems: list[str] = []
        self.start_s: list[float] = []
        # Those that are to run: whoever of them does not has ended by itself.
        self._expected: set[int] = set()

    # -- The whole of it ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises BmqError (a daemon) or ProcessFailed, AssertionError (a node) when it does not come up."""
        for disk in self.disks:
            disk.make()
        await asyncio.gather(self.zookeeper.start(), self.hdfs.start())
        # Of a DataNode's format nothing is synced, and nobody formats while power fails.
        for disk in self.disks:
            disk.sync()
        if self.late_calls is not None:
            await self.late_calls.start()
        for node in self.nodes:
            self._execute(node)
        await asyncio.gather(*(asyncio.to_thread(node.wait_until_ready) for node in self.nodes))
        self._expected.update(self.cluster.nodes)
        await self.wait_settled()

    async def close(self) -> None:
        """Nothing of it runs any more; of the files the logs stay."""
        self._expected.clear()
        self.network.heal()
        await asyncio.to_thread(self.cluster.close)
        for daemon in (*self.zookeeper.daemons, *self.hdfs.daemons):
            await daemon.kill()
        if self.late_calls is not None:
            await self.late_calls.close()
        for disk in self.disks:
            disk.close()
        for data in (*self.hdfs.directory.glob("[nd]n*"), self.zookeeper.directory / "data"):
            shutil.rmtree(data, ignore_errors=True)

    async def make_good(self) -> None:
        """What a fault that went wrong may have left behind as well. Raises ProcessFailed, AssertionError."""
        await asyncio.to_thread(self.network.heal)
        for node in self.nodes:
            if node.is_paused:
                node.resume()
        for node in self.nodes:
            if not node.is_running:
                await self.start_again(node)

    async def wait_settled(self) -> None:
        """Everybody runs, sees everybody else, and every partition is owned. Raises AssertionError, ClusterFailed."""
        await self.hdfs.wait_live(DATANODES)
        await asyncio.to_thread(self.cluster.wait_settled, SETTLED_TIMEOUT_S)

    def wait_served(self, topic: str, partitions: int) -> None:
        """Every partition tells its end: its owner has started it. Raises AssertionError."""
        place, left = self.places[0], dict[int, int | None]()

        def served() -> bool:
            nonlocal left
            left = unserved(topic, partitions, place.port, place.host)
            return not left

        try:
            eventually(served, SERVED_TIMEOUT_S, "every partition tells its end", interval_s=0.1)
        except AssertionError as error:
            raise AssertionError(f"{first_line(error)}; error codes by partition: {left}") from None

    # -- Nodes -------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[ClusterNode]:
        return list(self.cluster.nodes.values())

    def address_of(self, node: ClusterNode) -> str:
        """Its host's, in the network."""
        assert node.host is not None
        return node.host.address

    def end_expected(self, node: ClusterNode) -> None:
        """It is about to be ended; what it counted until now is kept."""
        self._expected.discard(node.node_id)
        if node.is_healthy:
            self._add_counters(node)

    async def start_again(self, node: ClusterNode) -> None:
        """As a supervisor would. Raises ProcessFailed, AssertionError."""
        began_s = time.monotonic()
        self._execute(node)
        await asyncio.to_thread(node.wait_until_ready)
        self.start_s.append(time.monotonic() - began_s)
        self._expected.add(node.node_id)

    def _execute(self, node: ClusterNode) -> None:
        """In this thread, the main one: the process dies with the thread that started it."""
        self.memory[node.node_id].begin()
        node.execute()

    def add_counters(self) -> None:
        """At the end: of those that still run."""
        for node in self.cluster.healthy:
            self._add_counters(node)

    def _add_counters(self, node: ClusterNode) -> None:
        self.counters.update(counters_told(lambda: node.get("/metrics")))

    async def stop_all(self) -> None:
        """In order, as an operator would end the cluster: the last one has nobody to hand over to."""
        self._expected.clear()
        for node in self.nodes:
            try:
                await asyncio.to_thread(node.stop)
            except (ProcessFailed, AssertionError) as error:
                self.problems.append(f"node {node.node_id} did not stop in order: {first_line(error)}")

    # -- Watching ----------------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Note the nodes' sizes, and start again whoever ended by itself."""
        for node in self.nodes:
            self._sample(node)
            if node.node_id in self._expected and not node.is_running:
                self._expected.discard(node.node_id)
                self.problems.append(
                    f"node {node.node_id} ended by itself with {node.process.exit_code}: {_last_words(node)}"
                )
                try:
                    await self.start_again(node)
                except (ProcessFailed, AssertionError) as error:
                    self.problems.append(f"node {node.node_id} did not start again: {first_line(error)}")

    def _sample(self, node: ClusterNode) -> None:
        if not node.is_running:
            return
        try:
            process = psutil.Process(node.process.pid)
            size_mib = process.memory_info().rss / MIB
        except psutil.NoSuchProcess:
            return
        self.memory[node.node_id].add(time.monotonic() - node.process.started_at, size_mib)

    def log_events(self) -> Counter[str]:
        """How often each event of level warning or above was logged by the nodes, as `level event`."""
        return log_events(self.nodes)

    def partitions_offline(self) -> list[str]:
        """With the reasons that the nodes gave; none of what happens here may lead to that."""
        return partitions_offline(self.nodes)

    def tracebacks(self) -> list[str]:
        """What should not be in any log."""
        return mistakes(self.nodes)


def first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _last_words(node: ClusterNode) -> str:
    lines = node.process.log_of_this_run().splitlines()
    own = [line for line in lines if line.startswith("bmq: ")]
    return (own or lines or ["it said nothing"])[-1]


def _hdfs_plan(address: str) -> ClusterPlan:
    def at(port: int) -> Address:
        return Address(address, port)

    return ClusterPlan(
        (NameNodePlan("nn0", at(8020), at(9870)),),
        tuple(DataNodePlan(f"dn{i}", at(9100 + i), at(9200 + i), at(9300 + i)) for i in range(DATANODES)),
    )
