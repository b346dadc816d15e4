"""`bmq dev hdfs`: a real HDFS on this machine, to try things on and to break.

`up` runs it in the foreground; the other commands, from a second terminal, look at it and hurt it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Annotated, Final

import typer

from bmq.cli import dev_up
from bmq.cli.dev_kerberos import realm_of, secured_cluster, what_to_export, what_to_know, with_kerberos
from bmq.cli.dev_orders import DevOrders, say
from bmq.cli.dev_zookeeper import zookeeper_app
from bmq.dev.cluster_file import exclusive
from bmq.dev.daemon import LOG_TAIL_LINES
from bmq.dev.hadoop_configuration import QUICK_PROPERTIES, ClusterPlan, one_machine_properties
from bmq.dev.hdfs import HEAP_MB, HdfsCluster
from bmq.dev.java import HADOOP_JARS, QUICK_START_JVM_OPTIONS, STEADY_JVM_OPTIONS, class_path, java_executable
from bmq.dev.ports import HOST, pick_ports
from bmq.dev.secure_hdfs import SecureHdfsCluster
from bmq.dev.supervisor import supervise
from bmq.hdfs.config import NAMENODE_PORT
from bmq.hdfs.location import system_user
from bmq.hdfs.security import Protection

dev_app = typer.Typer(no_args_is_help=True, help="Clusters on this machine, for development.")
hdfs_app = typer.Typer(
    no_args_is_help=True, help="A real HDFS on this machine, whose daemons can be killed and paused."
)
dev_app.add_typer(hdfs_app, name="hdfs")
dev_app.add_typer(zookeeper_app, name="zookeeper")
dev_up.register(dev_app)

DATANODES_MAX: Final = 20

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Directory of the cluster")]
Node = Annotated[str, typer.Argument(metavar="NODE", help="nn0, dn0, dn1, … as `status` lists them")]
_DEFAULT_DATA: Final = Path("data/hdfs")
_ORDERS: Final = DevOrders("bmq dev hdfs", "cluster", "NameNode says", ClusterPlan)


# -- Up ------------------------------------------------------------------------------------------------------------


@hdfs_app.command("up")
def up(
    data: Data = _DEFAULT_DATA,
    datanodes: Annotated[
        int | None, typer.Option(min=1, max=DATANODES_MAX, help="Number of DataNodes [3, or as before]")
    ] = None,
    is_ha: Annotated[
        bool | None, typer.Option("--ha/--no-ha", help="Two NameNodes, one active [one, or as before]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65534, help="RPC port of the first NameNode; the second has the next one [8020]"),
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A Hadoop property; may be repeated")
    ] = None,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Heartbeats and checks every second; dead DataNodes are noticed after 12 s")
    ] = False,
    is_permission_checked: Annotated[bool, typer.Option("--permissions", help="Check owners and modes")] = False,
    is_steady: Annotated[
        bool, typer.Option("--steady", help="Use the full compiler, for measuring; the start takes longer")
    ] = False,
    heap_mb: Annotated[int, typer.Option(min=96, help="Heap of each daemon, in MiB")] = HEAP_MB,
    jars: Annotated[Path, typer.Option(metavar="DIR", help="Hadoop's jars, as `make jars` fetches them")] = HADOOP_JARS,
    is_secure: Annotated[
        bool, typer.Option("--secure", help="Kerberos, with a server of its own [as before, or open]")
    ] = False,
    protection: Annotated[
        Protection | None,
        typer.Option(help="With --secure: of calls and data; privacy encrypts them [authentication, or as before]"),
    ] = None,
    is_encrypted: Annotated[
        bool | None,
        typer.Option("--encrypt/--no-encrypt", help="With --secure: dfs.encrypt.data.transfer [off, or as before]"),
    ] = None,
) -> None:
    """Start the cluster (the first time: make it) and run it until Ctrl-C. Its files stay for the next time."""
    java_executable()
    class_path(jars)
    with exclusive(data):
        before = _ORDERS.before(data)
        plan = with_kerberos(
            _plan(before, data, datanodes, is_ha, port),
            data,
            is_wanted=is_secure,
            was_made=before is not None,
            protection=protection,
            is_encrypted=is_encrypted,
        )
        realm = realm_of(plan, data)
        given = {
            **one_machine_properties(system_user()),
            **(realm.daemon_properties if realm is not None else {}),
            **(QUICK_PROPERTIES if is_quick else {}),
            **_parsed(properties or []),
        }
        hdfs = HdfsCluster(
            data,
            jars,
            properties=given,
            is_permission_checked=is_permission_checked,
            heap_mb=heap_mb,
            jvm_options=STEADY_JVM_OPTIONS if is_steady else QUICK_START_JVM_OPTIONS,
            jvm_properties=None if realm is None else realm.jvm_properties,
            admin_login=realm.admin_login() if realm is not None and plan.is_ha else None,
            plan=plan,
        )
        cluster = secured_cluster(hdfs, realm)
        say(f"starting {len(plan.namenodes)} NameNode(s) and {len(plan.datanodes)} DataNode(s) in {data}")
        asyncio.run(supervise(cluster, say, lambda: _print_up(cluster, data)))


def _plan(
    before: ClusterPlan | None, data: Path, datanodes: int | None, is_ha: bool | None, port: int | None
) -> ClusterPlan:
    """The plan of the last run, if any: its files fit that number of daemons. Raises BadParameter for other options."""
    if before is not None:
        had = before
        for what, wanted, is_so in (
            (f"{len(had.datanodes)} DataNodes", datanodes, datanodes == len(had.datanodes)),
            ("two NameNodes" if had.is_ha else "one NameNode", is_ha, is_ha == had.is_ha),
            (f"its NameNode on port {had.namenodes[0].rpc.port}", port, port == had.namenodes[0].rpc.port),
        ):
            if wanted is not None and not is_so:
                raise typer.BadParameter(f"{data} holds a cluster with {what}; name another directory with --data")
        return had
    namenodes = 2 if is_ha else 1
    first = port or NAMENODE_PORT
    rpc_ports = range(first, first + namenodes)
    free = iter(pick_ports(HOST, namenodes + 3 * (datanodes or 3), Random(), exclude=rpc_ports))
    ports = [each for rpc_port in rpc_ports for each in (rpc_port, next(free))]
    return ClusterPlan.of_ports((*ports, *free), namenodes=namenodes, datanodes=datanodes or 3)


def _parsed(properties: list[str]) -> dict[str, str]:
    found = {}
    for given in properties:
        name, equals, value = given.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"--property {given!r}: write NAME=VALUE")
        found[name.strip()] = value
    return found


def _print_up(cluster: HdfsCluster | SecureHdfsCluster, data: Path) -> None:
    option = "" if data == _DEFAULT_DATA else f" --data {data}"
    if isinstance(cluster, SecureHdfsCluster):
        say("HDFS is up, with Kerberos; type first:")
        for line in what_to_export(cluster):
            say(f"  {line}")
        say(f"then give bmq a directory of it: bmq standalone --store {cluster.url}/bmq")
        for line in what_to_know(cluster):
            say(f"  {line}")
    else:
        say(f"HDFS is up; give bmq a directory of it: bmq standalone --store {cluster.url}/bmq")
    for node in cluster.plan.nodes:
        say(f"  {node.name}  {node.addresses[0]}  pid {cluster.daemon(node.name).pid}")
    say(f"from another terminal: bmq dev hdfs status{option}, bmq dev hdfs kill dn0{option}; Ctrl-C ends it")


# -- Orders --------------------------------------------------------------------------------------------------------


@hdfs_app.command("status")
def status(
    data: Data = _DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")] = False,
) -> None:
    """Every daemon: its process, and its state at the NameNodes."""
    _ORDERS.give(data, "status", as_json=as_json)


@hdfs_app.command("start")
def start(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """Start a stopped or killed daemon on its ports and files."""
    _ORDERS.give(data, "start", node)


@hdfs_app.command("stop")
def stop(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGTERM: the daemon ends in order."""
    _ORDERS.give(data, "stop", node)


@hdfs_app.command("kill")
def kill(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGKILL: as if its machine had lost power, but the system keeps its page cache."""
    _ORDERS.give(data, "kill", node)


@hdfs_app.command("pause")
def pause(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGSTOP: it hangs; its connections stay open without answers."""
    _ORDERS.give(data, "pause", node)


@hdfs_app.command("resume")
def resume(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGCONT: a paused daemon continues."""
    _ORDERS.give(data, "resume", node)


@hdfs_app.command("restart")
def restart(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """Stop and start; returns once it serves again."""
    _ORDERS.give(data, "restart", node)


@hdfs_app.command("activate")
def activate(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """With --ha: make this NameNode the active one. The other steps back, or is killed when it cannot answer."""
    _ORDERS.give(data, "activate", node)


@hdfs_app.command("down")
def down(data: Data = _DEFAULT_DATA) -> None:
    """End the cluster, as Ctrl-C in its terminal does; its files stay."""
    _ORDERS.down(data)


@hdfs_app.command("logs")
def logs(
    node: Node,
    data: Data = _DEFAULT_DATA,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines")] = LOG_TAIL_LINES,
    is_followed: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until Ctrl-C")] = False,
) -> None:
    """The end of a daemon's log, also when it is down."""
    _ORDERS.print_log(data, node, lines, is_followed=is_followed)
