"""`bmq spark`: jobs over topics on Spark. What they need is imported when one is run: `bmq --help` does without Spark."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmq.cli.job import job
from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP, Bootstrap, DryRun, KafkaSettings, cluster_settings, settings_of
from bmq.cli.progress import JobProgress
from bmq.cli.rest_options import DEFAULT_URL, Rest, current_login, with_login
from bmq.cli.spark_index import spark_index_app
from bmq.cli.spark_output import (
    print_found,
    print_ranges,
    print_stats,
    print_verified,
)
from bmq.cli.spark_tables import commands as table_commands
from bmq.cli.terminal import print_json
from bmq.spark.jobs.outcome import ExitCode
from bmq.spark.jobs.ranges import OFFSETS_PER_STEP
from bmq.spark.jobs.time_text import milliseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bmq.spark.jobs.cluster import Cluster
    from bmq.spark.jobs.ranges import OffsetRange
    from bmq.spark.jobs.source import Source
    from bmq.spark.jobs.stores import StoreAddress

spark_app = typer.Typer(
    no_args_is_help=True,
    help="Jobs over topics on Spark. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 damage found, 4 nothing found, "
    "75 no answer (run it again), 130 interrupted.",
)

spark_app.registered_commands += table_commands.registered_commands
spark_app.add_typer(spark_index_app)

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Names of topics")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic")]
SourceName = Annotated[str, typer.Option("--source", metavar="bmq|kafka", help="Reader of the topics")]
From = Annotated[
    str, typer.Option("--from", metavar="TIME", help="Records from this time: 2026-11-24T10:00, milliseconds, -2h")
]
To = Annotated[str, typer.Option("--to", metavar="TIME", help="Records before this time")]
FromOffset = Annotated[int | None, typer.Option("--from-offset", min=0, metavar="N", help="Records from this offset")]
ToOffset = Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="Records before this offset")]
Store = Annotated[
    str, typer.Option("--store", metavar="URL", help="Store of the log, hdfs://… or file:/… [the servers' store]")
]
State = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="Directory for checkpoints; rerun the command to resume")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables")]
SourceOptions = Annotated[
    list[str] | None, typer.Option("--source-option", metavar="NAME=VALUE", help="An option of the source")
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Spark's master, outside of spark-submit [local[*]]")
]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark")]
StepOffsets = Annotated[
    int, typer.Option("--step", min=1, metavar="N", help="Offsets of one step, which is repeated after a kill")
]


@spark_app.command("stats")
def stats_command(
    topics: Topics,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    source: SourceName = "bmq",
    from_time: From = "",
    to_time: To = "",
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    codecs: Annotated[bool, typer.Option(help="Read the segments too: codecs and stored bytes")] = True,
    store: Store = "",
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Draw bytes by hour and partition: .png, .svg, .pdf"),
    ] = None,
    state: State = None,
    step: StepOffsets = OFFSETS_PER_STEP,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
    kafka: KafkaSettings = None,
    source_options: SourceOptions = None,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Records, bytes, keys and codecs of topics, and their spread over hours and partitions."""
    with job():
        from bmq.spark.jobs.job_run import JobRun
        from bmq.spark.jobs.stats import stats
        from bmq.spark.jobs.stats_picture import draw

        given = _range_as_given(from_time, to_time, from_offset, to_offset)
        cluster = _cluster(bootstrap, kafka)
        ranges = _ranges(cluster, topics, given)
        if is_dry_run:
            _show_ranges(ranges, as_json)
            return
        address = _store(store, bootstrap) if codecs else None
        with JobProgress("stats", has_document=as_json) as progress:
            report = stats(
                _session("bmq stats", master, conf),
                _source(source, bootstrap, source_options),
                ranges,
                JobRun(state, given, _topic_ids(cluster, topics), step, progress),
                store=address,
            )
        if picture is not None:
            draw(report, picture)
        if as_json:
            print_json(report.to_json())
        else:
            print_stats(report)


@spark_app.command("find")
def find_command(
    topics: Topics,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Records with this key")] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME[=VALUE]", help="Records with this header")
    ] = None,
    json_fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field", metavar="PATH[=VALUE]", help="Records whose JSON value has this field: a.b, a.list[[0]].b"
        ),
    ] = None,
    found_max: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Stop after this number of records")
    ] = 1000,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    source: SourceName = "bmq",
    from_time: From = "",
    to_time: To = "",
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    state: State = None,
    step: StepOffsets = OFFSETS_PER_STEP,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
    kafka: KafkaSettings = None,
    source_options: SourceOptions = None,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Records with a key, a header or a field of a JSON value. All conditions must hold. Exit code 4: none."""
    with job():
        from bmq.spark.jobs.find import find
        from bmq.spark.jobs.find_query import FindQuery, NamedValue
        from bmq.spark.jobs.job_run import JobRun

        given = _range_as_given(from_time, to_time, from_offset, to_offset)
        from_ms, to_ms = _times(given)
        query = FindQuery(
            key=key,
            headers=tuple(map(NamedValue.parse, headers or ())),
            json_fields=tuple(map(NamedValue.parse, json_fields or ())),
            from_ms=from_ms,
            to_ms=to_ms,
        )
        condition = query.condition
        cluster = _cluster(bootstrap, kafka)
        ranges = _ranges(cluster, topics, given)
        if is_dry_run:
            _show_ranges(ranges, as_json, condition=condition)
            return
        with JobProgress("find", has_document=as_json) as progress:
            found = find(
                _session("bmq find", master, conf),
                _source(source, bootstrap, source_options),
                ranges,
                query,
                JobRun(state, given, _topic_ids(cluster, topics), step, progress),
                found_max=found_max,
            )
        if as_json:
            print_json([record.to_json() for record in found])
        else:
            print_found(found)
        if not found:
            raise typer.Exit(ExitCode.NOTHING_FOUND)


@spark_app.command("verify")
def verify_command(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC…]", help="Names of topics; none: all")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    store: Store = "",
    replicas: Annotated[bool, typer.Option(help="Compare the replicas of each block on HDFS")] = True,
    state: State = None,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Read every segment: checksums, records, offsets, indexes, replicas. Needs no servers with --store. Exit code 3: damage."""
    with job():
        from bmq.spark.jobs.stored_segments import all_segments
        from bmq.spark.jobs.verify import verify

        address = _store(store, bootstrap)
        if is_dry_run:
            tasks = all_segments(address, topics or ())
            if as_json:
                print_json(
                    [
                        {"topic": t.topic, "partition": t.partition, "path": t.path, "bytes": t.valid_bytes}
                        for t in tasks
                    ]
                )
            else:
                sys.stdout.write(
                    f"{len(tasks)} segments of {sum(task.valid_bytes for task in tasks)} bytes in {address.url}\n"
                )
            return
        with JobProgress("verify", has_document=as_json) as progress:
            session = _session("bmq verify", master, conf)
            report = verify(session, address, topics or (), has_replicas=replicas, state=state, progress=progress)
        if as_json:
            print_json(report.to_json())
        else:
            print_verified(report)
        if not report.is_clean:
            raise typer.Exit(ExitCode.DAMAGE_FOUND)


Target = Annotated[
    str, typer.Option("--target", metavar="HOST:PORT[,…]", help="Servers of the other cluster [the same one]")
]
TargetOptions = Annotated[
    list[str] | None, typer.Option("--target-kafka", metavar="NAME=VALUE", help="As --kafka, for the target")
]
ProducerOptions = Annotated[
    list[str] | None,
    typer.Option("--producer", metavar="NAME=VALUE", help="A setting of the producers [compression.type=lz4]"),
]
SkipDeleted = Annotated[
    bool, typer.Option("--skip-deleted", help="Continue when records were deleted before they were copied")
]
GiveUp = Annotated[
    float, typer.Option("--give-up-after", min=0, metavar="SECONDS", help="How long to wait for an unavailable cluster")
]


@spark_app.command("backfill")
def backfill_command(
    topic: TopicName,
    target_topic: Annotated[
        str, typer.Argument(metavar="TARGET", help="Topic that gets the records; created if missing")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    target: Target = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of this backfill [TOPIC-to-TARGET]")] = "",
    partitioner: Annotated[
        str,
        typer.Option("--partitioner", metavar="source|key", help="Keep the partition, or choose it by the key's hash"),
    ] = "source",
    source: SourceName = "bmq",
    from_time: From = "",
    to_time: To = "",
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    skips_deleted: SkipDeleted = False,
    give_up_after_s: GiveUp = 600,
    step: StepOffsets = OFFSETS_PER_STEP,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
    kafka: KafkaSettings = None,
    target_kafka: TargetOptions = None,
    producer: ProducerOptions = None,
    source_options: SourceOptions = None,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Copy a range of a topic into another one, each record once. Rerun it to resume after a kill."""
    with job():
        from bmq.spark.jobs.backfill import BackfillOptions, backfill, plan_backfill
        from bmq.spark.jobs.copy_settings import Partitioner
        from bmq.spark.jobs.copying import CopyRoute

        if partitioner not in list(Partitioner):
            raise typer.BadParameter(f"{partitioner!r}: it is source or key", param_hint="--partitioner")
        given = _range_as_given(from_time, to_time, from_offset, to_offset)
        here = _cluster(bootstrap, kafka)
        there = _cluster(target, target_kafka) if target else here
        plan = plan_backfill(
            here,
            there,
            topic,
            target_topic,
            _ranges(here, [topic], given),
            BackfillOptions(
                name=name,
                range_as_given=given,
                partitioner=Partitioner(partitioner),
                skips_deleted=skips_deleted,
                producer=settings_of(producer, "--producer"),
            ),
        )
        if is_dry_run:
            if as_json:
                print_json(plan.to_json())
            else:
                print_ranges(list(plan.ranges))
            return
        copied = 0
        if plan.ranges or plan.is_new:
            with JobProgress("backfill", has_document=as_json) as progress:
                session = _session("bmq backfill", master, conf)
                copied = backfill(
                    CopyRoute(session, _source(source, bootstrap, source_options), here, there),
                    plan,
                    skips_deleted=skips_deleted,
                    offsets_per_step=step,
                    give_up_after_s=give_up_after_s,
                    progress=progress,
                )
        done = {"name": plan.settings.copy, "offsets": copied, "offsets_before": plan.done_count}
        if as_json:
            print_json(done)
        else:
            sys.stdout.write(f"{copied} offsets copied, {plan.done_count} had been before\n")


@spark_app.command("mirror")
def mirror_command(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC…]", help="Names of topics; or --pattern")
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="HOST:PORT[,…]", help="Servers of the other cluster")] = "",
    pattern: Annotated[str, typer.Option("--pattern", metavar="REGEX", help="Topics whose whole name matches")] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of this mirror; only one of a name runs at a time")
    ] = "mirror",
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="Prefix of the topics' names on the target")
    ] = "",
    groups: Annotated[str, typer.Option("--groups", metavar="REGEX", help="Consumer groups; '' for none")] = ".*",
    is_once: Annotated[bool, typer.Option("--once", help="End when there is nothing more to copy")] = False,
    every_s: Annotated[
        float, typer.Option("--every", min=0.05, metavar="SECONDS", help="Seconds between two looks for new records")
    ] = 1.0,
    groups_every_s: Annotated[
        float,
        typer.Option("--groups-every", min=0.05, metavar="SECONDS", help="Seconds between two translations of groups"),
    ] = 30.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    source: SourceName = "bmq",
    skips_deleted: SkipDeleted = False,
    give_up_after_s: GiveUp = 0,
    step: StepOffsets = OFFSETS_PER_STEP,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
    kafka: KafkaSettings = None,
    target_kafka: TargetOptions = None,
    producer: ProducerOptions = None,
    source_options: SourceOptions = None,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Copy topics and groups into another cluster, continuously. Waits for an unavailable cluster [--give-up-after 0: for ever]."""
    with job():
        from contextlib import closing

        from bmq.spark.jobs.mirror import Mirror, MirrorRequest, mirror, plan_mirror

        if bool(topics) == bool(pattern):
            raise typer.BadParameter("name topics, or give a --pattern", param_hint="TOPIC…")
        if not target:
            raise typer.BadParameter("name the other cluster", param_hint="--target")
        request = MirrorRequest(
            name=name,
            topics=tuple(topics or ()),
            pattern=pattern,
            prefix=prefix,
            groups=groups,
            skips_deleted=skips_deleted,
            producer=settings_of(producer, "--producer"),
        )
        here, there = _cluster(bootstrap, kafka), _cluster(target, target_kafka)
        if is_dry_run:
            print_json(plan_mirror(here, there, request))
            return
        session = _session("bmq mirror", master, conf)
        reader = _source(source, bootstrap, source_options)
        with (
            closing(Mirror(session, reader, here, there, request, offsets_per_step=step)) as work,
            JobProgress("mirror", has_document=as_json) as progress,
        ):
            copied = mirror(
                work,
                is_once=is_once,
                every_s=every_s,
                groups_every_s=groups_every_s,
                give_up_after_s=give_up_after_s or float("inf"),
                progress=progress,
            )
        if as_json:
            print_json({"name": request.copy, "offsets": copied})
        else:
            sys.stdout.write(f"{copied} offsets copied\n")


@spark_app.command("compact")
@with_login
def compact_command(
    topic: TopicName,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", min=0, metavar="N", help="Only this partition; may be repeated")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rest: Rest = DEFAULT_URL,
    store: Store = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of this job; the same name resumes it")
    ] = "spark",
    time_limit_s: Annotated[
        float,
        typer.Option(
            "--time-limit", min=1, max=86_400, metavar="SECONDS", help="How long brokers leave a partition to this job"
        ),
    ] = 7200,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Compact partitions that are too large for their brokers. The brokers check the result and swap it in. Rerun it to resume."""
    with job():
        from contextlib import closing
        from dataclasses import asdict

        from bmq.cli.spark_output import print_compacted, print_compaction_plan
        from bmq.spark.jobs.compact import compact, plan_compact
        from bmq.spark.jobs.partition_owner import PartitionOwner

        with closing(PartitionOwner(rest, current_login())) as owner:
            if is_dry_run:
                planned = plan_compact(owner, topic, partitions or ())
                print_json(planned) if as_json else print_compaction_plan(planned)
                return
            address = _store(store, bootstrap)
            with JobProgress("compact", has_document=as_json) as progress:
                done = compact(
                    _session("bmq compact", master, conf),
                    address,
                    owner,
                    topic,
                    partitions or (),
                    job=name,
                    time_limit_s=time_limit_s,
                    progress=progress,
                )
        results = [asdict(each) for each in done]
        print_json(results) if as_json else print_compacted(results)


# -- What they have in common ------------------------------------------------------------------------------------------


def _session(name: str, master: str, conf: Sequence[str] | None) -> SparkSession:
    from bmq.spark.jobs.session import open_session

    return open_session(name, master=master, conf=settings_of(conf, "--conf"))


def _source(kind: str, bootstrap: str, options: Sequence[str] | None) -> Source:
    from bmq.spark.jobs.source import Source, SourceKind

    if kind not in list(SourceKind):
        raise typer.BadParameter(f"{kind!r}: it is bmq or kafka", param_hint="--source")
    return Source(bootstrap, SourceKind(kind), settings_of(options, "--source-option"))


def _cluster(bootstrap: str, kafka: Sequence[str] | None) -> Cluster:
    from bmq.spark.jobs.cluster import Cluster

    return Cluster(cluster_settings(bootstrap, kafka))


def _store(url: str, bootstrap: str) -> StoreAddress:
    from bmq.spark.jobs.stores import StoreAddress, store_of

    return StoreAddress(url) if url else store_of(bootstrap)


def _range_as_given(from_time: str, to_time: str, from_offset: int | None, to_offset: int | None) -> Mapping[str, Any]:
    return {"from": from_time, "to": to_time, "from_offset": from_offset, "to_offset": to_offset}


def _times(given: Mapping[str, Any]) -> tuple[int | None, int | None]:
    now_ms = time.time_ns() // 1_000_000
    from_ms, to_ms = (milliseconds(given[name], now_ms=now_ms) if given[name] else None for name in ("from", "to"))
    return from_ms, to_ms


def _ranges(cluster: Cluster, topics: Sequence[str], given: Mapping[str, Any]) -> tuple[OffsetRange, ...]:
    from_ms, to_ms = _times(given)
    return cluster.ranges(
        topics, from_ms=from_ms, to_ms=to_ms, from_offset=given["from_offset"], to_offset=given["to_offset"]
    )


def _topic_ids(cluster: Cluster, topics: Sequence[str]) -> dict[str, str]:
    return {name: topic.topic_id for name, topic in cluster.topics(topics).items()}


def _show_ranges(ranges: Sequence[OffsetRange], as_json: bool, *, condition: str = "") -> None:
    if as_json:
        planned = [
            {"topic": r.topic, "partition": r.partition, "start_offset": r.start_offset, "end_offset": r.end_offset}
            for r in ranges
        ]
        print_json({"ranges": planned, **({"condition": condition} if condition else {})})
        return
    print_ranges(list(ranges))
    if condition:
        sys.stdout.write(f"where {condition}\n")
