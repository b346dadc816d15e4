"""The plan of a whole development cluster: ports and files of ZooKeeper, HDFS and the nodes of bmq."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

from bmq.dataclass import dataclass
from bmq.dev.cluster import NodePlan
from bmq.dev.hadoop_configuration import ClusterPlan
from bmq.dev.ports import HOST
from bmq.dev.zookeeper import ZooKeeperPlan
from bmq.hdfs.config import Address

# Each kind has its own hundred, so that a node keeps its id when there are more or fewer of another kind.
BROKER_IDS: Final = range(1, 100)
PROXY_IDS: Final = range(101, 200)
CONTROLLER_IDS: Final = range(201, 300)
# For nodes that are started later, when the cluster is scaled.
SCALED_IDS: Final = range(301, 400)


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """One node of bmq. `kafka`: where clients reach it; None without the proxy role."""

    node_id: int
    roles: tuple[str, ...]
    kafka: Address | None
    internal: Address
    rest: Address

    @property
    def name(self) -> str:
        return f"bmq{self.node_id}"

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (*((self.kafka,) if self.kafka else ()), self.rest, self.internal)

    @classmethod
    def of_json(cls, found: Any) -> Self:
        kafka = Address(*found["kafka"]) if found["kafka"] else None
        internal, rest = Address(*found["internal"]), Address(*found["rest"])
        return cls(found["node_id"], tuple(found["roles"]), kafka, internal, rest)


def plan_servers(
    *, brokers: int, proxies: int, controllers: int, kafka_port: int, rest_port: int, internal_ports: Sequence[int]
) -> tuple[ServerPlan, ...]:
    """Brokers, which are coordinators too, then proxies, then controllers. Brokers take roles without nodes of their
    own.

    The n-th node that clients reach has Kafka port `kafka_port` + n, the n-th of all REST port `rest_port` + n and the
    n-th of `internal_ports`. Raises ValueError when there is no broker or there are more nodes than ids.
    """
    if brokers < 1:
        raise ValueError("a cluster has at least one broker")
    own_of_brokers = (
        *(() if proxies else ("proxy",)),
        "broker",
        "coordinator",
        *(() if controllers else ("controller",)),
    )
    kinds = (
        (BROKER_IDS, brokers, own_of_brokers),
        (PROXY_IDS, proxies, ("proxy",)),
        (CONTROLLER_IDS, controllers, ("controller",)),
    )
    servers: list[ServerPlan] = []
    reached = 0
    for ids, count, roles in kinds:
        if count > len(ids):
            raise ValueError(f"{count} nodes of one kind are more than the {len(ids)} ids there are")
        for node_id in ids[:count]:
            index = len(servers)
            kafka = Address(HOST, kafka_port + reached) if "proxy" in roles else None
            reached += kafka is not None
            internal, rest = Address(HOST, internal_ports[index]), Address(HOST, rest_port + index)
            servers.append(ServerPlan(node_id, roles, kafka, internal, rest))
    return tuple(servers)


@dataclass(frozen=True, slots=True)
class WholePlan:
    """`servers`: the nodes of bmq.

    They hold no data, so the next run may have others; the plan of HDFS never changes.
    """

    hdfs: ClusterPlan
    zookeeper: ZooKeeperPlan
    servers: tuple[ServerPlan, ...]

    @property
    def nodes(self) -> Sequence[NodePlan]:
        return *self.servers, *self.zookeeper.nodes, *self.hdfs.nodes

    @classmethod
    def of_json(cls, found: Any) -> Self:
        return cls(
            ClusterPlan.of_json(found["hdfs"]),
            ZooKeeperPlan.of_json(found["zookeeper"]),
            tuple(ServerPlan.of_json(server) for server in found["servers"]),
        )
