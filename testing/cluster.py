"""A cluster of `bmq node` processes over a real HDFS and a real ZooKeeper, each of which can be hurt.

    cluster = BmqCluster(directory, hdfs_url, zookeeper_address, "test_name")
    nodes = [cluster.add() for _ in range(3)]
    cluster.start()
    cluster.owner_of("topic", 0).kill()
    cluster.close()

A cluster has an HDFS directory and a ZooKeeper chroot of its own, so any number of them share the daemons. Nodes keep
their addresses over a restart, as they do in production.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil

from bmq.dev.ports import pick_ports
from testing.hdfs import fresh_root
from testing.namespaces import Host
from testing.patience import Patience
from testing.processes import ManagedProcess, ProcessFailed, eventually
from testing.servers import server_command

HOST: Final = "127.0.0.1"
# Kafka, internal, REST: nobody else is there.
PORTS_OF_OWN_HOST: Final = (9092, 9093, 8080)
ALL_ROLES: Final = "proxy,broker,coordinator,controller"
READY_LINE: Final = r"^bmq node ready id=(\d+) kafka=(-|\S+:\d+) internal=(\S+:\d+) rest=(\S+:\d+)$"
READY_WAIT_S: Final = 60.0
SETTLED_WAIT_S: Final = 40.0
# A node is given three minutes to hand its partitions over; the rest is for the process to go on two busy cores.
STOP_WAIT_S: Final = 240.0
REST_WAIT_S: Final = 15.0
GET_WAIT_S: Final = 30.0
GET_INTERVAL_S: Final = 0.1
NODE_SESSION_S: Final = 15.0
# Two DataNodes; few shards, because each is a partition that has to be started when a node dies; short sessions, because a
# node that comes back after a kill waits until the one it had is over.
ENVIRONMENT: Final = {
    "BMQ_CLUSTER__ZOOKEEPER_SESSION_MS": "3000",
    # A node that gets no processor for two seconds is none that died; one that hangs is noticed by the end of its session.
    "BMQ_CLUSTER__NODE_SESSION_TIMEOUT_MS": f"{NODE_SESSION_S * 1000:.0f}",
    "BMQ_HDFS__REPLICATION": "2",
    "BMQ_KAFKA": json.dumps(
        {
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.num.partitions": "5",
            "group.initial.rebalance.delay.ms": "0",
        }
    ),
}

_clusters: list[BmqCluster] = []


class ClusterNode:
    """One `bmq node` process. `kafka` (empty without the proxy role), `internal` and `rest` are HOST:PORT."""

    def __init__(
        self,
        node_id: int,
        roles: str,
        store: str,
        zookeeper: str,
        log_file: Path,
        environment: Mapping[str, str],
        arguments: Iterable[str] = (),
        host: Host | None = None,
    ) -> None:
        self.node_id = node_id
        self.rest_context: ssl.SSLContext | None = None
        """Of HTTPS; None: HTTP."""
        self.rest_headers: dict[str, str] = {}
        self.roles = frozenset(roles.split(","))
        self.host = host
        address = host.address if host else HOST
        kafka_port, internal_port, rest_port = PORTS_OF_OWN_HOST if host else pick_ports(HOST, 3, Random())
        self.kafka = f"{address}:{kafka_port}" if self.is_proxy else ""
        self.internal = f"{address}:{internal_port}"
        self.rest = f"{address}:{rest_port}"
        listen = ["--listen", self.kafka] if self.is_proxy else []
        command = [server_command(), "node", "--roles", roles, "--node-id", str(node_id), "--store", store]
        command += ["--zookeeper", zookeeper, *listen, "--internal", self.internal, "--rest", self.rest, *arguments]
        command = host.command(command) if host else command
        open_beyond_loopback = {"BMQ_INTERNODE_SECURITY__MODE": "plaintext"} if host else {}
        own = {**ENVIRONMENT, **open_beyond_loopback, **environment}
        self.process = ManagedProcess(f"node {node_id}", command, log_file, own)

    def __repr__(self) -> str:
        return f"node {self.node_id} ({self.state})"

    @property
    def is_proxy(self) -> bool:
        return "proxy" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_running(self) -> bool:
        """Whether there is a process; a paused one counts."""
        return self.process.is_running

    @property
    def is_paused(self) -> bool:
        return self.process.is_paused

    @property
    def is_healthy(self) -> bool:
        return self.is_running and not self.is_paused

    @property
    def state(self) -> str:
        """`running`, `paused` or `stopped`."""
        if not self.is_running:
            return "stopped"
        return "paused" if self.is_paused else "running"

    @property
    def bootstrap(self) -> str:
        """For Kafka clients that are to know this node alone."""
        return self.kafka

    @property
    def kafka_port(self) -> int:
        return int(self.kafka.rpartition(":")[2])

    # -- Orders ------------------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Start the process and return at once."""
        self.process.start()

    def wait_until_ready(self) -> None:
        """Return once it serves. Raises ProcessFailed with its log."""
        ready = self.process.wait_for_line(READY_LINE, READY_WAIT_S)
        said = (int(ready[1]), ready[2].removeprefix("-"), ready[3], ready[4])
        assert said == (self.node_id, self.kafka, self.internal, self.rest), f"the ready line says {ready[0]!r}"
        eventually(lambda: self.get("/v1/health")[0] == 200, READY_WAIT_S, f"{self} says that it is healthy")

    def start(self) -> None:
        self.execute()
        self.wait_until_ready()

    def kill(self) -> None:
        """kill -9, paused or not; gone when this returns."""
        self.process.kill()

    def check_alive(self) -> None:
        """Raises ProcessFailed when it has ended by itself."""
        if not self.is_running and self.process.exit_code not in (None, 0, -signal.SIGKILL):
            raise ProcessFailed(f"{self} ended with {self.process.exit_code}{self.process}")

    def stop(self) -> None:
        """SIGTERM: its partitions move away, then it ends with 0. Raises ProcessFailed when it takes too long."""
        code = self.process.stop(STOP_WAIT_S)
        assert code == 0, f"{self} ended with {code}{self.process}"

    def pause(self) -> None:
        """SIGSTOP: its connections stay open and nothing is answered."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.process.resume()

    def restart(self) -> None:
        """Stop it if it runs, then start it at its addresses."""
        if self.is_running:
            self.stop()
        self.start()

    # -- REST --------------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: object = None, timeout_s: float = REST_WAIT_S) -> tuple[int, Any]:
        """Status and decoded body; (0, reason) when nobody answers."""
        connection = (
            http.client.HTTPConnection(self.rest, timeout=timeout_s)
            if self.rest_context is None
            else http.client.HTTPSConnection(self.rest, timeout=timeout_s, context=self.rest_context)
        )
        try:
            content = None if body is None else json.dumps(body)
            kind = {} if content is None else {"Content-Type": "application/json"}
            connection.request(method, path, content, {**self.rest_headers, **kind})
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, json.loads(text) if is_json else text

    def get(self, path: str) -> tuple[int, Any]:
        return self.call("GET", path)


class BmqCluster:
    """`store`, `zookeeper`: what its nodes are given. Node ids count from 1 in the order of `add`."""

    def __init__(
        self,
        directory: Path,
        hdfs_url: str,
        zookeeper: str,
        name: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.root = fresh_root(name)
        self.store = f"{hdfs_url}{self.root}"
        self.zookeeper = f"{zookeeper}{self.root}"
        self.nodes: dict[int, ClusterNode] = {}
        self._environment = dict(environment or {})
        self._next_id = itertools.count(1)
        _clusters.append(self)

    # -- Nodes -------------------------------------------------------------------------------------------------------

    def add(
        self,
        roles: str = ALL_ROLES,
        *,
        environment: Mapping[str, str] | None = None,
        arguments: Iterable[str] = (),
        host: Host | None = None,
    ) -> ClusterNode:
        """A new node with the next id; it is not started. `host`: of its own, instead of this one."""
        node_id = next(self._next_id)
        node = ClusterNode(
            node_id,
            roles,
            self.store,
            self.zookeeper,
            self.directory / f"node-{node_id}.log",
            {**self._environment, **(environment or {})},
            arguments,
            host,
        )
        self.nodes[node_id] = node
        return node

    def start(self) -> None:
        """Start every node that does not run, all at once, and wait until the cluster is settled."""
        new = [node for node in self.nodes.values() if not node.is_running]
        for node in new:
            node.execute()
        for node in new:
            node.wait_until_ready()
        self.wait_settled()

    def heal(self) -> None:
        """Let paused nodes go on, start the dead ones, wait until it is settled."""
        for node in self.nodes.values():
            if node.is_paused:
                node.resume()
        self.start()

    def close(self) -> None:
        """Kill every process of this cluster, those that its nodes started as well."""
        for node in self.nodes.values():
            if node.is_running:
                node.kill()
        for process in processes_of(self.root):
            with suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(10)
        if self in _clusters:
            _clusters.remove(self)

    def node(self, node_id: int) -> ClusterNode:
        return self.nodes[node_id]

    @property
    def healthy(self) -> list[ClusterNode]:
        """Nodes that run and are not paused."""
        return [node for node in self.nodes.values() if node.is_healthy]

    @property
    def proxies(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_proxy]

    @property
    def brokers(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_broker]

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every proxy, for Kafka clients."""
        return ",".join(node.kafka for node in self.proxies)

    # -- What it says about itself -------------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """The answer of the first healthy node that gives one. Raises AssertionError.

        They are asked again for a while when one of them could not answer: it may be busy.
        """
        patience = Patience(GET_WAIT_S)
        while True:
            answers = []
            for node in self.healthy:
                status, body = node.get(path)
                if status == 200:
                    return body
                answers.append((node, status, body))
            are_final = all(400 <= status < 500 for _, status, _ in answers)
            if are_final or patience.is_over():
                said = [f"{node}: {status} {body}" for node, status, body in answers]
                raise AssertionError(f"GET {path} was not answered: {said}")
            time.sleep(GET_INTERVAL_S)

    def topic(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/topics/{name}")
        return found

    def owner_of(self, topic: str, partition: int) -> ClusterNode:
        """The node that owns it. Raises AssertionError when none does for long: for a moment nobody owns what is taken over."""

        def owner() -> ClusterNode | None:
            return self.nodes.get(self.owners_of(topic)[partition])

        found = eventually(owner, GET_WAIT_S, f"{topic}-{partition} has an owner", GET_INTERVAL_S)
        assert found is not None
        return found

    def owners_of(self, topic: str) -> list[int]:
        """Node id by partition; -1: nobody."""
        return [partition["leader"] for partition in self.topic(topic)["partitions"]]

    def wait_left_by(self, node: ClusterNode, *topics: str) -> None:
        """Return once every healthy node sees that this one owns no partition of these topics: they hear of it one by one."""

        def is_left() -> bool:
            for seer in self.healthy:
                for topic in topics:
                    status, seen = seer.get(f"/v1/topics/{topic}")
                    if status != 200 or node.node_id in (each["leader"] for each in seen["partitions"]):
                        return False
            return True

        eventually(is_left, SETTLED_WAIT_S, f"{node} owns nothing of {', '.join(topics)}", GET_INTERVAL_S)

    def leader_epoch_of(self, topic: str, partition: int) -> int:
        epoch: int = self.topic(topic)["partitions"][partition]["leader_epoch"]
        return epoch

    def controller(self) -> ClusterNode:
        """The node with the active controller. Raises AssertionError when there is none for long, as after its death."""

        def active() -> ClusterNode | None:
            return self.nodes.get(self.get("/v1/cluster")["controller_id"])

        found = eventually(active, GET_WAIT_S, "a controller is active", GET_INTERVAL_S)
        assert found is not None
        return found

    def wait_settled(self, timeout_s: float = SETTLED_WAIT_S) -> None:
        """Return once all healthy nodes agree on who is there, and every partition is owned by one of them."""
        unsettled = ""

        def settled() -> bool:
            nonlocal unsettled
            for node in self.nodes.values():
                node.check_alive()
            unsettled = self._unsettled()
            return not unsettled

        try:
            eventually(settled, timeout_s, "the cluster is settled", interval_s=0.1)
        except ProcessFailed:
            raise
        except AssertionError:
            raise AssertionError(f"the cluster is not settled after {timeout_s} s: {unsettled}") from None

    def wait_balanced(self, timeout_s: float = SETTLED_WAIT_S) -> None:
        """Return once the healthy brokers own as many partitions as each other, give or take one: no balancer moves any."""
        brokers = {node.node_id for node in self.healthy if node.is_broker}

        def balanced() -> bool:
            owned = [node["partitions_led"] for node in self.get("/v1/cluster")["nodes"] if node["node_id"] in brokers]
            return len(owned) == len(brokers) and max(owned) - min(owned) <= 1

        eventually(balanced, timeout_s, "the brokers own equally many partitions", interval_s=0.1)

    def _unsettled(self) -> str:
        """What is still missing; empty when nothing is. Nodes that were started by others are neither here nor there."""
        wanted = {node.node_id for node in self.healthy}
        gone = self.nodes.keys() - wanted
        offsets = set()
        for node in self.healthy:
            status, body = node.get("/v1/health")
            if status != 200:
                return f"{node} is not healthy: {status} {body}"
            status, seen = node.get("/v1/cluster")
            if status != 200:
                return f"{node} does not answer: {status} {seen}"
            there = {other["node_id"] for other in seen["nodes"]}
            if not wanted <= there or there & gone:
                return f"{node} sees the nodes {sorted(there)}, not {sorted(wanted)}"
            if seen["controller_id"] not in there:
                return f"{node} has {seen['controller_id']} as the controller"
            if seen["partitions_without_leader"]:
                return f"{node} sees {seen['partitions_without_leader']} partitions without an owner"
            if sum(other["partitions_led"] for other in seen["nodes"]) != seen["partitions"]:
                return f"{node} sees partitions that belong to nodes that are gone"
            offsets.add(seen["metadata_offset"])
        return f"the nodes' metadata are at {sorted(offsets)}" if len(offsets) > 1 else ""


def open_clusters() -> tuple[BmqCluster, ...]:
    """Every cluster that was not closed yet."""
    return tuple(_clusters)


def processes_of(mark: str) -> list[psutil.Process]:
    """Processes that have `mark` in their command line, this one excepted."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.pid != os.getpid() and any(mark in argument for argument in process.info["cmdline"] or ())
    ]
