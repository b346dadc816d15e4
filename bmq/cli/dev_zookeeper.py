"""`bmq dev zookeeper`: a real ZooKeeper on this machine, to elect controllers with and to break.

`up` runs it in the foreground; the other commands, from a second terminal, look at it and hurt it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from bmq.cli.dev_orders import DevOrders, say
from bmq.dev.cluster_file import exclusive
from bmq.dev.daemon import LOG_TAIL_LINES
from bmq.dev.java import (
    QUICK_START_JVM_OPTIONS,
    STEADY_JVM_OPTIONS,
    ZOOKEEPER_JARS,
    class_path,
    java_executable,
)
from bmq.dev.supervisor import supervise
from bmq.dev.zookeeper import HEAP_MB, NAME, ZooKeeperPlan, ZooKeeperServer
from bmq.election.zookeeper_address import ZOOKEEPER_PORT

zookeeper_app = typer.Typer(
    no_args_is_help=True, help="A real ZooKeeper on this machine, which can be killed and paused."
)

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Directory of the server")]
_DEFAULT_DATA: Final = Path("data/zookeeper")
_ORDERS: Final = DevOrders("bmq dev zookeeper", "ZooKeeper", "answers", ZooKeeperPlan)


@zookeeper_app.command("up")
def up(
    data: Data = _DEFAULT_DATA,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port for sessions [2181, or as before]")] = None,
    is_steady: Annotated[
        bool, typer.Option("--steady", help="Use the full compiler, for measuring; the start takes longer")
    ] = False,
    heap_mb: Annotated[int, typer.Option(min=32, help="Its heap, in MiB")] = HEAP_MB,
    jars: Annotated[
        Path, typer.Option(metavar="DIR", help="ZooKeeper's jars, as `make jars` fetches them")
    ] = ZOOKEEPER_JARS,
) -> None:
    """Start the server and run it until Ctrl-C. Its data stays for the next time."""
    java_executable()
    class_path(jars)
    with exclusive(data):
        plan = _plan(_ORDERS.before(data), data, port)
        options = STEADY_JVM_OPTIONS if is_steady else QUICK_START_JVM_OPTIONS
        server = ZooKeeperServer(data, jars, heap_mb=heap_mb, jvm_options=options, plan=plan)
        say(f"starting ZooKeeper in {data}")
        asyncio.run(supervise(server, say, lambda: _print_up(server, data)))


def _plan(before: ZooKeeperPlan | None, data: Path, port: int | None) -> ZooKeeperPlan:
    """The plan of the last run, if any. Raises BadParameter for another port."""
    if before is None:
        return ZooKeeperPlan.of_port(port or ZOOKEEPER_PORT)
    if port not in (None, before.server.client.port):
        raise typer.BadParameter(
            f"{data} holds a ZooKeeper on port {before.server.client.port}; name another directory with --data"
        )
    return before


def _print_up(server: ZooKeeperServer, data: Path) -> None:
    option = "" if data == _DEFAULT_DATA else f" --data {data}"
    say(f"ZooKeeper is up; give bmq a root of its own in it: bmq node --zookeeper {server.address}/bmq")
    say(f"  {NAME}  {server.address}  pid {server.process.pid}")
    say(f"from another terminal: bmq dev zookeeper status{option}, bmq dev zookeeper pause{option}; Ctrl-C ends it")


@zookeeper_app.command("status")
def status(
    data: Data = _DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")] = False,
) -> None:
    """Its process, and whether it opens sessions."""
    _ORDERS.give(data, "status", as_json=as_json)


@zookeeper_app.command("start")
def start(data: Data = _DEFAULT_DATA) -> None:
    """Start it after a stop or kill, on its port and data."""
    _ORDERS.give(data, "start", NAME)


@zookeeper_app.command("stop")
def stop(data: Data = _DEFAULT_DATA) -> None:
    """SIGTERM: it ends in order; the foreground command waits for it to be started again."""
    _ORDERS.give(data, "stop", NAME)


@zookeeper_app.command("kill")
def kill(data: Data = _DEFAULT_DATA) -> None:
    """SIGKILL: as if its machine had lost power, but the system keeps its page cache."""
    _ORDERS.give(data, "kill", NAME)


@zookeeper_app.command("pause")
def pause(data: Data = _DEFAULT_DATA) -> None:
    """SIGSTOP: it hangs; its connections stay open without answers."""
    _ORDERS.give(data, "pause", NAME)


@zookeeper_app.command("resume")
def resume(data: Data = _DEFAULT_DATA) -> None:
    """SIGCONT: it continues, and ends the sessions that expired meanwhile."""
    _ORDERS.give(data, "resume", NAME)


@zookeeper_app.command("restart")
def restart(data: Data = _DEFAULT_DATA) -> None:
    """Stop and start; returns once it serves again."""
    _ORDERS.give(data, "restart", NAME)


@zookeeper_app.command("down")
def down(data: Data = _DEFAULT_DATA) -> None:
    """End it, as Ctrl-C in its terminal does; its data stays."""
    _ORDERS.down(data)


@zookeeper_app.command("logs")
def logs(
    data: Data = _DEFAULT_DATA,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines")] = LOG_TAIL_LINES,
    is_followed: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until Ctrl-C")] = False,
) -> None:
    """The end of its log, also when it is down."""
    _ORDERS.print_log(data, NAME, lines, is_followed=is_followed)
