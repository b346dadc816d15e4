"""Copies ranges of offsets into another cluster, from the driver: one Spark write per step, with retries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bmq.spark.jobs.cluster import Cluster, Partition, Topic
from bmq.spark.jobs.copy_settings import CopySettings, TopicCopy
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.positions import CopyNames, Position, read_positions
from bmq.spark.jobs.ranges import OFFSETS_PER_STEP, OffsetRange, Step, cut_into_steps, offset_count
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.steps import Persistence, Progress, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy_ranges(
    spark: SparkSession,
    source: Source,
    source_cluster: Cluster,
    settings: CopySettings,
    ranges: Sequence[OffsetRange],
    progress: Progress,
    persistence: Persistence,
    *,
    skips_deleted: bool = False,
    offsets_per_step: int = OFFSETS_PER_STEP,
) -> None:
    """Copy all of `ranges`; their positions must be claimed, and parts of them may be copied already.

    After a transient failure it continues from the positions in the target. Raises JobFailed; BrokenOff once there was
    no progress for as long as `persistence` allows.
    """
    total = offset_count(ranges)
    left = list(ranges)
    while left:
        try:
            for step in cut_into_steps(left, offsets_max=offsets_per_step):
                copy_step(spark, source, settings, step)
                left = behind(left, step)
                persistence.has_got_on()
                progress.show(total - offset_count(left), total, "offsets")
        except BrokenOff as failed:
            persistence.wait_after(failed)
            left = still_left(settings, source_cluster, left, persistence, skips_deleted=skips_deleted)


def copy_step(spark: SparkSession, source: Source, settings: CopySettings, step: Step) -> None:
    """One write. Raises JobFailed, BrokenOff; part of the step may have been copied then."""
    from bmq.spark.jobs.copy_sink import COLUMNS, FORMAT, CopySink

    def write() -> None:
        spark.dataSource.register(CopySink)
        rows = source.load(spark, step, has_headers=True, is_in_order=True).select(*COLUMNS)
        rows.write.format(FORMAT).mode("append").option("settings", settings.up_to(step).to_json()).save()

    spark_errors("records cannot be copied", write)


def behind(ranges: Iterable[OffsetRange], step: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The rest of the ranges once the step is done. Pure."""
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
    """The parts of the ranges that the target lacks, once both clusters answer. Raises JobFailed, BrokenOff."""
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
    """The ranges without records deleted before they were copied. Raises JobFailed unless it `skips_deleted`."""
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
    if any(position.source_topic_id != topic.topic_id for position in positions.values()):
        raise JobFailed(
            f"topic {topic.name!r} was deleted and made again since its copy began: "
            "begin a copy of the new one under another --name"
        )
