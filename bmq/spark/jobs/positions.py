"""A copy's progress: source offsets, committed to groups on the target in the transactions that write the records.

Brokers accept only offsets of topics that they have, so positions are stored under the target topic. Source partition p is
stored under partition p modulo their count, with one group for each wrap-around. The count is that of the first run, because
partitions may be added; partition 0's metadata has it. The metadata also names the source topic and the end of the copy, so
that a resumed copy needs nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition

from bmq.spark.jobs.cluster import kafka_errors
from bmq.spark.jobs.outcome import JobFailed

TRANSACTION_TIMEOUT_MS: Final = 60_000
ANSWER_WAIT_S: Final = 45.0
POSITION_WAIT_S: Final = 90.0
"""A killed task's open transaction hides its position until brokers abort it at its timeout."""


@dataclass(frozen=True, slots=True)
class Position:
    """`offset`: the next one to copy. [start_offset, end_offset): the whole range to copy; end -1: endless.

    `place_count`: see CopyNames. `asked`: the copy's parameters, in any form that can be compared. `target_topic_id`:
    empty in positions of earlier releases. `origins`: see TopicCopy. `written_ms`: when it was committed; 0: not known.
    """

    offset: int
    start_offset: int
    end_offset: int
    source_topic_id: str
    place_count: int
    asked: str = ""
    target_topic_id: str = ""
    origins: tuple[str, ...] = ()
    written_ms: int = field(default=0, compare=False)

    def age_s(self, now_ms: int) -> float:
        """Seconds since it was committed."""
        return max(0, now_ms - self.written_ms) / 1000

    @property
    def metadata(self) -> str:
        told = {
            "start": self.start_offset,
            "end": self.end_offset,
            "id": self.source_topic_id,
            "places": self.place_count,
            "asked": self.asked,
            "to": self.target_topic_id,
            "origins": self.origins,
            "at": self.written_ms,
        }
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> Position:
        """Raises JobFailed: the group is used for something else."""
        try:
            told: dict[str, Any] = json.loads(metadata or "")
            start_offset, end_offset, places = int(told["start"]), int(told["end"]), int(told["places"])
            origins = tuple(str(cluster_id) for cluster_id in told.get("origins", ()))
            return cls(
                offset,
                start_offset,
                end_offset,
                str(told["id"]),
                places,
                str(told["asked"]),
                str(told.get("to", "")),
                origins,
                int(told.get("at", 0)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise JobFailed(
                f"an offset in a group of this job was not committed by it: its metadata is {metadata!r}"
            ) from error


@dataclass(frozen=True, slots=True)
class CopyNames:
    """The names of one topic's copy on the target cluster: its groups and transactional ids.

    `place_count`: partitions of the target topic when its positions were claimed.
    """

    copy: str
    source_topic: str
    target_topic: str
    place_count: int

    def place(self, source_partition: int) -> tuple[str, TopicPartition]:
        """(group, topic and partition) that hold a source partition's position."""
        round_number, partition = divmod(source_partition, self.place_count)
        return f"{self.copy}.{self.source_topic}.{round_number}", TopicPartition(self.target_topic, partition)

    def transactional_id(self, source_partition: int) -> str:
        return f"{self.copy}.{self.source_topic}.{source_partition}"

    @property
    def planner_id(self) -> str:
        """The transactional id for writing first positions."""
        return f"{self.copy}.{self.source_topic}.plan"


def transactional_producer(config: Mapping[str, str], transactional_id: str, **more: Any) -> Producer:
    """A producer of this transactional id. Older ones are fenced, and their last transaction is settled. Raises JobFailed,
    BrokenOff.
    """
    with kafka_errors(f"the producer {transactional_id} cannot be set up"):
        producer = Producer(
            {
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                **config,
                "transactional.id": transactional_id,
                **more,
            }
        )
        producer.init_transactions(ANSWER_WAIT_S)
    return producer


class GroupOffsets:
    """One group's committed offsets, read and written without joining it. Call `close` at the end."""

    def __init__(self, config: Mapping[str, str], group: str) -> None:
        self._group = group
        with kafka_errors(f"the consumer of group {group} cannot be set up"):
            self._consumer = Consumer(
                {**config, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
            )

    @property
    def member(self) -> Any:
        """The group metadata that a producer needs to commit for the group."""
        return self._consumer.consumer_group_metadata()

    def read(self, places: Iterable[TopicPartition]) -> list[Position | None]:
        """In the order of `places`. Waits for offsets of unsettled transactions (KIP-447)."""
        with kafka_errors(f"the offsets of group {self._group} cannot be read"):
            found = self._consumer.committed(list(places), POSITION_WAIT_S)
        for each in found:
            if each.error is not None:
                with kafka_errors(f"the offset of {each.topic}-{each.partition} in group {self._group} cannot be read"):
                    raise KafkaException(each.error)
        return [None if each.offset == OFFSET_INVALID else Position.of(each.offset, each.metadata) for each in found]

    def close(self) -> None:
        self._consumer.close()


def committed_at(place: TopicPartition, position: Position) -> TopicPartition:
    """The position in the form in which it is committed now."""
    metadata = written_now(position).metadata
    return TopicPartition(place.topic, place.partition, position.offset, metadata=metadata)


def written_now(position: Position) -> Position:
    return replace(position, written_ms=time.time_ns() // 1_000_000)


def commit_in_transaction(producer: Producer, offsets: GroupOffsets, place: TopicPartition, position: Position) -> None:
    """Add the position to the open transaction, and commit it. Raises JobFailed, BrokenOff."""
    with kafka_errors(f"a transaction into {place.topic} cannot be committed"):
        producer.send_offsets_to_transaction([committed_at(place, position)], offsets.member, ANSWER_WAIT_S)
        producer.commit_transaction(ANSWER_WAIT_S)


def read_positions(
    config: Mapping[str, str], names: CopyNames, partitions: Iterable[int]
) -> dict[int, Position | None]:
    """The positions of source partitions; None where nothing was planned or copied yet."""
    found: dict[int, Position | None] = {}
    for group, places in _by_group(names, partitions).items():
        offsets = GroupOffsets(config, group)
        try:
            found |= zip(places, offsets.read(places.values()), strict=True)
        finally:
            offsets.close()
    return found


def first_position(config: Mapping[str, str], copy: str, source_topic: str, target_topic: str) -> Position | None:
    """The position of partition 0, whose place does not depend on any count; None: nothing was claimed yet."""
    return read_positions(config, CopyNames(copy, source_topic, target_topic, 1), [0])[0]


def claim_positions(config: Mapping[str, str], names: CopyNames, wanted: Mapping[int, Position]) -> dict[int, Position]:
    """Positions of these source partitions: the stored ones, and for the others `wanted` ones, which are written now.

    Of two concurrent claims the later one fences the other, so no position is ever moved back. Raises JobFailed, BrokenOff.
    """
    producer = transactional_producer(config, names.planner_id)
    claimed: dict[int, Position] = {}
    is_begun = False
    for group, places in _by_group(names, wanted).items():
        offsets = GroupOffsets(config, group)
        try:
            known = dict(zip(places, offsets.read(places.values()), strict=True))
            fresh = {
                partition: written_now(wanted[partition]) for partition, position in known.items() if position is None
            }
            claimed |= {partition: position for partition, position in known.items() if position is not None} | fresh
            if fresh:
                with kafka_errors(f"the positions of {names.copy} cannot be written"):
                    if not is_begun:
                        producer.begin_transaction()
                        is_begun = True
                    commits = [committed_at(places[partition], position) for partition, position in fresh.items()]
                    producer.send_offsets_to_transaction(commits, offsets.member, ANSWER_WAIT_S)
        finally:
            offsets.close()
    if is_begun:
        with kafka_errors(f"the positions of {names.copy} cannot be written"):
            producer.commit_transaction(ANSWER_WAIT_S)
    return claimed


def _by_group(names: CopyNames, partitions: Iterable[int]) -> dict[str, dict[int, TopicPartition]]:
    found: dict[str, dict[int, TopicPartition]] = {}
    for partition in sorted(partitions):
        group, place = names.place(partition)
        found.setdefault(group, {})[partition] = place
    return found
