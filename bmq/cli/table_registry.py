"""`bmq table define` and `bmq table refresh`: definitions out of the schemas that a registry has."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from bmq.cli.cluster import AsJson, DryRun, Yes
from bmq.cli.cluster_output import quoted
from bmq.cli.kafka.options import kafka_settings
from bmq.cli.kafka.schema_registry import Registry
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.table_change import change_table, table_cluster
from bmq.cli.table_key import Key, Mode, changes_form
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.from_registry import DefinedTable, define_table, refreshed_table

commands = typer.Typer()
"""Part of `bmq table`."""

RegistryUrl = Annotated[
    str, typer.Option("--registry", envvar="BMQ_REGISTRY_URL", metavar="URL", help="Address of the schema registry")
]
RegistrySettings = Annotated[
    list[str] | None,
    typer.Option(
        "--registry-config",
        metavar="NAME=VALUE|@FILE",
        help="A setting of the registry's client (basic.auth.user.info, ssl.ca.location …), or a file of them",
    ),
]
Subject = Annotated[str, typer.Option("--subject", metavar="NAME", help="The registry's subject [TOPIC-value]")]
FromVersion = Annotated[
    int, typer.Option("--from-version", min=1, metavar="N", help="Leave out the subject's versions below it")
]
TableName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the table")]


@commands.command("define")
def define(
    name: TableName,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Topic of the table")],
    registry: RegistryUrl = "",
    settings: RegistrySettings = None,
    subject: Subject = "",
    from_version: FromVersion = 1,
    key: Key = "",
    mode: Mode = None,
    message: Annotated[
        str,
        typer.Option("--message", metavar="NAME", help="Of Protobuf: full name of the message [the schema's first]"),
    ] = "",
) -> None:
    """Print the definition of a table whose columns are those of a schema registry; `bmq table create -` takes it."""
    found, changes = subject or f"{topic}-value", changes_form(key, mode).get("changes")
    versions = _registry(registry, settings).versions(found, from_version)
    defined = define_table(name, topic, found, versions, changes, message)
    sys.stdout.write(f"{defined.definition.to_json(indent=2)}\n")
    _tell_left_out(defined)


@commands.command("refresh")
@with_login
def refresh(
    name: TableName,
    registry: RegistryUrl = "",
    settings: RegistrySettings = None,
    subject: Subject = "",
    from_version: FromVersion = 1,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Alter a table to the newest schema of the registry: columns and schema ids are added, its own columns stay."""
    with table_cluster(rest) as client:
        form = client.get(f"/v1/tables/{quoted(name)}")["definition"]
    present = TableDefinition.from_json(json.dumps(form))
    found = subject or f"{present.topic}-value"
    refreshed = refreshed_table(present, found, _registry(registry, settings).versions(found, from_version))
    _tell_left_out(refreshed)
    change_table(
        "PUT", f"/v1/tables/{quoted(name)}", refreshed.definition.to_json(), rest, is_dry_run, is_sure, as_json
    )


def _registry(url: str, settings: Sequence[str] | None) -> Registry:
    if not url:
        raise typer.BadParameter("name the registry's URL", param_hint="--registry")
    return Registry(url, kafka_settings(settings))


def _tell_left_out(defined: DefinedTable) -> None:
    for each in defined.left_out:
        sys.stderr.write(f"{'.'.join(each.steps)} has no column: {each.why}\n")
