"""Copies ranges of offsets into another cluster, from the driver: one Spark write per step, with retries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bmq.spark.jobs.cluster import Cluster, Partition, Topic
from bmq.spark.jobs.copy_settings import CopySettings, TopicCopy
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.positions import CopyNames, Position, read_positions
from bmq.spark.jobs.ranges import OFFSETS_PER_STEP, OffsetRange, Step, cut_into_steps, offset_count
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.steps import Persistence, Progress, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CopyRoute(NamedTuple):
    """From `source_cluster`, whose records `source` reads, to the cluster `target`."""

    spark: SparkSession
    source: Source
    source_cluster: Cluster
    target: Cluster


def copy_ranges(
    route: CopyRoute,
    settings: CopySettings,
    ranges: Sequence[OffsetRange],
    progress: Progress,
    persistence: Persistence,
    *,
    skips_deleted: bool = False,
    offsets_per_step: int = OFFSETS_PER_STEP,
) -> None:
    """Copy all of `ranges`. Their positions must be claimed, and parts of them may be copied already.

    After a transient failure it continues from the positions in the target. Raises JobFailed; BrokenOff once there was no
    progress for as long as `persistence` allows.
    """
    total = offset_count(ranges)
    left = list(ranges)
    while left:
        try:
            for step in cut_into_steps(left, offsets_max=offsets_per_step):
                copy_step(route, settings, step)
                left = behind(left, step)
                persistence.has_got_on()
                progress.show(total - offset_count(left), total, "offsets")
        except BrokenOff as failed:
            persistence.wait_after(failed)
            left = still_left(settings, route.source_cluster, left, persistence, skips_deleted=skips_deleted)


def copy_step(route: CopyRoute, settings: CopySettings, step: Step) -> None:
    """Copy one step, by one write of Spark. Raises JobFailed, BrokenOff; then part of the step may have been copied."""
    from bmq.spark.jobs.copy_sink import COLUMNS, FORMAT, CopySink

    copies = [settings.of(topic) for topic in sorted({each.topic for each in step})]

    def write() -> None:
        route.spark.dataSource.register(CopySink)
        rows = route.source.load(
            route.spark,
            step,
            has_headers=True,
            is_in_order=True,
            topic_ids={copy.source_topic: copy.source_topic_id for copy in copies},
        )
        writer = rows.select(*COLUMNS).write.format(FORMAT).mode("append")
        writer.option("settings", settings.up_to(step).to_json()).save()

    require_same_topics(route.source_cluster, route.target, copies)
    spark_errors("records cannot be copied", write)
    # The Kafka connector reads by name alone: then only this notices a topic that was made again meanwhile.
    require_same_topics(route.source_cluster, route.target, copies)


def require_same_topics(source_cluster: Cluster, target: Cluster, copies: Iterable[TopicCopy]) -> None:
    """Raises JobFailed when a source topic was created again; BrokenOff when one is gone, or a target topic was created
    again.
    """
    wanted = list(copies)
    here = source_cluster.find_topics(copy.source_topic for copy in wanted)
    there = target.find_topics(copy.target_topic for copy in wanted)
    for copy in wanted:
        found = here.get(copy.source_topic)
        if found is None:
            raise BrokenOff(f"topic {copy.source_topic!r} was deleted while it was copied")
        require_topic_id(copy.source_topic, copy.source_topic_id, found.topic_id)
        if (made := there.get(copy.target_topic)) is None or made.topic_id != copy.target_topic_id:
            raise BrokenOff(f"topic {copy.target_topic!r} of the target was deleted while it was written")


def require_topic_id(topic: str, copied_id: str, topic_id: str) -> None:
    """Raises JobFailed when the copy is of an earlier topic of the same name."""
    if copied_id != topic_id:
        raise JobFailed(
            f"topic {topic!r} was deleted and made again since its copy began: "
            "begin a copy of the new one under another --name"
        )


def behind(ranges: Iterable[OffsetRange], step: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The part of the ranges that is left after the step. Pure."""
    ends = {(each.topic, each.partition): each.end_offset for each in step}
    return from_offsets(ranges, ends)


def from_offsets(ranges: Iterable[OffsetRange], starts: Mapping[Partition, int]) -> list[OffsetRange]:
    """The ranges cut to begin at these offsets where those are later; empty ones are dropped. Pure."""
    moved = (
        OffsetRange(
            each.topic,
            each.partition,
            max(each.start_offset, starts.get((each.topic, each.partition), each.start_offset)),
            each.end_offset,
        )
        for each in ranges
    )
    return [each for each in moved if each.offset_count]


def still_left(
    settings: CopySettings,
    source_cluster: Cluster,
    ranges: list[OffsetRange],
    persistence: Persistence,
    *,
    skips_deleted: bool,
) -> list[OffsetRange]:
    """The parts of the ranges that the target lacks. Waits until both clusters answer. Raises JobFailed, BrokenOff."""
    while True:
        try:
            left = from_offsets(ranges, positions_of(settings, ranges))
            return without_deleted(source_cluster, left, skips_deleted=skips_deleted)
        except BrokenOff as failed:
            persistence.wait_after(failed)


def positions_of(settings: CopySettings, ranges: Iterable[OffsetRange]) -> dict[Partition, int]:
    """The next offset to copy, for each partition with a known position."""
    by_topic: dict[str, list[int]] = {}
    for each in ranges:
        by_topic.setdefault(each.topic, []).append(each.partition)
    found: dict[Partition, int] = {}
    for topic, partitions in by_topic.items():
        known = read_positions(settings.config, names_of(settings, settings.of(topic)), partitions)
        found |= {(topic, partition): position.offset for partition, position in known.items() if position is not None}
    return found


def names_of(settings: CopySettings, copy: TopicCopy) -> CopyNames:
    return CopyNames(settings.copy, copy.source_topic, copy.target_topic, copy.place_count)


def without_deleted(
    source_cluster: Cluster, ranges: Sequence[OffsetRange], *, skips_deleted: bool
) -> list[OffsetRange]:
    """The ranges without records that were deleted before they were copied. Raises JobFailed unless the copy `skips_deleted`."""
    topics = source_cluster.topics({each.topic for each in ranges})
    starts = source_cluster.earliest(topics.values())
    left = from_offsets(ranges, starts)
    if not skips_deleted and (lost := offset_count(ranges) - offset_count(left)):
        names = [each.name for each in ranges if starts.get((each.topic, each.partition), 0) > each.start_offset]
        raise JobFailed(
            f"{lost} offsets of {', '.join(names)} were deleted before they were copied; --skip-deleted goes on behind them"
        )
    return left


def require_same_topic(topic: Topic, positions: Mapping[int, Position]) -> None:
    """Raises JobFailed when the positions belong to an earlier topic of the same name."""
    for position in positions.values():
        require_topic_id(topic.name, position.source_topic_id, topic.topic_id)


def require_same_target(target: Topic, positions: Mapping[int, Position]) -> None:
    """Raises JobFailed when the positions count records of an earlier target topic of the same name."""
    if any(position.target_topic_id not in ("", target.topic_id) for position in positions.values()):
        raise JobFailed(
            f"topic {target.name!r} of the target was deleted and made again since its copy began: "
            "begin a copy into the new one under another --name"
        )


def cut_short(positions: Mapping[Partition, int], ends: Mapping[Partition, int]) -> dict[Partition, int]:
    """The ends of the partitions that end before their position: their logs were cut, as by a lossy election. Pure."""
    return {at: max(ends[at], 0) for at, offset in sorted(positions.items()) if at in ends and ends[at] < offset}
