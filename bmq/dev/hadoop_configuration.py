"""The XML files that Hadoop's daemons read, for a cluster whose daemons all listen on 127.0.0.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self
from xml.sax.saxutils import escape

from bmq.dataclass import dataclass
from bmq.dev.ports import HOST
from bmq.hdfs.config import Address
from bmq.hdfs.security import Protection

NAMESERVICE: Final = "bmq-dev"
SHARED_EDITS: Final = "shared-edits"
TEMPORARY: Final = "tmp"

# A DataNode that is up before its NameNode tries again after this long, not after the default of 1 s.
_DATANODE_RETRY_MS: Final = 100
_DATANODE_RETRIES: Final = 600

# Everything goes to the standard output, a separate file for each daemon. The filter drops a thousand lines, one for
# each directory of a new DataNode.
LOGGING: Final = """\
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p %c{1}: %m%n
log4j.appender.out.filter.1=org.apache.log4j.varia.StringMatchFilter
log4j.appender.out.filter.1.StringToMatch=Added DIR lock
log4j.appender.out.filter.1.AcceptOnMatch=false
"""

# Metrics over HTTP are at most so old, not 10 s. Daemons wake as often, also when nobody asks: each ms would be 2 % of a processor.
METRICS_AGE_MAX_MS: Final = 50
METRICS: Final = f"*.periodMillis={METRICS_AGE_MAX_MS}\n"

# For tests that wait until the NameNode notices something: a silent DataNode is stale after 3 s and dead after 12 s
# (defaults: 30 s and 10.5 min), orders to DataNodes leave within 1 s (3 s), a restarted NameNode leaves safe mode at
# once (30 s), lost replicas are made anew after 1 s (3 s).
QUICK_PROPERTIES: Final[Mapping[str, str]] = {
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.heartbeat.recheck-interval": "1000",
    "dfs.namenode.stale.datanode.interval": "3000",
    "dfs.namenode.avoid.read.stale.datanode": "true",
    "dfs.namenode.avoid.write.stale.datanode": "true",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.redundancy.interval.seconds": "1s",
    "dfs.ha.tail-edits.period": "200ms",
    # With so few DataNodes, one soon counts as twice as busy as the average and would get no new blocks.
    "dfs.namenode.redundancy.considerLoad": "false",
}

# The users who may read the files of finalized replicas (HDFS-2246).
LOCAL_READERS: Final = "dfs.block.local-path-access.user"


def one_machine_properties(user: str) -> dict[str, str]:
    """For a development cluster, whose daemons and clients are all on this machine.

    A restarted NameNode takes writes at once, as no distant DataNode has to report first (default: after 30 s); `user` may
    read the DataNodes' files.
    """
    return {"dfs.namenode.safemode.extension": "0", LOCAL_READERS: user}


@dataclass(frozen=True, slots=True)
class NameNodePlan:
    """`rpc`: where clients and DataNodes go; `http`: status as JSON."""

    name: str
    rpc: Address
    http: Address

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.rpc, self.http


@dataclass(frozen=True, slots=True)
class DataNodePlan:
    """`transfer`: where blocks are written and read; `ipc`: where ClientDatanodeProtocol answers."""

    name: str
    transfer: Address
    ipc: Address
    http: Address

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.transfer, self.ipc, self.http


@dataclass(frozen=True, slots=True)
class KerberosPlan:
    """`kdc`: where the Kerberos server answers. `protection`: of calls and data; `is_encrypted`: dfs.encrypt.data.transfer."""

    name: str
    kdc: Address
    protection: Protection = Protection.AUTHENTICATION
    is_encrypted: bool = False

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.kdc,)

    @classmethod
    def of_json(cls, found: Any) -> Self:
        protection = Protection(found["protection"])
        return cls(str(found["name"]), Address(*found["kdc"]), protection, bool(found["is_encrypted"]))


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Names and addresses. One NameNode, or two that share a directory of edits (HA). It outlives the processes.

    `kerberos`: None for an open cluster.
    """

    namenodes: tuple[NameNodePlan, ...]
    datanodes: tuple[DataNodePlan, ...]
    kerberos: KerberosPlan | None = None

    @property
    def is_ha(self) -> bool:
        return len(self.namenodes) > 1

    @property
    def nodes(self) -> tuple[NameNodePlan | DataNodePlan | KerberosPlan, ...]:
        return *self.hadoop_nodes, *(() if self.kerberos is None else (self.kerberos,))

    @property
    def hadoop_nodes(self) -> tuple[NameNodePlan | DataNodePlan, ...]:
        return *self.namenodes, *self.datanodes

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses of all NameNodes and DataNodes."""
        return tuple(address for node in self.hadoop_nodes for address in node.addresses)

    @classmethod
    def of_json(cls, found: Any) -> Self:
        return cls(
            tuple(NameNodePlan(**_with_addresses(node)) for node in found["namenodes"]),
            tuple(DataNodePlan(**_with_addresses(node)) for node in found["datanodes"]),
            KerberosPlan.of_json(found["kerberos"]) if found.get("kerberos") else None,
        )

    @classmethod
    def of_ports(cls, ports: tuple[int, ...], *, namenodes: int, datanodes: int) -> ClusterPlan:
        """Give out ports, in order: two for each NameNode, three for each DataNode. Raises ValueError on another count."""
        if namenodes not in (1, 2) or datanodes < 1:
            raise ValueError(f"{namenodes} NameNodes and {datanodes} DataNodes make no cluster")
        if len(ports) != 2 * namenodes + 3 * datanodes:
            raise ValueError(f"{len(ports)} ports for {namenodes} NameNodes and {datanodes} DataNodes")
        at = [Address(HOST, port) for port in ports]
        first = 2 * namenodes
        return cls(
            tuple(NameNodePlan(f"nn{i}", *at[2 * i : 2 * i + 2]) for i in range(namenodes)),
            tuple(DataNodePlan(f"dn{i}", *at[first + 3 * i : first + 3 * i + 3]) for i in range(datanodes)),
        )


def _with_addresses(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value if key == "name" else Address(*value) for key, value in node.items()}


def client_properties(plan: ClusterPlan) -> dict[str, str]:
    """What any Hadoop client needs to find the cluster, under either NameNode."""
    if not plan.is_ha:
        return {
            "fs.defaultFS": f"hdfs://{plan.namenodes[0].rpc}",
            "dfs.namenode.rpc-address": str(plan.namenodes[0].rpc),
            "dfs.namenode.http-address": str(plan.namenodes[0].http),
        }
    found = {
        "fs.defaultFS": f"hdfs://{NAMESERVICE}",
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(node.name for node in plan.namenodes),
        f"dfs.client.failover.proxy.provider.{NAMESERVICE}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
    }
    for node in plan.namenodes:
        found[f"dfs.namenode.rpc-address.{NAMESERVICE}.{node.name}"] = str(node.rpc)
        found[f"dfs.namenode.http-address.{NAMESERVICE}.{node.name}"] = str(node.http)
    return found


def daemon_properties(
    plan: ClusterPlan, node: NameNodePlan | DataNodePlan, directory: Path, properties: Mapping[str, str]
) -> dict[str, str]:
    """All properties of one daemon with files under `directory`/NAME. The caller's properties win."""
    own = directory / node.name
    found = {
        **client_properties(plan),
        "hadoop.tmp.dir": str(own / TEMPORARY),
        "dfs.replication": str(min(3, max(1, len(plan.datanodes)))),
        # Without this, the web interfaces look in the home directory for a secret to sign cookies with.
        "hadoop.http.filter.initializers": "org.apache.hadoop.http.lib.StaticUserWebFilter",
        # All DataNodes have the same address, which may have no host name.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    }
    match node:
        case NameNodePlan():
            found["dfs.namenode.name.dir"] = (own / "name").as_uri()
        case DataNodePlan():
            found |= {
                "dfs.datanode.data.dir": (own / "data").as_uri(),
                "dfs.datanode.address": str(node.transfer),
                "dfs.datanode.ipc.address": str(node.ipc),
                "dfs.datanode.http.address": str(node.http),
                "dfs.datanode.hostname": HOST,
                "ipc.client.connect.retry.interval": str(_DATANODE_RETRY_MS),
                "ipc.client.connect.max.retries": str(_DATANODE_RETRIES),
            }
    if plan.is_ha:
        found |= {
            "dfs.namenode.shared.edits.dir": (directory / SHARED_EDITS).as_uri(),
            "dfs.ha.automatic-failover.enabled": "false",
            "dfs.ha.fencing.methods": "shell(/bin/true)",
        }
        if isinstance(node, NameNodePlan):
            # Both NameNodes are on one host, so neither could tell from its address which of the two it is.
            found["dfs.ha.namenode.id"] = node.name
    return {**found, **properties}


def configuration_xml(properties: Mapping[str, str]) -> str:
    """The XML file with these properties, in the order of their names."""
    lines = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in sorted(properties.items())
    ]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', "<configuration>", *lines, "</configuration>", ""])
