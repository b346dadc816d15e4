"""`bmq dev up`: a whole cluster on this machine, to play with: ZooKeeper, HDFS, and nodes of bmq over them.

`up` runs it in the foreground; the other commands, from a second terminal, look at it and hurt it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Annotated, Final

import typer

from bmq.cli.dev_kerberos import realm_of, secured_cluster, what_to_export, what_to_know, with_kerberos
from bmq.cli.dev_orders import DevOrders, say
from bmq.cli.dev_secured import secured_files, what_to_type, write_users_once
from bmq.cli.dev_watch import ClusterWatch
from bmq.dev.bmq_cluster import BmqCluster
from bmq.dev.bmq_plan import BROKER_IDS, CONTROLLER_IDS, PROXY_IDS, WholePlan, plan_servers
from bmq.dev.cluster_file import exclusive
from bmq.dev.hadoop_configuration import ClusterPlan, one_machine_properties
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.java import HADOOP_JARS, QUICK_START_JVM_OPTIONS, ZOOKEEPER_JARS, class_path, java_executable
from bmq.dev.ports import HOST, pick_ports
from bmq.dev.secure_hdfs import Realm, SecureHdfsCluster
from bmq.dev.secured import SecuredFiles
from bmq.dev.supervisor import supervise
from bmq.dev.zookeeper import ZooKeeperPlan, ZooKeeperServer
from bmq.hdfs.location import system_user
from bmq.hdfs.security import Protection

DATANODES_MAX: Final = 20
_DEFAULT_DATA: Final = Path("data/cluster")
HDFS: Final = "hdfs"
_ORDERS: Final = DevOrders("bmq dev", "cluster", "what it is", WholePlan)

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Directory of the cluster")]
Node = Annotated[str, typer.Argument(metavar="NODE", help="bmq1, zk0, nn0, dn0, … as `bmq dev status` lists them")]


# -- Up ------------------------------------------------------------------------------------------------------------


def up(
    brokers: Annotated[int, typer.Option(min=1, max=len(BROKER_IDS), help="Number of nodes that own partitions")] = 3,
    proxies: Annotated[
        int, typer.Option(min=0, max=len(PROXY_IDS), help="Number of nodes that serve clients; 0: the brokers do")
    ] = 0,
    controllers: Annotated[
        int, typer.Option(min=0, max=len(CONTROLLER_IDS), help="Number of controller candidates; 0: the brokers are")
    ] = 0,
    data: Data = _DEFAULT_DATA,
    kafka_port: Annotated[
        int, typer.Option(min=1, max=65_000, help="Kafka port of the first node; further nodes have the next ports")
    ] = 9092,
    rest_port: Annotated[
        int, typer.Option(min=1, max=65_000, help="REST port of the first node; further nodes have the next ports")
    ] = 8080,
    datanodes: Annotated[
        int | None, typer.Option(min=1, max=DATANODES_MAX, help="Number of DataNodes [3, or as before]")
    ] = None,
    is_secured: Annotated[
        bool,
        typer.Option("--secure", help="TLS, users alice, bob and admin, and an authorizer [as before, or open]"),
    ] = False,
    is_kerberized: Annotated[
        bool, typer.Option("--kerberos", help="HDFS with Kerberos, and encryption of its data [as before, or open]")
    ] = False,
) -> None:
    """Start a whole cluster and run it until Ctrl-C. Its data stays for the next time, also with other nodes."""
    java_executable()
    class_path(HADOOP_JARS)
    class_path(ZOOKEEPER_JARS)
    with exclusive(data):
        before = _ORDERS.before(data)
        secured = secured_files(data, is_wanted=is_secured, was_made=before is not None)
        internal_ports = pick_ports(HOST, brokers + proxies + controllers, Random())
        servers = plan_servers(
            brokers=brokers,
            proxies=proxies,
            controllers=controllers,
            kafka_port=kafka_port,
            rest_port=rest_port,
            internal_ports=internal_ports,
        )
        hdfs_plan = with_kerberos(
            _hdfs_plan(None if before is None else before.hdfs, data, datanodes),
            data,
            is_wanted=is_kerberized,
            was_made=before is not None,
            protection=Protection.PRIVACY if is_kerberized else None,
        )
        realm = realm_of(hdfs_plan, data / HDFS)
        plan = WholePlan(
            hdfs_plan,
            ZooKeeperPlan.of_port(*pick_ports(HOST, 1, Random(), exclude=internal_ports)),
            servers,
        )
        cluster = BmqCluster(
            data,
            plan,
            _hdfs(data / HDFS, plan.hdfs, realm),
            _zookeeper(data / "zookeeper", plan.zookeeper, secured),
            secured,
            None if secured is None else lambda: write_users_once(cluster, secured),
        )
        say(
            f"starting ZooKeeper, HDFS with {len(plan.hdfs.datanodes)} DataNode(s) and {len(servers)} node(s) in {data}"
        )
        asyncio.run(_run(cluster, data))


def _zookeeper(directory: Path, plan: ZooKeeperPlan, secured: SecuredFiles | None) -> ZooKeeperServer:
    return ZooKeeperServer(
        directory,
        ZOOKEEPER_JARS,
        plan=plan,
        jvm_options=(*QUICK_START_JVM_OPTIONS, *(secured.zookeeper_options if secured else ())),
        properties=secured.zookeeper_properties if secured else None,
    )


def _hdfs(directory: Path, plan: ClusterPlan, realm: Realm | None) -> HdfsCluster | SecureHdfsCluster:
    properties = one_machine_properties(system_user())
    if realm is None:
        return HdfsCluster(directory, HADOOP_JARS, properties=properties, plan=plan)
    hdfs = HdfsCluster(
        directory,
        HADOOP_JARS,
        properties={**properties, **realm.daemon_properties},
        jvm_properties=realm.jvm_properties,
        plan=plan,
    )
    return secured_cluster(hdfs, realm)


def _hdfs_plan(before: ClusterPlan | None, data: Path, datanodes: int | None) -> ClusterPlan:
    """The plan of the last run, if any: its files fit that number of daemons. Raises BadParameter for another one."""
    if before is None:
        count = datanodes or 3
        return ClusterPlan.of_ports(pick_ports(HOST, 2 + 3 * count, Random()), namenodes=1, datanodes=count)
    if datanodes not in (None, len(before.datanodes)):
        raise typer.BadParameter(
            f"{data} holds a cluster with {len(before.datanodes)} DataNodes; name another directory with --data"
        )
    return before


async def _run(cluster: BmqCluster, data: Path) -> None:
    watch = ClusterWatch(cluster)

    def on_up() -> None:
        _print_up(cluster, data, watch.say)
        watch.start()

    try:
        await supervise(cluster, watch.say, on_up)
    finally:
        await watch.stop()


def _print_up(cluster: BmqCluster, data: Path, tell: Callable[[str], None]) -> None:
    option = "" if data == _DEFAULT_DATA else f" --data {data}"
    rest = cluster.plan.servers[0].rest
    scheme = "http" if cluster.secured is None else "https"
    tell("the cluster is up")
    tell(f"  Kafka clients:  bootstrap.servers={cluster.bootstrap}")
    tell(f"  REST:           {scheme}://{rest}/docs")
    if isinstance(cluster.hdfs, SecureHdfsCluster):
        for line in (*what_to_export(cluster.hdfs), *what_to_know(cluster.hdfs)):
            tell(f"  HDFS:           {line}")
    if cluster.secured is not None:
        for line in what_to_type(cluster.secured, str(cluster.plan.servers[0].kafka or cluster.bootstrap), str(rest)):
            tell(f"  {line}")
    tell(f"  a node more:    bmq node --node-id 42 --store {cluster.store} --zookeeper {cluster.zookeeper_url} …")
    tell(f"from another terminal: bmq dev status{option}, bmq dev kill bmq1{option}; Ctrl-C ends it")


# -- Orders --------------------------------------------------------------------------------------------------------


def status(
    data: Data = _DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")] = False,
) -> None:
    """Every process of the cluster, and its role."""
    _ORDERS.give(data, "status", as_json=as_json)


def down(data: Data = _DEFAULT_DATA) -> None:
    """End the cluster, as Ctrl-C in its terminal does; its data stays."""
    _ORDERS.down(data)


_NODE_ORDERS: Final = {
    "start": "Start a stopped or killed node at its addresses.",
    "stop": "SIGTERM: a node of bmq hands its partitions over first.",
    "kill": "SIGKILL: as if its machine had lost power.",
    "pause": "SIGSTOP: it hangs; its connections stay open without answers.",
    "resume": "SIGCONT: a paused node continues, and finds out that it was replaced.",
    "restart": "Stop and start; returns once it serves again.",
}


def _order(name: str) -> Callable[[str, Path], None]:
    def give(node: Node, data: Data = _DEFAULT_DATA) -> None:
        _ORDERS.give(data, name, node)

    return give


def register(app: typer.Typer) -> None:
    """Put the commands of this module into `bmq dev`."""
    for command in (up, status, down):
        app.command(command.__name__)(command)
    for name, help_text in _NODE_ORDERS.items():
        app.command(name, help=help_text)(_order(name))
