"""Translates the source's consumer group offsets and commits them on the target, for groups that are unused there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from bmq.spark.jobs.cluster import ANSWER_WAIT_S, Partition, kafka_errors, kafka_failure
from bmq.spark.jobs.copy_settings import TopicCopy
from bmq.spark.jobs.offset_translation import MapEntry, OffsetMap, TopicIds
from bmq.spark.jobs.outcome import BrokenOff, JobFailed

OWN_PREFIX: Final = "bmq-"
_IDLE: Final = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD, ConsumerGroupState.UNKNOWN})


class OffsetMaps:
    """The offset maps of all partitions, read from the mirror's map topic. Call `close` at the end."""

    def __init__(self, config: Mapping[str, str], map_topic: str) -> None:
        self._topic = map_topic
        self._maps: dict[Partition, tuple[TopicIds, OffsetMap]] = {}
        self._next_offset = OFFSET_BEGINNING
        with kafka_errors(f"the consumer of {map_topic} cannot be set up"):
            self._consumer = Consumer(
                {
                    **config,
                    "group.id": f"{map_topic}-reader",
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "enable.partition.eof": True,
                }
            )

    def of(self, partition: Partition, ids: TopicIds) -> OffsetMap:
        """The map of a source partition between the topics with these ids; empty if there is none."""
        known = self._maps.get(partition)
        return known[1] if known is not None and known[0] == ids else OffsetMap()

    def catch_up(self) -> None:
        """Read entries written since the last call. Raises JobFailed, BrokenOff."""
        what = f"{self._topic} cannot be read"
        with kafka_errors(what):
            # A new assignment makes the consumer report the end again, even without new records.
            self._consumer.assign([TopicPartition(self._topic, 0, self._next_offset)])
        while True:
            with kafka_errors(what):
                message = self._consumer.poll(ANSWER_WAIT_S)
            if message is None:
                raise BrokenOff(f"{what}: no answer within {ANSWER_WAIT_S:g} s")
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                raise kafka_failure(what, error)
            try:
                entry = MapEntry.decode(message.key() or b"", message.value() or b"")
            except ValueError as wrong:
                raise JobFailed(
                    f"{self._topic} has a record at offset {message.offset()} that no mirror wrote"
                ) from wrong
            offset = message.offset() or 0
            if offset >= self._next_offset:  # each once, whatever the client delivers
                self._take(entry)
                self._next_offset = offset + 1

    def _take(self, entry: MapEntry) -> None:
        partition = entry.topic, entry.partition
        if partition not in self._maps or self._maps[partition][0] != entry.ids:
            self._maps[partition] = entry.ids, OffsetMap()
        self._maps[partition][1].add(entry.runs)

    def close(self) -> None:
        self._consumer.close()


@dataclass(frozen=True, slots=True)
class GroupSync:
    """The result for one group. `in_use`: it has members on the target, so its offsets were left alone."""

    group: str
    committed: int
    in_use: bool


def translated(
    offsets: Mapping[Partition, int],
    maps: Mapping[Partition, OffsetMap],
    there: Mapping[Partition, int],
    starts: Mapping[Partition, int],
) -> dict[Partition, int]:
    """The target offsets to commit for a group's source `offsets`. Pure.

    `there`: its present target offsets, which are never moved back. `starts`: of the target's logs, used for offsets older
    than the map. The group then reads some records again, but misses none.
    """
    found: dict[Partition, int] = {}
    for partition, offset in offsets.items():
        if partition not in maps or not len(maps[partition]):
            continue
        target = maps[partition].translate(offset)
        if target is None:
            target = starts.get(partition)
        if target is not None and target > there.get(partition, -1):
            found[partition] = target
    return found


class GroupMirror:
    """`pattern`: must match a group's whole name."""

    def __init__(self, source: Mapping[str, str], target: Mapping[str, str], pattern: str) -> None:
        self._source, self._target = AdminClient(dict(source)), AdminClient(dict(target))
        self._pattern = re.compile(pattern)

    def sync(
        self, copies: Mapping[str, TopicCopy], maps: OffsetMaps, starts: Mapping[Partition, int]
    ) -> list[GroupSync]:
        """Translate and commit once. `copies`: by source topic. `starts`: by source topic. Raises JobFailed, BrokenOff."""
        targets = {name: copy.target_topic for name, copy in copies.items()}
        with kafka_errors("the groups of the source cannot be listed"):
            listed = self._source.list_consumer_groups(request_timeout=ANSWER_WAIT_S).result(ANSWER_WAIT_S)
        names = sorted(
            each.group_id
            for each in listed.valid
            if self._pattern.fullmatch(each.group_id) and not each.group_id.startswith(OWN_PREFIX)
        )
        done = []
        for group in names:
            offsets = {at: offset for at, offset in _committed(self._source, group).items() if at[0] in targets}
            if not offsets:
                continue
            of_source = {(targets[topic], partition): (topic, partition) for topic, partition in offsets}
            there = {of_source[at]: offset for at, offset in _committed(self._target, group).items() if at in of_source}
            wanted = translated(offsets, {at: maps.of(at, copies[at[0]].ids) for at in offsets}, there, starts)
            if not wanted:
                continue
            is_idle = self._is_idle(group)
            if is_idle:
                self._commit(group, {(targets[topic], number): offset for (topic, number), offset in wanted.items()})
            done.append(GroupSync(group, len(wanted) if is_idle else 0, in_use=not is_idle))
        return done

    def _is_idle(self, group: str) -> bool:
        try:
            with kafka_errors(f"group {group} of the target cannot be described"):
                answers: Mapping[str, Any] = self._target.describe_consumer_groups(
                    [group], request_timeout=ANSWER_WAIT_S
                )
                described = answers[group].result(ANSWER_WAIT_S)
                # librdkafka reports a group of the new protocol as UNKNOWN between two assignments, though it has members.
                return described.state in _IDLE and not described.members
        except BrokenOff as failed:
            if "GROUP_ID_NOT_FOUND" in str(failed.__cause__):
                return True
            raise

    def _commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        places = [TopicPartition(topic, number, offset) for (topic, number), offset in sorted(offsets.items())]
        with kafka_errors(f"the offsets of group {group} cannot be committed on the target"):
            answers = self._target.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
            answers[group].result(ANSWER_WAIT_S)


def _committed(admin: AdminClient, group: str) -> dict[Partition, int]:
    with kafka_errors(f"the offsets of group {group} cannot be read"):
        answers = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], require_stable=True)
        found: Iterable[TopicPartition] = answers[group].result(ANSWER_WAIT_S).topic_partitions
    return {(at.topic, at.partition): at.offset for at in found if at.error is None and at.offset >= 0}
