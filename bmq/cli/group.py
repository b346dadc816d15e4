"""`bmq group`: consumer groups of any Kafka cluster: who reads what, how far behind, and from where on."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bmq.cli.cluster_client import ClusterClient
from bmq.cli.group_explain import explain
from bmq.cli.group_rest import EXPLAINED_KINDS, groups_at, lags_at
from bmq.cli.kafka.completion import complete_groups
from bmq.cli.kafka.group_lag import PartitionLag, partition_lags, topic_lags
from bmq.cli.kafka.model import Group, GroupDetails, KafkaFailed, NotFound, Partition
from bmq.cli.kafka.offset_reset import (
    BadReset,
    OffsetMove,
    parse_plan,
    parse_scope,
    plan_reset,
    shifted,
    topic_of_scope,
)
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
from bmq.cli.kafka.rows import Column, Output, counted, output_of, print_head, print_rows
from bmq.cli.redrive import redrive_app
from bmq.cli.rest_options import with_login
from bmq.cli.terminal import print_json
from bmq.spark.jobs.time_text import milliseconds

if TYPE_CHECKING:
    from bmq.cli.kafka.client import KafkaClient

group_app = typer.Typer(
    no_args_is_help=True,
    help="Consumer groups of a cluster: list, describe, lag, reset their offsets, delete; redrive dead letters.",
)
group_app.command("explain")(explain)
group_app.add_typer(redrive_app)

PLAN_BYTES_MAX: Final = 64 << 20
_LIST: Final = (Column("group"), Column("kind"), Column("state"))
_PARTITIONS: Final = (
    Column("group"),
    Column("topic"),
    Column("partition"),
    Column("committed"),
    Column("end_offset", "end"),
    Column("lag"),
    Column("member_id", "member"),
    Column("client_id", "client"),
    Column("host"),
)
_MEMBERS: Final = (
    Column("group"),
    Column("member_id", "member"),
    Column("instance_id", "instance"),
    Column("client_id", "client"),
    Column("host"),
    Column("assigned", "partitions"),
)
_LAGS: Final = (
    Column("group"),
    Column("topic"),
    Column("partitions"),
    Column("lag"),
    Column("max_lag", "most in one"),
    Column("unknown", "without offset"),
)
_PLAN: Final = (
    Column("topic"),
    Column("partition"),
    Column("committed"),
    Column("offset", "new"),
    Column("start_offset", "start"),
    Column("end_offset", "end"),
    Column("note", ""),
)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group", autocompletion=complete_groups)]
GroupNames = Annotated[
    list[str], typer.Argument(metavar="GROUP…", help="Names of groups", autocompletion=complete_groups)
]
FromRest = Annotated[
    str | None,
    typer.Option(
        "--rest",
        metavar="URL",
        help="Ask the REST API of any node instead: it has groups of all kinds [http://127.0.0.1:8080]",
    ),
]
Pattern = Annotated[str | None, typer.Option("--pattern", metavar="REGEX", help="Groups whose whole name matches")]


@group_app.command("list")
@with_login
def group_list(
    context: typer.Context,
    pattern: Pattern = None,
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only in this state: stable, empty …")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rest: FromRest = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Groups in the order of their names. Share and streams groups are listed with --rest alone."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    if rest is None:
        there = connected(context, bootstrap, kafka).groups()
    else:
        with ClusterClient(rest) as client:
            there = list(groups_at(client))
    found = _matching(there, pattern)
    wanted = {state.lower() for state in states or ()}
    rows = [
        {"group": each.name, "kind": each.kind, "state": each.state, "is_simple": each.is_simple}
        for each in found
        if not wanted or each.state in wanted
    ]
    print_rows(_LIST, rows, output)


@group_app.command("describe")
def describe(
    context: typer.Context,
    groups: GroupNames,
    has_members: Annotated[bool, typer.Option("--members", help="Members and their assignments")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Members, committed offsets and lag of each partition."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    client = connected(context, bootstrap, kafka)
    found = [(details, _lags(client, details)) for details in _existing(client, groups)]
    columns = _MEMBERS if has_members else _PARTITIONS
    if output is Output.JSON:
        print_json([_document(details, lags) for details, lags in found])
        return
    if output is Output.CSV:
        rows = [row for details, lags in found for row in _rows(details, lags, has_members=has_members)]
        print_rows(columns, rows, output)
        return
    for number, (details, lags) in enumerate(found):
        if number:
            sys.stdout.write("\n")
        print_head(
            (
                ("group", details.name),
                ("kind", details.kind),
                ("state", details.state),
                ("assignor", details.assignor or None),
                ("coordinator", None if details.coordinator is None else f"node {details.coordinator}"),
                ("members", len(details.members)),
                ("lag", sum(each.lag or 0 for each in lags)),
            )
        )
        sys.stdout.write("\n")
        print_rows(columns[1:], _rows(details, lags, has_members=has_members), output)


@group_app.command("lag")
@with_login
def lag(
    context: typer.Context,
    groups: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP…]", help="Names of groups [all of them]", autocompletion=complete_groups),
    ] = None,
    pattern: Pattern = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rest: FromRest = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Lag of groups in each topic, in offsets. For share groups (with --rest): records that are not done."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    if rest is None:
        client = connected(context, bootstrap, kafka)
        if groups:
            found = _existing(client, groups)
        else:
            found = [_undescribed(each) for each in _matching(client.groups(), pattern)]
        lags = [(details.name, topic_lags(_lags(client, details))) for details in found]
    else:
        with ClusterClient(rest) as asked:
            names = groups or [
                each.name for each in _matching(groups_at(asked), pattern) if each.kind in EXPLAINED_KINDS
            ]
            lags = [(name, lags_at(asked, name)) for name in dict.fromkeys(names)]
    rows = [
        {
            "group": name,
            "topic": each.topic,
            "partitions": each.partitions,
            "lag": each.lag,
            "max_lag": each.max_lag,
            "unknown": each.unknown_count,
        }
        for name, found_lags in lags
        for each in found_lags
    ]
    print_rows(_LAGS, rows, output)


@group_app.command("reset")
def reset(
    context: typer.Context,
    group: GroupName,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC[:N,…]", help="A topic, or some partitions of it")
    ] = None,
    is_all: Annotated[bool, typer.Option("--all-topics", help="All topics in which the group has offsets")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the beginning of each log")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of each log")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the present offsets; with --csv this prints a plan to keep")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="To this offset")] = None,
    to_time: Annotated[
        str,
        typer.Option(
            "--to-time", metavar="TIME", help="To the first record at or after this time: 2026-11-24T10:00, -2h"
        ),
    ] = "",
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="By N offsets from the present one; -N: back")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="CSV with topic, partition, offset, in the form of a plan"),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Set the offsets at which a group continues. It must have no members. The plan is shown first."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    given = (to_earliest, to_latest, to_current, to_offset is not None, bool(to_time), shift_by is not None, from_file)
    if sum(map(bool, given)) != 1:
        raise typer.BadParameter("one of --to-earliest, -latest, -current, -offset, -time, --shift-by and --from-file")
    if (from_file is not None) + bool(topics) + is_all != 1:
        raise typer.BadParameter("one of --topic and --all-topics, or --from-file without them")
    client = connected(context, bootstrap, kafka)
    committed = client.committed(group)
    if from_file is not None:
        wanted = _plan_in(from_file)
        _require_partitions(client, wanted)
        partitions = sorted(wanted)
    else:
        partitions = _scope(client, topics, committed)
    if not partitions:
        raise NotFound(f"group {group!r} has no committed offsets; name topics with --topic")
    starts, ends = client.offsets(partitions, "earliest"), client.offsets(partitions, "latest")
    if from_file is None:
        if to_current:
            wanted = {at: committed[at] for at in partitions if at in committed}
        elif shift_by is not None:
            wanted = shifted(partitions, committed, shift_by)
        elif to_time:
            at_time = client.offsets(partitions, milliseconds(to_time, now_ms=time.time_ns() // 1_000_000))
            wanted = {at: ends[at] if offset < 0 else offset for at, offset in at_time.items()}
        elif to_offset is not None:
            wanted = dict.fromkeys(partitions, to_offset)
        else:
            wanted = starts if to_earliest else ends
    moves = plan_reset(wanted, committed, starts, ends)
    print_rows(_PLAN, _plan_rows(moves), output)
    changes = {move.partition: move.offset for move in moves if move.is_change}
    if is_dry_run or to_current:
        return
    if not changes:
        _say(output, "nothing to change")
        return
    _require_no_members(client, group)
    confirm(is_sure=is_sure, question=f"Set {counted(len(changes), 'offset')} of group {group}?")
    client.commit(group, changes)
    _say(output, f"{counted(len(changes), 'offset')} of group {group} set")


@group_app.command("delete")
def delete(
    context: typer.Context,
    groups: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP…]", help="Names of groups; or --pattern", autocompletion=complete_groups),
    ] = None,
    pattern: Pattern = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    kafka: KafkaSettings = None,
) -> None:
    """Delete groups and their offsets. The cluster refuses to delete a group with members."""
    if not groups and pattern is None:
        raise typer.BadParameter("name groups, or give --pattern")
    client = connected(context, bootstrap, kafka)
    there = {each.name: each for each in client.groups()}
    if missing := [name for name in groups or () if name not in there]:
        raise NotFound(f"there is no group {', '.join(map(repr, missing))}")
    found = {name: there[name] for name in groups or ()}
    if pattern is not None:
        found |= {each.name: each for each in _matching(there.values(), pattern)}
    if not found:
        sys.stdout.write("no such group is there\n")
        return
    for name, each in found.items():
        sys.stdout.write(
            f"group {name}: {each.kind}, {each.state}, offsets in {counted(len(client.committed(name)), 'partition')}\n"
        )
    if is_dry_run:
        return
    confirm(is_sure=is_sure, question=f"Delete {counted(len(found), 'group')} for good?")
    for name in found:
        client.delete_group(name)
        sys.stdout.write(f"group {name} was deleted\n")


# -- What they have in common ------------------------------------------------------------------------------------------


def _matching(groups: Iterable[Group], pattern: str | None) -> list[Group]:
    if pattern is None:
        return list(groups)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise typer.BadParameter(f"{pattern!r} is no regular expression: {error}", param_hint="--pattern") from error
    return [each for each in groups if wanted.fullmatch(each.name)]


def _undescribed(group: Group) -> GroupDetails:
    return GroupDetails(group.name, group.kind, group.state, "", None, ())


def _existing(client: KafkaClient, names: Sequence[str]) -> list[GroupDetails]:
    """In the order of `names`; without members for kinds that cannot be described. Raises NotFound."""
    there = {each.name: each for each in client.groups()}
    if missing := [name for name in names if name not in there]:
        raise NotFound(
            f"there is no group {', '.join(map(repr, missing))}; for a share group see `bmq group explain` and --rest"
        )
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append(client.group(name))
        except KafkaFailed:
            if there[name].kind != "other":
                raise
            found.append(_undescribed(there[name]))
    return found


def _lags(client: KafkaClient, details: GroupDetails) -> list[PartitionLag]:
    committed = client.committed(details.name)
    assigned = {at for member in details.members for at in member.assigned}
    topics = client.topics({topic for topic, _ in committed.keys() | assigned})
    there = {key for topic in topics.values() for key in topic.keys}
    return partition_lags(details, committed, client.offsets(sorted((committed.keys() | assigned) & there), "latest"))


def _rows(details: GroupDetails, lags: Sequence[PartitionLag], *, has_members: bool) -> list[dict[str, Any]]:
    if has_members:
        return [
            {
                "group": details.name,
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "assigned": [f"{topic}-{partition}" for topic, partition in member.assigned],
            }
            for member in details.members
        ]
    return [
        {
            "group": details.name,
            "topic": each.partition[0],
            "partition": each.partition[1],
            "committed": each.committed,
            "end_offset": each.end,
            "lag": each.lag,
            "member_id": None if each.member is None else each.member.member_id,
            "client_id": None if each.member is None else each.member.client_id,
            "host": None if each.member is None else each.member.host,
        }
        for each in lags
    ]


def _document(details: GroupDetails, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    def without_group(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in row.items() if name != "group"} for row in rows]

    return {
        "group": details.name,
        "kind": details.kind,
        "state": details.state,
        "assignor": details.assignor or None,
        "coordinator": details.coordinator,
        "lag": sum(each.lag or 0 for each in lags),
        "members": without_group(_rows(details, lags, has_members=True)),
        "partitions": without_group(_rows(details, lags, has_members=False)),
    }


# -- Reset -------------------------------------------------------------------------------------------------------------


def _scope(client: KafkaClient, topics: Sequence[str] | None, committed: Mapping[Partition, int]) -> list[Partition]:
    """The partitions named, or those with a committed offset whose topics are still there. Raises BadReset."""
    if topics:
        found = client.topics(map(topic_of_scope, topics))
        return parse_scope(topics, {name: len(topic.partitions) for name, topic in found.items()})
    there = client.topics({topic for topic, _ in committed})
    return sorted(key for topic in there.values() for key in topic.keys if key in committed)


def _plan_in(path: Path) -> dict[Partition, int]:
    """Raises BadReset."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(PLAN_BYTES_MAX + 1)
    except OSError as error:
        raise BadReset(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadReset(f"{path} is not UTF-8") from None
    if len(text) > PLAN_BYTES_MAX:
        raise BadReset(f"{path} has more than {PLAN_BYTES_MAX} characters")
    return parse_plan(text.splitlines(keepends=True), str(path))


def _require_partitions(client: KafkaClient, wanted: Iterable[Partition]) -> None:
    asked = sorted(wanted)
    found = client.topics({topic for topic, _ in asked})
    parse_scope(
        [f"{topic}:{number}" for topic, number in asked], {name: len(t.partitions) for name, t in found.items()}
    )


def _require_no_members(client: KafkaClient, group: str) -> None:
    """The cluster would refuse it too, in words that say less. Raises KafkaFailed."""
    listed = {each.name: each for each in client.groups()}
    if group not in listed or listed[group].kind == "other":
        return
    if count := len(client.group(group).members):
        raise BadReset(f"group {group!r} has {counted(count, 'member')}; end them first")


def _plan_rows(moves: Iterable[OffsetMove]) -> list[dict[str, Any]]:
    return [
        {
            "topic": move.partition[0],
            "partition": move.partition[1],
            "committed": move.before,
            "offset": move.offset,
            "start_offset": move.start,
            "end_offset": move.end,
            "note": move.note,
        }
        for move in moves
    ]


def _say(output: Output, sentence: str) -> None:
    """Behind a table; a document on standard output stays whole."""
    (sys.stdout if output is Output.TABLE else sys.stderr).write(f"{sentence}\n")
