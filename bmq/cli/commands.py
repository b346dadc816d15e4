"""The commands of `bmq`; those that run a server are here, and modules a server does not need are imported late."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bmq.cli.late_groups import WithLateGroups
from bmq.cli.settings import LoadedSettings, load_settings

app = typer.Typer(
    cls=WithLateGroups,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A Kafka-compatible message queue on HDFS.",
)
config_app = typer.Typer(no_args_is_help=True, help="Look at the settings.")
app.add_typer(config_app, name="config")

Listen = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address for Kafka clients [127.0.0.1:9092]")]
Rest = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address of REST and /metrics [127.0.0.1:8080]")]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Directory of the embedded store [./data]")]
StoreUrl = Annotated[str | None, typer.Option(metavar="URL", help="Where the log lives; default: the embedded store")]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML file [./bmq.toml if there]")]


def _load(config: Path | None, **given: Any) -> LoadedSettings:
    return load_settings({name: value for name, value in given.items() if value is not None}, config)


@app.command()
def standalone(
    listen: Listen = None,
    rest: Rest = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Run a whole Kafka in one process: all roles, over the embedded store."""
    # Imported late so that `bmq --help` and `bmq config show` stay quick.
    from bmq.cli.process import run_standalone

    loaded = _load(config, listen=listen, rest=rest, data=data, store=store)
    run_standalone(loaded.settings)


@app.command()
def node(
    roles: Annotated[
        str | None, typer.Option(metavar="ROLE[,ROLE]", help="proxy, broker, coordinator, controller [all]")
    ] = None,
    node_id: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="This node's id, stable for its address")
    ] = None,
    store: StoreUrl = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOSTS", help="ZooKeeper: HOST:PORT[,HOST:PORT] and a /CHROOT")
    ] = None,
    listen: Listen = None,
    internal: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address for other nodes [127.0.0.1:9093]")
    ] = None,
    rest: Rest = None,
    rack: Annotated[str | None, typer.Option(metavar="RACK", help="Rack or zone of this node")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Supervise N processes: nodes with the ids and ports that follow [0]"),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Run one node of a cluster: any roles, over HDFS, found through ZooKeeper."""
    from bmq.cli.node_process import run_node

    loaded = _load(
        config,
        roles=roles,
        node_id=node_id,
        store=store,
        zookeeper=zookeeper,
        listen=listen,
        internal=internal,
        rest=rest,
        rack=rack,
        workers=workers,
    )
    run_node(loaded.settings)


@config_app.command("show")
def config_show(
    listen: Listen = None,
    rest: Rest = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Print the effective settings and where each came from."""
    from rich.console import Console
    from rich.table import Table

    loaded = _load(config, listen=listen, rest=rest, data=data, store=store)
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for origin in loaded.origins:
        table.add_row(origin.name, "" if origin.value is None else str(origin.value), origin.source)
    Console(soft_wrap=True).print(table)
