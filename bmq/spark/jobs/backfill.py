"""`bmq spark backfill`: copies a range of a topic into another topic, of this or another cluster, each record once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bmq.spark.jobs.cluster import Cluster, Topic
from bmq.spark.jobs.copy_settings import CopySettings, Partitioner, TopicCopy
from bmq.spark.jobs.copying import (
    CopyRoute,
    copy_ranges,
    names_of,
    require_same_target,
    require_same_topic,
    without_deleted,
)
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.positions import Position, claim_positions, first_position, read_positions
from bmq.spark.jobs.ranges import OFFSETS_PER_STEP, OffsetRange, offset_count
from bmq.spark.jobs.steps import GIVE_UP_AFTER_S, Persistence, Progress, SilentProgress

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """`ranges`: the offsets left to copy. `done_count`: offsets that an earlier run of the same name copied.

    `is_new`: no position is stored yet. `makes_topic`: partitions of the target topic if it has to be created.
    """

    settings: CopySettings
    ranges: tuple[OffsetRange, ...]
    starts: Mapping[int, Position]
    done_count: int
    is_new: bool
    makes_topic: int | None

    @property
    def copy(self) -> TopicCopy:
        return self.settings.topics[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.settings.copy,
            "from": self.copy.source_topic,
            "to": self.copy.target_topic,
            "partitioner": self.settings.partitioner.value,
            "makes_topic_with_partitions": self.makes_topic,
            "offsets_done": self.done_count,
            "offsets_left": offset_count(self.ranges),
            "ranges": [
                {"partition": each.partition, "start_offset": each.start_offset, "end_offset": each.end_offset}
                for each in self.ranges
            ],
        }


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """`name`: continue the backfill that was begun under this name. `range_as_given`: the times as the user wrote them.

    `skips_deleted`: continue where records were deleted meanwhile. `producer`: librdkafka's settings for the copies.
    """

    name: str = ""
    range_as_given: Mapping[str, Any] = field(default_factory=dict)
    partitioner: Partitioner = Partitioner.SOURCE
    skips_deleted: bool = False
    producer: Mapping[str, Any] = field(default_factory=dict)


def plan_backfill(
    source_cluster: Cluster,
    target: Cluster,
    topic: str,
    target_topic: str,
    ranges: Sequence[OffsetRange],
    options: BackfillOptions | None = None,
) -> BackfillPlan:
    """The plan of `backfill`; changes nothing. `ranges`: of `topic` (Cluster.ranges), unless an earlier run has planned.

    Raises JobFailed, BrokenOff.
    """
    options = options or BackfillOptions()
    partitioner = options.partitioner
    of = source_cluster.topics([topic])[topic]
    there = target.find_topics([target_topic]).get(target_topic)
    # By its id, since a cluster has several addresses.
    if there == of:
        raise JobFailed(f"topic {topic!r} cannot be copied into itself")
    count = there.partition_count if there is not None else of.partition_count
    if partitioner is Partitioner.SOURCE and count < of.partition_count:
        raise JobFailed(
            f"topic {target_topic!r} has {count} partitions and {topic!r} has {of.partition_count}: "
            "add partitions, or copy with --partitioner key"
        )
    asked = json.dumps(
        {"range": options.range_as_given, "partitioner": partitioner.value}, sort_keys=True, separators=(",", ":")
    )
    copy_name = f"bmq-backfill-{options.name or f'{topic}-to-{target_topic}'}"
    first = None if there is None else first_position(target.config, copy_name, topic, target_topic)
    place_count = count if first is None else first.place_count
    settings = CopySettings(
        config=target.config,
        copy=copy_name,
        topics=(TopicCopy(topic, of.topic_id, target_topic, place_count, "" if there is None else there.topic_id),),
        partitioner=partitioner,
        producer=dict(options.producer),
    )
    wanted = {
        each.partition: Position(each.start_offset, each.start_offset, each.end_offset, of.topic_id, place_count, asked)
        for each in ranges
        if each.topic == topic
    }
    known = _known(settings, of) if first is not None else {}
    if there is not None:
        require_same_target(there, known)
    if known and any(position.asked != asked for position in known.values()):
        raise JobFailed(
            f"the backfill {settings.copy!r} was begun with another range or partitioner; give this one another --name"
        )
    # Partitions added since the plan was made are not part of it.
    starts = known or wanted
    left = [OffsetRange(topic, number, at.offset, at.end_offset) for number, at in sorted(starts.items())]
    left = without_deleted(
        source_cluster, [each for each in left if each.offset_count], skips_deleted=options.skips_deleted
    )
    done_count = sum(at.offset - at.start_offset for at in known.values())
    makes_topic = count if there is None else None
    return BackfillPlan(settings, tuple(left), starts, done_count, not known, makes_topic)


def _known(settings: CopySettings, topic: Topic) -> dict[int, Position]:
    """Positions that an earlier run has stored."""
    found = read_positions(settings.config, names_of(settings, settings.topics[0]), range(topic.partition_count))
    known = {partition: position for partition, position in found.items() if position is not None}
    require_same_topic(topic, known)
    return known


def backfill(
    route: CopyRoute,
    plan: BackfillPlan,
    *,
    skips_deleted: bool = False,
    offsets_per_step: int = OFFSETS_PER_STEP,
    give_up_after_s: float = GIVE_UP_AFTER_S,
    progress: Progress | None = None,
) -> int:
    """Carry the plan out. Returns how many offsets it has copied.

    It can be killed at any time and called again with a new plan of the same name. It then continues, and each record of the
    ranges is in the target once. Raises JobFailed, BrokenOff.
    """
    settings, target = plan.settings, route.target
    if plan.makes_topic is not None:
        target.make_topic_like(plan.copy.target_topic, route.source_cluster, plan.copy.source_topic, plan.makes_topic)
        made = target.topics([plan.copy.target_topic])[plan.copy.target_topic]
        settings = replace(settings, topics=(replace(plan.copy, target_topic_id=made.topic_id),))
    copy = settings.topics[0]
    wanted = {number: replace(at, target_topic_id=copy.target_topic_id) for number, at in plan.starts.items()}
    claimed = claim_positions(target.config, names_of(settings, copy), wanted)
    # Another planner may have been faster: the claimed positions count.
    ranges = [
        replace(each, start_offset=max(each.start_offset, at.offset), end_offset=min(each.end_offset, at.end_offset))
        for each in plan.ranges
        if (at := claimed.get(each.partition)) is not None
    ]
    copy_ranges(
        route,
        settings,
        [each for each in ranges if each.offset_count],
        progress or SilentProgress(),
        Persistence(give_up_after_s),
        skips_deleted=skips_deleted,
        offsets_per_step=offsets_per_step,
    )
    return offset_count(plan.ranges)
