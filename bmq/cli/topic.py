"""`bmq topic`: the topics of any Kafka cluster."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bmq.cli.kafka.completion import complete_topics
from bmq.cli.kafka.config_changes import parse_changes, plan_lines
from bmq.cli.kafka.model import Config, ConfigKind, KafkaFailed, NotFound, Partition, Topic
from bmq.cli.kafka.offset_ranges import offset_ranges
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
    settings_of,
)
from bmq.cli.kafka.rows import Column, Output, counted, output_of, print_head, print_rows
from bmq.cli.terminal import print_json
from bmq.cli.topic_half import half_app
from bmq.cli.topic_records import chosen_partitions, consume, produce
from bmq.cli.topic_timers import timers_app
from bmq.spark.jobs.time_text import milliseconds

if TYPE_CHECKING:
    from bmq.cli.kafka.client import KafkaClient

topic_app = typer.Typer(
    no_args_is_help=True, help="Topics of a cluster: list, describe, create, alter, delete, read and write."
)

topic_app.add_typer(half_app)

_PAGE: Final = 500
_LIST: Final = (Column("topic"), Column("partitions"), Column("replication"), Column("topic_id", "id"))
_PARTITIONS: Final = (
    Column("topic"),
    Column("partition"),
    Column("leader", text=lambda leader: "nobody" if leader is None else str(leader)),
    Column("replicas"),
    Column("isr"),
    Column("start_offset", "start"),
    Column("end_offset", "end"),
    Column("offsets"),
)

_DELETED: Final = (
    Column("topic"),
    Column("partition"),
    Column("start_offset", "start"),
    Column("new_start_offset", "new start"),
    Column("offsets", "deleted"),
)

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic", autocompletion=complete_topics)]
TopicNames = Annotated[
    list[str], typer.Argument(metavar="TOPIC…", help="Names of topics", autocompletion=complete_topics)
]
Pattern = Annotated[str | None, typer.Option("--pattern", metavar="REGEX", help="Topics whose whole name matches")]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A config of the topic; may be repeated"),
]


@topic_app.command("list")
def topic_list(
    context: typer.Context,
    pattern: Pattern = None,
    has_internal: Annotated[bool, typer.Option("--internal", help="Internal topics as well")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Topics in the order of their names."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    client = connected(context, bootstrap, kafka)
    names = _matching(client.topic_names(), pattern)
    found = [topic for topic in _described(client, names) if has_internal or not topic.is_internal]
    print_rows(
        _LIST,
        [
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "replication": topic.replication,
                "topic_id": topic.topic_id,
                "is_internal": topic.is_internal,
            }
            for topic in found
        ],
        output,
    )


@topic_app.command("describe")
def describe(
    context: typer.Context,
    topics: TopicNames,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Partitions of topics with their leaders and offsets, and configs that differ from their defaults."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    client = connected(context, bootstrap, kafka)
    found = _existing(client, topics)
    starts, ends = _bounds(client, found)
    configs = {topic.name: client.configs(ConfigKind.TOPIC, topic.name) for topic in found}
    if output is Output.JSON:
        print_json([_document(topic, configs[topic.name], starts, ends) for topic in found])
        return
    if output is Output.CSV:
        print_rows(_PARTITIONS, [row for topic in found for row in _partition_rows(topic, starts, ends)], output)
        return
    for number, topic in enumerate(found):
        if number:
            sys.stdout.write("\n")
        rows = _partition_rows(topic, starts, ends)
        print_head(
            (
                ("topic", f"{topic.name} (internal)" if topic.is_internal else topic.name),
                ("id", topic.topic_id),
                ("partitions", len(topic.partitions)),
                ("replication", topic.replication),
                ("offsets", sum(row["offsets"] or 0 for row in rows)),
                *((f"config {each.name}", each.value) for each in _set_configs(configs[topic.name])),
            )
        )
        sys.stdout.write("\n")
        print_rows(_PARTITIONS[1:], rows, output)


@topic_app.command("create")
def create(
    context: typer.Context,
    topics: TopicNames,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, metavar="N", help="Number of partitions [the cluster's default]"),
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option("--replication", "-r", min=1, metavar="N", help="Replication factor [the cluster's default]"),
    ] = None,
    configs: Configs = None,
    is_idempotent: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if the topic exists")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    kafka: KafkaSettings = None,
) -> None:
    """Create topics. With --dry-run the cluster checks everything and creates nothing."""
    given = settings_of(configs, "--config")
    client = connected(context, bootstrap, kafka)
    there = client.topics(topics) if is_idempotent else {}
    for name in dict.fromkeys(topics):
        if name in there:
            sys.stdout.write(
                f"topic {name} is there already, with {counted(len(there[name].partitions), 'partition')}\n"
            )
            continue
        client.create_topic(
            name,
            partitions=-1 if partitions is None else partitions,
            replication=-1 if replication is None else replication,
            configs=given,
            is_dry_run=is_dry_run,
        )
        sys.stdout.write(f"topic {name} {'can be' if is_dry_run else 'was'} made\n")


@topic_app.command("alter")
def alter(
    context: typer.Context,
    topic: TopicName,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, metavar="N", help="New total number of partitions")
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option(
            "--config", "-c", metavar="NAME=VALUE", help="Set a config; NAME+=VALUE and NAME-=VALUE change a list"
        ),
    ] = None,
    deleted: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="NAME", help="Reset this config to its default")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    kafka: KafkaSettings = None,
) -> None:
    """Add partitions to a topic, or change its configs. The cluster checks everything before it changes anything."""
    changes = parse_changes(configs or (), deleted or ())
    if partitions is None and not changes:
        raise typer.BadParameter("nothing to change: give --partitions, --config or --delete-config")
    client = connected(context, bootstrap, kafka)
    (found,) = _existing(client, [topic])
    lines = []
    if partitions is not None:
        client.add_partitions(topic, partitions, is_dry_run=True)
        lines.append(f"partitions: {len(found.partitions)} -> {partitions}; keys go to other partitions from then on")
    if changes:
        client.alter_configs(ConfigKind.TOPIC, topic, changes, is_dry_run=True)
        lines += plan_lines(changes, client.configs(ConfigKind.TOPIC, topic))
    sys.stdout.write("".join(f"{line}\n" for line in (f"topic {topic}", *(f"  {line}" for line in lines))))
    if is_dry_run:
        return
    confirm(is_sure=is_sure)
    if changes:
        client.alter_configs(ConfigKind.TOPIC, topic, changes)
    if partitions is not None:
        client.add_partitions(topic, partitions)
    sys.stdout.write("done\n")


@topic_app.command("delete")
def delete(
    context: typer.Context,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC…]", help="Names of topics; or --pattern", autocompletion=complete_topics),
    ] = None,
    pattern: Pattern = None,
    is_idempotent: Annotated[bool, typer.Option("--if-exists", help="Succeed if a topic does not exist")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    kafka: KafkaSettings = None,
) -> None:
    """Delete topics and all their records. Internal topics are deleted by name only."""
    if not topics and pattern is None:
        raise typer.BadParameter("name topics, or give --pattern")
    client = connected(context, bootstrap, kafka)
    found = list(client.topics(topics or ()).values()) if is_idempotent else _existing(client, topics or ())
    if pattern is not None:
        named = {topic.name for topic in found}
        matching = _described(client, _matching(client.topic_names(), pattern))
        found += [topic for topic in matching if topic.name not in named and not topic.is_internal]
    if not found:
        sys.stdout.write("no such topic is there\n")
        return
    starts, ends = _bounds(client, found)
    for topic in found:
        held = sum(ends[key] - starts[key] for key in topic.keys if key in starts and key in ends)
        sys.stdout.write(
            f"topic {topic.name}: {counted(len(topic.partitions), 'partition')}, {counted(held, 'offset')}\n"
        )
    if is_dry_run:
        return
    confirm(is_sure=is_sure, question=f"Delete {counted(len(found), 'topic')} for good?")
    for topic in found:
        client.delete_topic(topic.name)
        sys.stdout.write(f"topic {topic.name} was deleted\n")


@topic_app.command("delete-records")
def delete_records(
    context: typer.Context,
    topic: TopicName,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only these; may be repeated")
    ] = None,
    before_offset: Annotated[
        int | None, typer.Option("--before-offset", min=0, metavar="N", help="Records before this offset")
    ] = None,
    before_time: Annotated[
        str, typer.Option("--before", metavar="TIME", help="Records before the first one at or after this time: -7d")
    ] = "",
    is_all: Annotated[bool, typer.Option("--all", help="All records there are now")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """Delete the oldest records of a topic. The plan is shown first."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    if (before_offset is not None) + bool(before_time) + is_all != 1:
        raise typer.BadParameter("one of --before-offset, --before and --all")
    client = connected(context, bootstrap, kafka)
    (found,) = _existing(client, [topic])
    ranges = offset_ranges(
        client,
        chosen_partitions([found], partitions),
        to_ms=milliseconds(before_time, now_ms=time.time_ns() // 1_000_000) if before_time else None,
        to_offset=before_offset,
    )
    gone = {at: (start, end) for at, (start, end) in ranges.items() if start < end}
    rows = [
        {"topic": at[0], "partition": at[1], "start_offset": start, "new_start_offset": end, "offsets": end - start}
        for at, (start, end) in sorted(gone.items())
    ]
    print_rows(_DELETED, rows, output)
    if is_dry_run or not gone:
        return
    confirm(
        is_sure=is_sure,
        question=f"Delete {counted(sum(end - start for start, end in gone.values()), 'offset')} for good?",
    )
    client.delete_records({at: end for at, (_, end) in gone.items()})


topic_app.command("consume")(consume)
topic_app.command("produce")(produce)
topic_app.add_typer(timers_app)


# -- What they have in common ------------------------------------------------------------------------------------------


def _existing(client: KafkaClient, names: Sequence[str]) -> list[Topic]:
    """In the order of `names`. Raises NotFound."""
    found = client.topics(names)
    if missing := [name for name in names if name not in found]:
        raise NotFound(f"there is no topic {', '.join(map(repr, missing))}")
    return [found[name] for name in dict.fromkeys(names)]


def _described(client: KafkaClient, names: Sequence[str]) -> list[Topic]:
    """Those that still exist, in the order of their names."""
    found: dict[str, Topic] = {}
    for at in range(0, len(names), _PAGE):
        found |= client.topics(names[at : at + _PAGE])
    return [found[name] for name in sorted(found)]


def _matching(names: Iterable[str], pattern: str | None) -> list[str]:
    if pattern is None:
        return list(names)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise typer.BadParameter(f"{pattern!r} is no regular expression: {error}", param_hint="--pattern") from error
    return [name for name in names if wanted.fullmatch(name)]


def _bounds(client: KafkaClient, topics: Sequence[Topic]) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """First and next offsets. Without those of partitions that nobody leads: librdkafka would wait for a leader."""
    led = [(topic.name, each.partition) for topic in topics for each in topic.partitions if each.leader is not None]
    try:
        return client.offsets(led, "earliest"), client.offsets(led, "latest")
    except KafkaFailed as error:
        sys.stderr.write(f"bmq: {error}; offsets are left out\n")
        return {}, {}


def _partition_rows(
    topic: Topic, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[dict[str, Any]]:
    rows = []
    for each in topic.partitions:
        start, end = starts.get((topic.name, each.partition)), ends.get((topic.name, each.partition))
        rows.append(
            {
                "topic": topic.name,
                "partition": each.partition,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "start_offset": start,
                "end_offset": end,
                "offsets": None if start is None or end is None else end - start,
            }
        )
    return rows


def _document(
    topic: Topic, configs: Sequence[Config], starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> dict[str, Any]:
    rows = _partition_rows(topic, starts, ends)
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "replication": topic.replication,
        "configs": {each.name: each.value for each in _set_configs(configs)},
        "partitions": [{name: value for name, value in row.items() if name != "topic"} for row in rows],
    }


def _set_configs(configs: Iterable[Config]) -> list[Config]:
    """Those of the topic itself."""
    return [each for each in configs if each.source == "topic"]
