"""`bmq databus run`: the agent of this host. `bmq databus tail`: what arrives in a channel's topic."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import quoted
from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP, Bootstrap, KafkaSettings, MissingLibrary
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.extras import install_command

if TYPE_CHECKING:
    from bmq.databus.agent import Agent
    from bmq.databus.settings import AgentSettings

EXTRA: Final = "databus"
GRPC_EXTRA: Final = "databus-grpc"
_NEW_OBJECTS_MAX: Final = 5_000
"""So many new objects, and they are looked through for garbage: 1 to 5 ms in which no application has an answer."""
_FAULT: Final = 70
"""EX_SOFTWARE of sysexits.h."""


def run(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A TOML file of settings: docs/DATABUS.md")
    ] = None,
    agent_id: Annotated[
        str | None, typer.Option("--agent-id", metavar="NAME", help="Name of the agent [host name]")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT[,…]", help="Servers of the cluster [127.0.0.1:9092]")
    ] = None,
    rest: Annotated[
        list[str] | None, typer.Option("--rest", metavar="URL", help="REST address of a node; may be repeated")
    ] = None,
    spool: Annotated[Path | None, typer.Option("--spool", metavar="DIR", help="Directory of the spool")] = None,
    socket: Annotated[Path | None, typer.Option("--socket", metavar="FILE", help="Path of the Unix socket")] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="ADDRESS", help="HOST:PORT or unix:PATH of the HTTP door")
    ] = None,
    grpc: Annotated[
        str | None, typer.Option("--grpc", metavar="ADDRESS", help="HOST:PORT or unix:PATH of the gRPC door [none]")
    ] = None,
) -> None:
    """Run the agent of this host: it takes records from applications, keeps them on disk and produces each of them once."""
    from bmq.databus.settings import load_settings
    from bmq.server.logs import show_logs

    options = {
        "agent_id": agent_id,
        "bootstrap": bootstrap,
        "rest": rest,
        "spool_dir": None if spool is None else str(spool),
        "socket": None if socket is None else str(socket),
        "http": http,
        "grpc": grpc,
    }
    settings = load_settings(config, os.environ, options)
    threshold = {"debug": 10, "info": 20, "warning": 30, "error": 40}[settings.log_level]
    show_logs(lambda _, level: level >= threshold, settings.log_level, "auto")
    try:
        import uvloop

        from bmq.databus.agent import Agent

        if settings.grpc:
            import grpc as _  # noqa: F401 whether it is there
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "bmq":
            raise
        if error.name == "grpc":
            raise MissingLibrary(f"the gRPC door needs grpcio: {install_command(GRPC_EXTRA)}") from error
        raise MissingLibrary(f"the agent needs {error.name.replace('_', '-')}: {install_command(EXTRA)}") from error
    threading.excepthook = _end
    is_empty = uvloop.run(_run(Agent, settings))
    if not is_empty:
        sys.stderr.write("some records are in the spool still: the next start produces them\n")
    sys.stderr.flush()
    # Threads that wait for the cluster end with the process.
    os._exit(0)


def _end(failed: threading.ExceptHookArgs) -> None:
    """A thread that ended by a fault would leave its records in the spool: end, so that the agent is started again."""
    import structlog

    error = failed.exc_value
    structlog.get_logger("bmq.databus").error(
        "databus_thread_failed",
        thread="" if failed.thread is None else failed.thread.name,
        exc_info=(failed.exc_type, error, failed.exc_traceback),
    )
    sys.stderr.flush()
    os._exit(_FAULT)


async def _run(agent_class: type[Agent], settings: AgentSettings) -> bool:
    """Until a signal. Whether all records are produced."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    agent = agent_class(settings)
    await agent.start()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS_MAX, 20, 100)
    doors = f"socket={settings.socket or '-'} http={agent.http_address or settings.http or '-'}"
    if settings.grpc:
        doors += f" grpc={agent.grpc_address}"
    sys.stdout.write(f"bmq databus ready agent={settings.agent_id} {doors}\n")
    sys.stdout.flush()
    await stopped.wait()
    return await agent.stop()


@with_login
def tail(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of the channel")],
    last: Annotated[
        int, typer.Option("--last", min=0, metavar="N", help="Begin with the last N of each partition")
    ] = 10,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N records")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on each line")] = False,
    as_values: Annotated[bool, typer.Option("--values", help="Only values, each on a line of its own")] = False,
    rest: Rest = DEFAULT_URL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
) -> None:
    """Show the newest records of the channel's topic, and wait for more, like `bmq topic consume --follow`."""
    from bmq.cli.topic_records import consume

    with ClusterClient(rest) as client:
        found: Any = client.get(f"/v1/channels/{quoted(name)}")
    channel = found.get("channel", found)
    consume(
        context,
        [channel["topic"]],
        last=last,
        limit=limit,
        is_followed=True,
        as_json=as_json,
        as_values=as_values,
        bootstrap=bootstrap,
        kafka=kafka,
    )
