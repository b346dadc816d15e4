"""`bmq spark mirror`: copies topics into another cluster continuously, each record once, with group offsets.

All state is in the target (positions.py, translation.py), so a mirror that was killed, or a region that was away,
continues where it was. Only one mirror may run under a name, and nothing else may write to its target topics.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from bmq.spark.jobs.cluster import Cluster, Partition, Topic
from bmq.spark.jobs.copy_settings import CopySettings, TopicCopy
from bmq.spark.jobs.copying import copy_step, names_of, require_same_topic, without_deleted
from bmq.spark.jobs.mirrored_groups import OWN_PREFIX, GroupMirror, GroupSync, OffsetMaps
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.partition_copier import PartitionCopier
from bmq.spark.jobs.positions import CopyNames, Position, claim_positions, first_position, read_positions
from bmq.spark.jobs.ranges import OFFSETS_PER_STEP, OffsetRange, cut_into_steps, offset_count
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.steps import Persistence, Progress, Unseen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDLESS: Final = -1
MAP_RETENTION_MS: Final = 30 * 24 * 3_600_000
RENEW_EVERY_S: Final = 12 * 3_600.0
"""Interval for renewing idle partitions' positions: half a day is well below offsets.retention.minutes, a week."""
_INTO_ITSELF: Final = "a mirror into the same cluster needs a --prefix for its topics"

_log = structlog.get_logger("bmq.spark")


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """What to mirror. `topics` by name, or those whose whole name `pattern` matches; `groups`: a pattern, empty for
    none.

    `prefix`: of the topics' names on the target. `name`: of the mirror; a restart with the same name continues it.
    """

    name: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    prefix: str = ""
    groups: str = ".*"
    skips_deleted: bool = False
    producer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def copy(self) -> str:
        return f"{OWN_PREFIX}mirror-{self.name}"

    @property
    def map_topic(self) -> str:
        return f"{self.copy}-offsets"

    def target_of(self, topic: str) -> str:
        return f"{self.prefix}{topic}"

    def takes(self, topic: str) -> bool:
        """False for other mirrors' internal topics and, with a prefix, for topics mirrored from the target."""
        return not topic.startswith(OWN_PREFIX) and not (self.prefix and topic.startswith(self.prefix))


def topics_of(source: Cluster, request: MirrorRequest) -> dict[str, Topic]:
    """The source topics to mirror now. Raises JobFailed: a named topic does not exist."""
    if request.topics:
        return source.topics(request.topics)
    names = source.topic_names(pattern=request.pattern)
    return source.find_topics(name for name in names if request.takes(name))


def plan_mirror(source: Cluster, target: Cluster, request: MirrorRequest) -> list[dict[str, Any]]:
    """What a mirror would find, create and copy, topic by topic; changes nothing. Raises JobFailed, BrokenOff."""
    topics = topics_of(source, request)
    there = target.find_topics(map(request.target_of, topics))
    starts, ends = source.earliest(topics.values()), source.committed_ends(topics.values())
    planned = []
    for name, topic in sorted(topics.items()):
        to = request.target_of(name)
        first = first_position(target.config, request.copy, name, to) if to in there else None
        numbers = range(topic.partition_count)
        known = {}
        if first is not None:
            known = read_positions(target.config, CopyNames(request.copy, name, to, first.place_count), numbers)
        left = {number: position.offset for number, position in known.items() if position is not None}
        planned.append(
            {
                "from": name,
                "to": to,
                "partitions": topic.partition_count,
                "makes_topic": to not in there,
                "goes_on": first is not None,
                "offsets_left": sum(
                    max(0, ends[name, number] - left.get(number, starts[name, number])) for number in numbers
                ),
            }
        )
    return planned


class Mirror:
    """One running mirror on the driver: call `round` repeatedly. To be closed."""

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        source_cluster: Cluster,
        target: Cluster,
        request: MirrorRequest,
        *,
        offsets_per_step: int = OFFSETS_PER_STEP,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises JobFailed."""
        for what, pattern in (("--pattern", request.pattern), ("--groups", request.groups)):
            try:
                re.compile(pattern)
            except re.error as error:
                raise JobFailed(f"{what} {pattern!r} is no regular expression: {error}") from error
        if target.address == source_cluster.address and not request.prefix:
            raise JobFailed(_INTO_ITSELF)
        self._spark = spark
        self._source = source
        self._from = source_cluster
        self._to = target
        self._request = request
        self._offsets_per_step = offsets_per_step
        self._now = now
        self._positions: dict[Partition, Position] = {}
        self._written_s: dict[Partition, float] = {}
        self._copies: dict[str, TopicCopy] = {}
        self._maps: OffsetMaps | None = None
        self._groups = GroupMirror(source_cluster.config, target.config, request.groups) if request.groups else None

    def close(self) -> None:
        if self._maps is not None:
            self._maps.close()

    def forget(self) -> None:
        """Call after a failure: the target's state is read again."""
        self._positions.clear()
        self._copies.clear()
        if self._maps is not None:
            self._maps.close()
            self._maps = None

    # --- what there is to do

    def prepare(self) -> list[OffsetRange]:
        """Create what the target lacks; returns what is left to copy now. Raises JobFailed, BrokenOff."""
        topics = topics_of(self._from, self._request)
        self._make_topics(topics)
        starts, ends = self._from.earliest(topics.values()), self._from.committed_ends(topics.values())
        self._claim(topics, starts)
        ranges = [
            OffsetRange(topic, number, self._positions[topic, number].offset, max(end, 0))
            for (topic, number), end in sorted(ends.items())
        ]
        left = [each for each in ranges if each.offset_count]
        return without_deleted(self._from, left, skips_deleted=self._request.skips_deleted)

    def _make_topics(self, topics: Mapping[str, Topic]) -> None:
        wanted = {self._request.target_of(name): topic for name, topic in topics.items()}
        there = self._to.find_topics([*wanted, self._request.map_topic])
        # By their ids, since a cluster has several addresses.
        if any(there.get(target) == topic for target, topic in wanted.items()):
            raise JobFailed(_INTO_ITSELF)
        if self._request.map_topic not in there:
            self._to.make_topic(self._request.map_topic, 1, {"retention.ms": str(MAP_RETENTION_MS)})
        for target, topic in wanted.items():
            if target not in there:
                self._to.make_topic_like(target, self._from, topic.name, topic.partition_count)
            elif there[target].partition_count < topic.partition_count:
                self._to.add_partitions(target, topic.partition_count)

    def _claim(self, topics: Mapping[str, Topic], starts: Mapping[Partition, int]) -> None:
        """Set the positions of new partitions: an earlier run's, or the start of the log."""
        for name, topic in topics.items():
            numbers = [number for number in range(topic.partition_count) if (name, number) not in self._positions]
            copy = self._copies.get(name)
            if copy is not None and copy.source_topic_id != topic.topic_id:
                raise JobFailed(f"topic {name!r} was deleted and made again; mirror the new one under another --name")
            if not numbers:
                continue
            target = self._request.target_of(name)
            first = first_position(self._to.config, self._request.copy, name, target)
            place_count = topic.partition_count if first is None else first.place_count
            copy = self._copies[name] = TopicCopy(name, topic.topic_id, target, place_count)
            wanted = {
                number: Position(starts[name, number], starts[name, number], ENDLESS, topic.topic_id, place_count)
                for number in numbers
            }
            if first is None:
                self._require_empty(target)
            claimed = claim_positions(self._to.config, names_of(self._settings(), copy), wanted)
            require_same_topic(topic, claimed)
            self._positions |= {(name, number): position for number, position in claimed.items()}
            now_s, now_ms = self._now(), time.time_ns() // 1_000_000
            self._written_s |= {(name, number): now_s - at.age_s(now_ms) for number, at in claimed.items()}

    def _require_empty(self, target: str) -> None:
        """Refuse a topic with records but no position: somebody else wrote it, or its positions have expired."""
        ends = self._to.committed_ends(self._to.topics([target]).values())
        if any(ends.values()):
            raise JobFailed(
                f"topic {target!r} of the target has records, and no mirror {self._request.name!r} is known to have "
                "written them: give the mirror a --prefix, or delete the topic"
            )

    def _settings(self) -> CopySettings:
        return CopySettings(
            config=self._to.config,
            copy=self._request.copy,
            topics=tuple(self._copies.values()),
            map_topic=self._request.map_topic,
            producer=self._request.producer,
        )

    # --- doing it

    def round(self, progress: Progress) -> int:
        """Copy what there is now; the number of offsets. Raises JobFailed, BrokenOff: then `forget` and retry."""
        ranges = self.prepare()
        total, done = offset_count(ranges), 0
        for step in cut_into_steps(ranges, offsets_max=self._offsets_per_step):
            copy_step(self._spark, self._source, self._settings(), step)
            done += offset_count(step)
            self._has_copied(step)
            progress.show(done, total, "offsets")
        return done

    def _has_copied(self, step: Iterable[OffsetRange]) -> None:
        for each in step:
            key = each.topic, each.partition
            known = self._positions[key]
            self._positions[key] = replace(known, offset=each.end_offset)
            self._written_s[key] = self._now()

    def renew_idle(self) -> int:
        """Commit positions again that are older than RENEW_EVERY_S; returns how many. Raises JobFailed, BrokenOff."""
        now = self._now()
        # The positions of a deleted topic are not needed any more.
        known = {key: written_s for key, written_s in self._written_s.items() if key[0] in self._copies}
        idle = [key for key, written_s in known.items() if now - written_s > RENEW_EVERY_S]
        for topic, number in idle:
            with closing(PartitionCopier(self._settings(), topic, number)) as copier:
                copier.renew()
            self._written_s[topic, number] = self._now()
        return len(idle)

    def sync_groups(self) -> list[GroupSync]:
        """Raises JobFailed, BrokenOff."""
        if self._groups is None or not self._copies:
            return []
        if self._maps is None:
            self._maps = OffsetMaps(self._to.config, self._request.map_topic)
        self._maps.catch_up()
        targets = {name: copy.target_topic for name, copy in self._copies.items()}
        of_target = {target: name for name, target in targets.items()}
        starts = self._to.earliest(self._to.topics(targets.values()).values())
        return self._groups.sync(
            targets, self._maps, {(of_target[topic], number): start for (topic, number), start in starts.items()}
        )


def mirror(
    work: Mirror,
    *,
    is_once: bool = False,
    every_s: float = 1.0,
    groups_every_s: float = 30.0,
    give_up_after_s: float = float("inf"),
    progress: Progress | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run rounds until stopped, or with `is_once` until one finds nothing new; returns the number of offsets copied.

    It waits while a cluster is away, for ever unless `give_up_after_s` is given. Raises JobFailed, BrokenOff.
    """
    persistence = Persistence(give_up_after_s, now=now, sleep=sleep)
    shown = progress or Unseen()
    copied = 0
    groups_due_s = now()
    while True:
        try:
            in_round = work.round(shown)
            copied += in_round
            is_last = is_once and not in_round
            if is_last or now() >= groups_due_s:
                for each in work.sync_groups():
                    _log.info("group_mirrored", group=each.group, partitions=each.committed, in_use=each.in_use)
                groups_due_s = now() + groups_every_s
            work.renew_idle()
            persistence.has_got_on()
        except BrokenOff as failed:
            work.forget()
            persistence.wait_after(failed)
            continue
        if is_last:
            return copied
        if not in_round:
            sleep(every_s)
