"""`bmq spark mirror`: copies topics into another cluster continuously, each record once, with group offsets.

All state is in the target (positions.py, offset_translation.py). So a mirror continues where it was after a kill, or after a
region was away. Only one mirror may run under a name, and no other program may write to its target topics.
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
from bmq.spark.jobs.copying import (
    CopyRoute,
    copy_step,
    cut_short,
    names_of,
    require_same_target,
    require_same_topic,
    require_topic_id,
    without_deleted,
)
from bmq.spark.jobs.mirrored_groups import OWN_PREFIX, GroupMirror, GroupSync, OffsetMaps
from bmq.spark.jobs.origins import KnownOrigins, foreign, origins_of
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.partition_copier import PartitionCopier
from bmq.spark.jobs.positions import CopyNames, Position, claim_positions, first_position, read_positions
from bmq.spark.jobs.ranges import OFFSETS_PER_STEP, OffsetRange, cut_into_steps, offset_count
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.steps import Persistence, Progress, SilentProgress

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
        """False for mirrors' internal topics and, with a prefix, for topics that have it already."""
        return not topic.startswith(OWN_PREFIX) and not (self.prefix and topic.startswith(self.prefix))


def topics_of(source: Cluster, request: MirrorRequest) -> dict[str, Topic]:
    """The requested source topics. Raises JobFailed: a named topic does not exist."""
    if request.topics:
        return source.topics(request.topics)
    names = source.topic_names(pattern=request.pattern)
    return source.find_topics(name for name in names if request.takes(name))


def without_targets_own(
    topics: Mapping[str, Topic], source: Cluster, target: Cluster, request: MirrorRequest, known: KnownOrigins
) -> dict[str, Topic]:
    """Leave out topics whose records came from the target, unless they were named. Raises JobFailed, BrokenOff.

    Otherwise mirrors of both directions would copy each other's topics under ever longer names.
    """
    # The ends first: a topic that has records then has its origins, too.
    ends = source.committed_ends(topics.values())
    has_records = {
        name: any(ends[name, number] > 0 for number in range(topics[name].partition_count)) for name in topics
    }
    due = [name for name, topic in topics.items() if known.is_due(name, topic.topic_id, has_records=has_records[name])]
    if due:
        origins = origins_of(source)
        for name in due:
            known.note(name, topics[name].topic_id, origins, has_records=has_records[name])
            if not request.topics and target.cluster_id() in known.of(name):
                _log.info("topic_left_out", topic=name, reason="its records came from the target")
    if request.topics:
        return dict(topics)
    taken = foreign(topics, {name: known.of(name) for name in topics}, target.cluster_id())
    return {name: topics[name] for name in taken}


def plan_mirror(source: Cluster, target: Cluster, request: MirrorRequest) -> list[dict[str, Any]]:
    """What a mirror would find, create and copy, topic by topic. Changes nothing. Raises JobFailed, BrokenOff."""
    topics = without_targets_own(topics_of(source, request), source, target, request, KnownOrigins())
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
    """One running mirror on the driver: call `round` repeatedly, and `close` at the end."""

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
        self._origins = KnownOrigins()
        self._maps: OffsetMaps | None = None
        self._groups = GroupMirror(source_cluster.config, target.config, request.groups) if request.groups else None

    def close(self) -> None:
        if self._maps is not None:
            self._maps.close()

    def forget(self) -> None:
        """Forget the target's state, which is then read again. Call it after a failure."""
        self._positions.clear()
        self._copies.clear()
        if self._maps is not None:
            self._maps.close()
            self._maps = None

    # --- what there is to do

    def prepare(self) -> list[OffsetRange]:
        """Create what the target lacks. Returns the ranges left to copy now. Raises JobFailed, BrokenOff."""
        asked = topics_of(self._from, self._request)
        topics = without_targets_own(asked, self._from, self._to, self._request, self._origins)
        targets = self._make_topics(topics)
        self._claim(topics, targets, self._from.earliest(topics.values()))
        # After the positions, which are never ahead of it then, unless the source has lost records.
        ends = self._from.committed_ends(topics.values())
        self._follow_cut_logs(ends)
        ranges = [
            OffsetRange(topic, number, self._positions[topic, number].offset, max(end, 0))
            for (topic, number), end in sorted(ends.items())
        ]
        left = [each for each in ranges if each.offset_count]
        return without_deleted(self._from, left, skips_deleted=self._request.skips_deleted)

    def _make_topics(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        """The target topics by name."""
        wanted = {self._request.target_of(name): topic for name, topic in topics.items()}
        there = self._to.find_topics([*wanted, self._request.map_topic])
        # By their ids, since a cluster has several addresses.
        if any(there.get(target) == topic for target, topic in wanted.items()):
            raise JobFailed(_INTO_ITSELF)
        if self._request.map_topic not in there:
            self._to.make_topic(self._request.map_topic, 1, {"retention.ms": str(MAP_RETENTION_MS)})
        missing = [target for target in wanted if target not in there]
        for target, topic in wanted.items():
            if target in missing:
                self._to.make_topic_like(target, self._from, topic.name, topic.partition_count)
            elif there[target].partition_count < topic.partition_count:
                self._to.add_partitions(target, topic.partition_count)
        return there | self._to.topics(missing) if missing else there

    def _claim(
        self, topics: Mapping[str, Topic], targets: Mapping[str, Topic], starts: Mapping[Partition, int]
    ) -> None:
        """Set the positions of new partitions: an earlier run's, or the start of the log."""
        for name, topic in topics.items():
            target = targets[self._request.target_of(name)]
            copy = self._copies.get(name)
            if copy is not None:
                require_topic_id(name, copy.source_topic_id, topic.topic_id)
                if copy.target_topic_id != target.topic_id:
                    _log.warning("target_topic_made_again", topic=target.name)
                    self._forget_topic(name)
            numbers = [number for number in range(topic.partition_count) if (name, number) not in self._positions]
            if not numbers:
                continue
            first = first_position(self._to.config, self._request.copy, name, target.name)
            place_count = topic.partition_count if first is None else first.place_count
            origins = tuple(dict.fromkeys((*self._origins.of(name), self._from.cluster_id())))
            copy = TopicCopy(name, topic.topic_id, target.name, place_count, target.topic_id, origins)
            wanted = {
                number: Position(
                    starts[name, number],
                    starts[name, number],
                    ENDLESS,
                    topic.topic_id,
                    place_count,
                    target_topic_id=target.topic_id,
                    origins=origins,
                )
                for number in numbers
            }
            if first is None:
                self._require_empty(target.name)
            self._copies[name] = copy
            claimed = claim_positions(self._to.config, names_of(self._settings(), copy), wanted)
            require_same_topic(topic, claimed)
            require_same_target(target, claimed)
            self._positions |= {(name, number): position for number, position in claimed.items()}
            now_s, now_ms = self._now(), time.time_ns() // 1_000_000
            self._written_s |= {(name, number): now_s - at.age_s(now_ms) for number, at in claimed.items()}

    def _forget_topic(self, name: str) -> None:
        self._copies.pop(name, None)
        for known in (self._positions, self._written_s):
            for key in [key for key in known if key[0] == name]:
                del known[key]

    def _follow_cut_logs(self, ends: Mapping[Partition, int]) -> None:
        """Handle logs whose source ends before the position: records were lost, and their offsets are used again.

        Raises JobFailed. If the mirror `skips_deleted`, it moves the positions back to the ends instead, so that new records
        are copied.
        """
        offsets = {at: position.offset for at, position in self._positions.items() if at[0] in self._copies}
        for (topic, number), end in cut_short(offsets, ends).items():
            lost = f"{topic}-{number} ends at {end}, and was copied up to {offsets[topic, number]}"
            if not self._request.skips_deleted:
                raise JobFailed(
                    f"{lost}: the source has lost records that the target has; --skip-deleted goes on at {end}"
                )
            _log.warning("data_loss", what=lost)
            with closing(PartitionCopier(self._settings(), topic, number)) as copier:
                copier.move_back(end)
                self._positions[topic, number] = copier.position
            self._written_s[topic, number] = self._now()

    def _require_empty(self, target: str) -> None:
        """Refuse a topic with records but no position: another program wrote it, or its positions have expired."""
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
        """Copy the records that are there now. Returns the number of offsets. Raises JobFailed, BrokenOff: then `forget` and
        retry.
        """
        ranges = self.prepare()
        total, done = offset_count(ranges), 0
        for step in cut_into_steps(ranges, offsets_max=self._offsets_per_step):
            copy_step(CopyRoute(self._spark, self._source, self._from, self._to), self._settings(), step)
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
        """Commit positions older than RENEW_EVERY_S again. Returns how many. Raises JobFailed, BrokenOff."""
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
        # Topics that were deleted or made again meanwhile are left to the next round.
        there = self._to.find_topics(copy.target_topic for copy in self._copies.values())
        copies = {
            name: copy
            for name, copy in self._copies.items()
            if copy.target_topic in there and there[copy.target_topic].topic_id == copy.target_topic_id
        }
        of_target = {copy.target_topic: name for name, copy in copies.items()}
        starts = self._to.earliest(there[target] for target in of_target)
        return self._groups.sync(
            copies, self._maps, {(of_target[topic], number): start for (topic, number), start in starts.items()}
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
    """Run rounds until stopped, or with `is_once` until one finds nothing new. Returns the number of offsets copied.

    It waits while a cluster is away, without a limit unless `give_up_after_s` is given. Raises JobFailed, BrokenOff.
    """
    persistence = Persistence(give_up_after_s, now=now, sleep=sleep)
    shown = progress or SilentProgress()
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
