"""What a part of the benchmark needs of either cluster, and bmq's: `bmq node` processes on an HDFS and a ZooKeeper."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from bench.cluster.admin import AdminFailed, call_any, metadata_request
from bmq.protocol.apis import ApiKey
from testing.cluster import ALL_ROLES, BmqCluster, ClusterNode
from testing.processes import ManagedProcess, eventually

WHOLE_WAIT_S: Final = 120.0
REST_WAIT_S: Final = 20.0

ALONE: Final = (ALL_ROLES,)
"""The smallest cluster."""
COMBINED: Final = (ALL_ROLES,) * 3
"""The usual small cluster: three processes, each with all roles."""
SEPARATE_ROLES: Final = (*("proxy",) * 3, *("broker,coordinator",) * 3, *("controller",) * 2)
"""Each role in processes of its own, so that one role can be taken away alone."""
PROXIES_AND_BROKERS: Final = (*("proxy",) * 3, *("broker,coordinator,controller",) * 3)
"""Twice three processes: for load, not for faults."""


class Node(Protocol):
    """One server process."""

    @property
    def node_id(self) -> int: ...
    @property
    def kafka(self) -> str: ...
    @property
    def process(self) -> ManagedProcess: ...
    @property
    def is_running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Side(Protocol):
    """A cluster under measurement."""

    @property
    def name(self) -> str: ...
    @property
    def nodes(self) -> Mapping[int, Node]: ...
    @property
    def addresses(self) -> Sequence[str]:
        """Where Kafka clients may begin."""

    @property
    def live_addresses(self) -> Sequence[str]: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def processes(self) -> Mapping[str, int]:
        """Process ids, by name, of all that serve, the storage's too."""

    @property
    def pids(self) -> Sequence[int]:
        """The same without the names."""

    @property
    def broker_ids(self) -> Sequence[int]:
        """Nodes that own partitions, live or not."""

    def start(self) -> None:
        """Start all that does not run."""

    def owners(self, topic: str) -> dict[int, int]:
        """Node by partition; -1: nobody. Raises AdminFailed."""

    def active_controller(self) -> int:
        """Raises AdminFailed."""

    def wait_whole(self) -> None:
        """Return once everything is as before a fault: all nodes there, every partition owned, every replica in sync."""


class BmqSide:
    """`daemon_pids`: of the HDFS and the ZooKeeper it runs on."""

    name: Final = "bmq"

    def __init__(
        self,
        directory: Path,
        hdfs_url: str,
        zookeeper: str,
        daemon_pids: Mapping[str, int],
        layout: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        kafka: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        configs = {"group.initial.rebalance.delay.ms": "0", **(kafka or {})}
        self.cluster = BmqCluster(
            directory,
            hdfs_url,
            zookeeper,
            "bench",
            {"BMQ_HDFS__REPLICATION": "3", "BMQ_KAFKA": json.dumps(configs), **(environment or {})},
        )
        self._daemon_pids = dict(daemon_pids)
        for roles in layout:
            self.cluster.add(roles, arguments=arguments)

    def start(self) -> None:
        self.cluster.start()

    def close(self) -> None:
        self.cluster.close()

    @property
    def nodes(self) -> Mapping[int, ClusterNode]:
        return self.cluster.nodes

    @property
    def addresses(self) -> Sequence[str]:
        return [node.kafka for node in self.cluster.proxies]

    @property
    def live_addresses(self) -> Sequence[str]:
        return [node.kafka for node in self.cluster.proxies if node.is_healthy]

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def processes(self) -> Mapping[str, int]:
        nodes = {f"node {node.node_id}": node.process.pid for node in self.nodes.values() if node.is_running}
        return {**nodes, **self._daemon_pids}

    @property
    def pids(self) -> Sequence[int]:
        return tuple(self.processes.values())

    @property
    def broker_ids(self) -> Sequence[int]:
        return [node.node_id for node in self.cluster.brokers]

    @property
    def proxy_ids(self) -> Sequence[int]:
        return [node.node_id for node in self.cluster.proxies]

    def owners(self, topic: str) -> dict[int, int]:
        try:
            return dict(enumerate(self.cluster.owners_of(topic)))
        except AssertionError as error:
            raise AdminFailed(str(error)) from None

    def active_controller(self) -> int:
        try:
            return self.cluster.controller().node_id
        except (AssertionError, KeyError) as error:
            raise AdminFailed(f"no node says who is the controller: {error}") from None

    def wait_whole(self) -> None:
        self.cluster.wait_settled(WHOLE_WAIT_S)

    def rest(self, method: str, path: str, body: object = None) -> Any:
        """The answer of the active controller's node. Raises AdminFailed."""
        node = self.nodes[self.active_controller()]
        status, answer = node.call(method, path, body, REST_WAIT_S)
        if not 200 <= status < 300:
            raise AdminFailed(f"{method} {path}: {status} {answer}")
        return answer


def wait_in_sync(addresses: Sequence[str]) -> None:
    """Return once, of every topic, every replica is in sync and every partition has a leader. Raises AdminFailed."""
    out_of_sync: list[str] = []

    def whole() -> bool:
        answer = call_any(addresses, ApiKey.METADATA, metadata_request(None))
        out_of_sync[:] = [
            f"{topic.name}-{partition.partition_index}"
            for topic in answer.topics
            for partition in topic.partitions
            if partition.leader_id < 0 or len(partition.isr_nodes) < len(partition.replica_nodes)
        ]
        return not out_of_sync

    try:
        eventually(whole, WHOLE_WAIT_S, "every replica in sync", interval_s=0.1)
    except AssertionError:
        raise AdminFailed(
            f"{len(out_of_sync)} partitions are not whole after {WHOLE_WAIT_S:g} s: {out_of_sync[:5]}"
        ) from None


def most_loaded(owners: Mapping[int, int], among: Sequence[int], previous: int | None = None) -> tuple[int, int]:
    """Of these nodes, the one that owns most of the partitions, and how many; of equals the first behind `previous`, in a
    ring.
    """
    begin = among.index(previous) + 1 if previous in among else 0
    ring = (*among[begin:], *among[:begin])
    counts = {node_id: sum(owner == node_id for owner in owners.values()) for node_id in ring}
    victim = max(ring, key=counts.__getitem__)
    return victim, counts[victim]


def wait_for_owner(side: Side, topic: str, partition: int, node_id: int, timeout_s: float) -> float:
    """Seconds until the node owns the partition. Raises AdminFailed."""
    began = time.monotonic()
    try:
        eventually(lambda: side.owners(topic)[partition] == node_id, timeout_s, "the partition moves", interval_s=0.02)
    except AssertionError:
        raise AdminFailed(f"{topic}-{partition} did not move to {node_id} within {timeout_s:g} s") from None
    return time.monotonic() - began
