"""`bmq dev hdfs`: a real HDFS on this machine, to try things on and to break.

`up` runs it in the foreground; the other commands, from a second terminal, look at it and hurt it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from bmq.dev.cluster_file import ClusterBusy, ClusterFile, NoCluster, exclusive
from bmq.dev.control import NodeStatus, give_order
from bmq.dev.daemon import LOG_TAIL_LINES
from bmq.dev.hadoop_configuration import HOST, QUICK_PROPERTIES, ClusterPlan
from bmq.dev.hdfs import HEAP_MB, ClusterFailed, HdfsCluster
from bmq.dev.java import HADOOP_JARS, QUICK_START_JVM_OPTIONS, STEADY_JVM_OPTIONS, class_path, java_executable
from bmq.dev.ports import pick_ports
from bmq.dev.supervisor import supervise
from bmq.hdfs.config import NAMENODE_PORT, Address

dev_app = typer.Typer(no_args_is_help=True, help="What development needs: clusters on this machine.")
hdfs_app = typer.Typer(no_args_is_help=True, help="A real HDFS on this machine, whose daemons can be hurt.")
dev_app.add_typer(hdfs_app, name="hdfs")

# Ending the daemons takes seconds; the first cluster then makes an archive of their classes.
DOWN_WAIT_S: Final = 120.0
LOOK_INTERVAL_S: Final = 0.1
DATANODES_MAX: Final = 20

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Directory of the cluster")]
Node = Annotated[str, typer.Argument(metavar="NODE", help="nn0, dn0, dn1, … as `status` lists them")]
_DEFAULT_DATA: Final = Path("data/hdfs")


# -- Up ------------------------------------------------------------------------------------------------------------


@hdfs_app.command("up")
def up(
    data: Data = _DEFAULT_DATA,
    datanodes: Annotated[
        int | None, typer.Option(min=1, max=DATANODES_MAX, help="How many DataNodes [3, or as before]")
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
        bool, typer.Option("--steady", help="Compile as a real server would: for measuring; the start takes longer")
    ] = False,
    heap_mb: Annotated[int, typer.Option(min=96, help="Heap of each daemon, in MiB")] = HEAP_MB,
    jars: Annotated[Path, typer.Option(metavar="DIR", help="Hadoop's jars, as `make jars` fetches them")] = HADOOP_JARS,
) -> None:
    """Start the cluster (the first time: make it) and run it until Ctrl-C. Its files stay for the next time."""
    java_executable()
    class_path(jars)
    with exclusive(data):
        plan = _plan(ClusterFile.read(data), data, datanodes, is_ha, port)
        given = {**_UP_PROPERTIES, **(QUICK_PROPERTIES if is_quick else {}), **_parsed(properties or [])}
        cluster = HdfsCluster(
            data,
            jars,
            properties=given,
            is_permission_checked=is_permission_checked,
            heap_mb=heap_mb,
            jvm_options=STEADY_JVM_OPTIONS if is_steady else QUICK_START_JVM_OPTIONS,
            plan=plan,
        )
        _say(f"starting {len(plan.namenodes)} NameNode(s) and {len(plan.datanodes)} DataNode(s) in {data}")
        asyncio.run(supervise(cluster, _say, lambda: _print_up(cluster, data)))


# A restarted NameNode would refuse writes for 30 s more, so that DataNodes far away can report; here none is.
_UP_PROPERTIES: Final = {"dfs.namenode.safemode.extension": "0"}


def _plan(
    before: ClusterFile | None, data: Path, datanodes: int | None, is_ha: bool | None, port: int | None
) -> ClusterPlan:
    """The ports of before where there was a before; its files are tied to the number of daemons, not to their ports."""
    if before is not None:
        had = before.plan
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


def _print_up(cluster: HdfsCluster, data: Path) -> None:
    option = "" if data == _DEFAULT_DATA else f" --data {data}"
    _say(f"HDFS is up; give bmq a directory of it: bmq standalone --store {cluster.url}/bmq")
    for node in cluster.plan.nodes:
        _say(f"  {node.name}  {node.addresses[0]}  pid {cluster.daemon(node.name).pid}")
    _say(f"from another terminal: bmq dev hdfs status{option}, bmq dev hdfs kill dn0{option}; Ctrl-C ends it")


# -- Orders --------------------------------------------------------------------------------------------------------


@hdfs_app.command("status")
def status(
    data: Data = _DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")] = False,
) -> None:
    """Every daemon: its process, and what the NameNodes make of it."""
    _order(data, "status", as_json=as_json)


@hdfs_app.command("start")
def start(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """Start a stopped or killed daemon on its ports and files."""
    _order(data, "start", node)


@hdfs_app.command("stop")
def stop(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGTERM: the daemon ends in order."""
    _order(data, "stop", node)


@hdfs_app.command("kill")
def kill(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGKILL: as if its machine had lost power, but for what the system still keeps in memory."""
    _order(data, "kill", node)


@hdfs_app.command("pause")
def pause(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGSTOP: it hangs; its connections stay open and nothing is answered."""
    _order(data, "pause", node)


@hdfs_app.command("resume")
def resume(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """SIGCONT: a paused daemon goes on."""
    _order(data, "resume", node)


@hdfs_app.command("restart")
def restart(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """Stop and start; returns once it serves again."""
    _order(data, "restart", node)


@hdfs_app.command("activate")
def activate(node: Node, data: Data = _DEFAULT_DATA) -> None:
    """With --ha: make this NameNode the active one. The other steps back, or is killed when it cannot answer."""
    _order(data, "activate", node)


@hdfs_app.command("down")
def down(data: Data = _DEFAULT_DATA) -> None:
    """End the cluster, as Ctrl-C in its terminal does; its files stay."""
    running = _running(data)
    asyncio.run(give_order(_control(running, data), "down"))
    deadline = time.monotonic() + DOWN_WAIT_S
    while time.monotonic() < deadline:
        try:
            with exclusive(data):
                return
        except ClusterBusy:
            time.sleep(LOOK_INTERVAL_S)
    raise ClusterFailed(f"the cluster on {data} is still running after {DOWN_WAIT_S:g} s")


@hdfs_app.command("logs")
def logs(
    node: Node,
    data: Data = _DEFAULT_DATA,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines")] = LOG_TAIL_LINES,
    is_followed: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C")] = False,
) -> None:
    """The end of a daemon's log, of one that is down as well."""
    found = _known(data)
    _check_node(found, node)
    path = data / "log" / f"{node}.log"
    try:
        with path.open(errors="replace") as log:
            for line in deque(log, maxlen=lines):
                sys.stdout.write(line)
            log.seek(0, 2)
            while is_followed:
                if text := log.read():
                    sys.stdout.write(text)
                sys.stdout.flush()
                time.sleep(LOOK_INTERVAL_S)
    except FileNotFoundError:
        raise NoCluster(f"{node} has no log in {data} yet") from None
    except KeyboardInterrupt:
        return


def _order(data: Path, order: str, node: str = "", *, as_json: bool = False) -> None:
    running = _running(data)
    if node:
        _check_node(running, node)
    _print_nodes(asyncio.run(give_order(_control(running, data), order, node)), as_json=as_json)


def _known(data: Path) -> ClusterFile:
    found = ClusterFile.read(data)
    if found is None:
        raise NoCluster(f"there is no cluster in {data}: `bmq dev hdfs up` makes one, --data names another directory")
    return found


def _running(data: Path) -> ClusterFile:
    found = _known(data)
    try:
        with exclusive(data):
            pass
    except ClusterBusy:
        return found
    raise NoCluster(f"the cluster in {data} is not running: start it with `bmq dev hdfs up`")


def _control(running: ClusterFile, data: Path) -> Address:
    if running.control is None:
        raise NoCluster(f"the cluster in {data} is still starting, or ending")
    return running.control


def _check_node(found: ClusterFile, node: str) -> None:
    known = [each.name for each in found.plan.nodes]
    if node not in known:
        raise typer.BadParameter(f"there is no node {node!r}; this cluster has {', '.join(known)}")


def _print_nodes(nodes: list[NodeStatus], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([asdict(node) for node in nodes], indent=2))
        return
    table = Table("node", "process", "NameNode says", "pid", "address", box=None, pad_edge=False)
    for node in nodes:
        pid = "" if node.pid is None else str(node.pid)
        table.add_row(node.name, node.state, node.role, pid, node.address)
    Console(soft_wrap=True).print(table)


def _say(text: str) -> None:
    typer.echo(text)
    sys.stdout.flush()
