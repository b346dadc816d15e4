"""`bmq acl`: the ACLs of a cluster."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from bmq.cli.kafka.acls import AclChoice, AclOperationName
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
from bmq.cli.kafka.rows import Column, counted, output_of, print_rows, printable

acl_app = typer.Typer(no_args_is_help=True, help="The ACLs of a cluster: list, add and remove them.")

_COLUMNS: Final = tuple(
    Column(name) for name in ("permission", "principal", "host", "operation", "resource", "name", "pattern")
)

Topics = Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", help="A topic; * for all")]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="NAME", help="A group; * for all")]
Ids = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id; * for all")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster as a whole")]
Prefix = Annotated[bool, typer.Option("--prefix", help="Every name that begins with the one given")]
Allowed = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="TYPE:NAME", help="The client that is allowed: User:alice, User:*"),
]
Denied = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="TYPE:NAME", help="The client that is denied, even if another ACL allows it"),
]
Operations = Annotated[list[AclOperationName] | None, typer.Option("--operation", "-o", help="May be repeated")]
Hosts = Annotated[list[str] | None, typer.Option("--host", metavar="ADDRESS", help="Only from this address")]


@acl_app.command("list")
def list_acls(
    context: typer.Context,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    is_cluster: Cluster = False,
    is_prefix: Prefix = False,
    allowed: Allowed = None,
    denied: Denied = None,
    operations: Operations = None,
    hosts: Hosts = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """ACLs that agree with all options; without options, all."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    choice = AclChoice(topics, groups, ids, is_cluster, is_prefix, allowed, denied, operations, hosts)
    entries = choice.of(connected(context, bootstrap, kafka).acls())
    print_rows(_COLUMNS, [entry._asdict() for entry in entries], output)


@acl_app.command("add")
def add(
    context: typer.Context,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    is_cluster: Cluster = False,
    is_prefix: Prefix = False,
    allowed: Allowed = None,
    denied: Denied = None,
    operations: Operations = None,
    hosts: Hosts = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    kafka: KafkaSettings = None,
) -> None:
    """Add an ACL for each combination of the options. Existing ones stay."""
    choice = AclChoice(topics, groups, ids, is_cluster, is_prefix, allowed, denied, operations, hosts)
    wanted = choice.entries()
    client = connected(context, bootstrap, kafka)
    there = set(client.acls())
    new = [entry for entry in wanted if entry not in there]
    for entry in wanted:
        sys.stdout.write(f"{printable(entry.sentence)}{'' if entry in new else ' (is there already)'}\n")
    if is_dry_run or not new:
        return
    confirm(is_sure=is_sure)
    client.add_acls(new)
    sys.stdout.write(f"added {counted(len(new), 'ACL')}\n")


@acl_app.command("remove")
def remove(
    context: typer.Context,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    is_cluster: Cluster = False,
    is_prefix: Prefix = False,
    allowed: Allowed = None,
    denied: Denied = None,
    operations: Operations = None,
    hosts: Hosts = None,
    is_all: Annotated[bool, typer.Option("--all", help="Every ACL of the cluster")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    kafka: KafkaSettings = None,
) -> None:
    """Remove the ACLs that agree with all options."""
    choice = AclChoice(topics, groups, ids, is_cluster, is_prefix, allowed, denied, operations, hosts)
    if choice.is_empty != is_all:
        raise typer.BadParameter("name the ACLs to remove, or --all for every one")
    client = connected(context, bootstrap, kafka)
    found = choice.of(client.acls())
    for entry in found:
        sys.stdout.write(f"no longer: {printable(entry.sentence)}\n")
    if not found:
        sys.stdout.write("no ACL agrees with that\n")
    if is_dry_run or not found:
        return
    confirm(is_sure=is_sure)
    client.remove_acls(found)
    sys.stdout.write(f"removed {counted(len(found), 'ACL')}\n")
