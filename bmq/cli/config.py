"""`bmq config`: the settings of this machine's server, and the configs of a cluster's topics, brokers and groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from bmq.cli.kafka.completion import complete_resources
from bmq.cli.kafka.config_changes import parse_changes, plan_lines
from bmq.cli.kafka.model import Config, ConfigKind, NotFound
from bmq.cli.kafka.options import (
    DEFAULT_BOOTSTRAP,
    AsCsv,
    AsJson,
    Bootstrap,
    DryRun,
    KafkaSettings,
    Yes,
    confirm,
    connected,
)
from bmq.cli.kafka.rows import Column, output_of, print_rows
from bmq.cli.setting_options import HIDDEN, ConfigFile, Data, Listen, Rest, StoreUrl, load, shown_settings
from bmq.cli.terminal import console

if TYPE_CHECKING:
    from bmq.cli.kafka.client import KafkaClient

config_app = typer.Typer(
    no_args_is_help=True,
    help="Settings of a server on this machine (show); configs of a cluster's topics, brokers and groups.",
)

_COLUMNS: Final = (
    Column("kind"),
    Column("name"),
    Column("config"),
    Column("value", text=lambda value: '""' if value == "" else "-" if value is None else str(value)),
    Column("source", "from"),
    Column("read_only", "", lambda is_so: "read only" if is_so else ""),
)

Kind = Annotated[ConfigKind, typer.Argument(metavar="topic|broker|group", help="Kind of resource")]


@config_app.command("show")
def show(
    listen: Listen = None,
    rest: Rest = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Print the effective settings of a server on this machine, and where each came from."""
    loaded = load(config, listen=listen, rest=rest, data=data, store=store)
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for one in shown_settings(loaded):
        table.add_row(*one)
    console().print(table)


@config_app.command("describe")
def describe(
    context: typer.Context,
    kind: Kind,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME…", help="Topics, ids of brokers, or groups", autocompletion=complete_resources),
    ],
    has_defaults: Annotated[bool, typer.Option("--all", help="Include defaults")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Configs that differ from their defaults, and the source of each."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    client = connected(context, bootstrap, kafka)
    _require_existing(client, kind, names)
    rows = [
        _row(kind, name, config)
        for name in dict.fromkeys(names)
        for config in client.configs(kind, name)
        if has_defaults or config.source != "default"
    ]
    print_rows(_COLUMNS, rows, output)


@config_app.command("alter")
def alter(
    context: typer.Context,
    kind: Kind,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A topic, the id of a broker, or a group", autocompletion=complete_resources
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONFIG=VALUE…]", help="CONFIG+=VALUE and CONFIG-=VALUE change a list"),
    ] = None,
    deleted: Annotated[
        list[str] | None,
        typer.Option("--delete", "-d", metavar="CONFIG", help="Reset this config to its default; may be repeated"),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    kafka: KafkaSettings = None,
) -> None:
    """Change configs, all of them or none. The cluster checks them before it changes anything."""
    wanted = parse_changes(changes or (), deleted or ())
    if not wanted:
        raise typer.BadParameter("nothing to change: give CONFIG=VALUE or --delete CONFIG")
    client = connected(context, bootstrap, kafka)
    _require_existing(client, kind, [name])
    client.alter_configs(kind, name, wanted, is_dry_run=True)
    sys.stdout.write(f"{kind} {name}\n")
    for line in plan_lines(wanted, client.configs(kind, name)):
        sys.stdout.write(f"  {line}\n")
    if is_dry_run:
        return
    confirm(is_sure=is_sure)
    client.alter_configs(kind, name, wanted)
    sys.stdout.write("done\n")


def _require_existing(client: KafkaClient, kind: ConfigKind, names: Sequence[str]) -> None:
    """Raises NotFound. Groups may have configs before they exist.

    librdkafka asks brokers themselves, and would wait for one that does not exist.
    """
    if kind is ConfigKind.BROKER:
        there = [str(broker) for broker in client.brokers()]
    elif kind is ConfigKind.TOPIC:
        there = list(client.topics(names))
    else:
        return
    if missing := [name for name in names if name not in there]:
        known = f"; there are {', '.join(there)}" if kind is ConfigKind.BROKER else ""
        raise NotFound(f"there is no {kind} {', '.join(map(repr, missing))}{known}")


def _row(kind: ConfigKind, name: str, config: Config) -> dict[str, Any]:
    return {
        "kind": kind.value,
        "name": name,
        "config": config.name,
        "value": HIDDEN if config.is_sensitive else config.value,
        "source": config.source,
        "read_only": config.is_read_only,
    }
