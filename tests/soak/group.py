"""A consumer group under a soak: nothing is skipped, and no commit that was acknowledged is forgotten.

A commit that waits long for its answer may be sent a second time, over another connection, while the first one still lies
in the client's kernel: when the network is whole again that one arrives too, behind later commits, and takes their place.
Kafka's protocol knows no better. So an older offset that comes back is a mistake unless its commit was such a slow one;
from then on the group goes on from there, and what it commits next may be less than what it had committed before.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.soak.history import NotOurs, Sightings, origin_of
from tests.soak.journal import Journal
from tests.soak.load import PATIENT, Client

GROUP: Final = "soak"
COMMIT_INTERVAL_S: Final = 1.0
SLOW_S: Final = 1.0
POLL_WAIT_S: Final = 0.1
ASK_INTERVAL_S: Final = 0.5
ASK_WAIT_S: Final = 3.0


class GroupProgress:
    """Offsets that the members of a group were given and committed, all together. Used from their threads."""

    def __init__(self, partitions: int) -> None:
        self._lock = threading.Lock()
        self._committed = [0] * partitions
        self.next_offsets = [0] * partitions
        self.again_count = 0
        self.commit_count = 0
        self._slow: set[tuple[int, int]] = set()

    @property
    def floors(self) -> tuple[int, ...]:
        """By partition, the highest offset whose commit is acknowledged by now: later answers are not below."""
        with self._lock:
            return tuple(self._committed)

    def committed(self, partition: int, offset: int) -> None:
        """A server said that it keeps this offset."""
        with self._lock:
            self._committed[partition] = max(self._committed[partition], offset)
            self.commit_count += 1

    def was_slow(self, partition: int, offset: int) -> None:
        """The commit of this offset had no answer for long, or a bad one: it may arrive twice."""
        with self._lock:
            self._slow.add((partition, offset))

    def may_come_late(self, partition: int, offset: int) -> bool:
        with self._lock:
            return (partition, offset) in self._slow

    def came_late(self, partition: int, offset: int) -> None:
        """It did: this is what the group has committed now."""
        with self._lock:
            self._committed[partition] = offset

    def given(self, partition: int, offset: int) -> str | None:
        """What is wrong with it: records were skipped that no member had. One that comes again is counted."""
        with self._lock:
            expected = self.next_offsets[partition]
            self.next_offsets[partition] = max(expected, offset + 1)
            if offset > expected:
                return f"the group got offset {offset} of partition {partition} and never {expected} to {offset - 1}"
            self.again_count += offset < expected
            return None


class Turn:
    """What one member gets while it has its partitions: from a commit on that is not forgotten, and without a gap.

    Another member may have them, and commit, while this one has not heard yet that they were taken from it. So commits
    are compared only where a turn begins.
    """

    def __init__(self, seen: GroupProgress) -> None:
        self._seen = seen
        self._floors = seen.floors
        self._next: dict[int, int] = {}

    def given(self, partition: int, offset: int) -> str | None:
        """What is wrong with it."""
        expected = self._next.get(partition)
        self._next[partition] = offset + 1
        is_late = self._seen.may_come_late(partition, offset)
        if expected is None and offset < self._floors[partition]:
            if not is_late:
                return f"the group committed {self._floors[partition]} of partition {partition} and got {offset} afterwards"
            self._seen.came_late(partition, offset)
        if expected is not None and offset != expected:
            return f"got offset {offset} of partition {partition} after {expected - 1}"
        return None


class Member(Client):
    """One of the group. Every second it commits what it was given, one commit after the answer to the one before.

    With two of them under way the client itself may bring the older one a second time, behind the newer.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        number: int,
        seen: GroupProgress,
        sightings: Sequence[Sightings],
        journal: Journal,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(f"member {number}")
        self._seen = seen
        self._journal = journal
        self._sightings = sightings
        self._turn = Turn(seen)
        self._committed_s = 0.0
        self._is_committing = False
        self._assigned: list[TopicPartition] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "client.id": f"member-{number}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # A member whose join was lost with a killed server holds the others up for as long as this.
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 1_000,
                "fetch.queue.backoff.ms": 10,
                "on_commit": self._on_commit,
                **PATIENT,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def step(self) -> None:
        """One record at a time: `poll` calls back between two records, and never amid those it has handed out."""
        self._take_one()
        if not self._is_committing and time.monotonic() - self._committed_s > COMMIT_INTERVAL_S:
            self._committed_s = time.monotonic()
            # The server may be away, or the group be rebalancing: what was not committed comes again.
            with contextlib.suppress(KafkaException):
                self._consumer.commit(asynchronous=True)
                self._is_committing = True
                self._journal.note(self._name, f"commits {_offsets(self._consumer.position(self._assigned))}")

    def _take_one(self) -> None:
        message = self._consumer.poll(POLL_WAIT_S)
        if message is None:
            return
        error = message.error()
        if error is not None:
            self.note_error(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and value is not None
        problems = [self._turn.given(partition, offset), self._seen.given(partition, offset)]
        try:
            problems.append(self._sightings[partition].add(offset, origin_of(partition, value)))
        except NotOurs as damage:
            problems.append(f"offset {offset}: {damage}")
        for problem in filter(None, problems):
            self.fail(problem)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The committed offsets are asked for after this."""
        self._turn = Turn(self._seen)
        self._assigned = partitions
        self._journal.note(self._name, f"is given {[one.partition for one in partitions]}")

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned = []
        self._journal.note(self._name, f"gives back {[one.partition for one in partitions]}")

    def _on_commit(self, error: KafkaError | None, committed: list[TopicPartition]) -> None:
        self._is_committing = False
        self._journal.note(self._name, f"has committed {_offsets(committed)}: {error.str() if error else 'kept'}")
        is_slow = error is not None or time.monotonic() - self._committed_s > SLOW_S
        for one in committed:
            if one.offset >= 0:
                if is_slow or one.error is not None:
                    self._seen.was_slow(one.partition, one.offset)
                if error is None and one.error is None:
                    self._seen.committed(one.partition, one.offset)

    def close(self) -> None:
        self._consumer.close()


class CommittedOffsets:
    """Answers about what the group committed: never less than was acknowledged, or answered, before the question.

    `late_count`: answers that were less, because a slow commit arrived once more.
    """

    def __init__(self, seen: GroupProgress) -> None:
        self.answer_count = 0
        self.late_count = 0
        self._seen = seen
        self._answered = [0] * len(seen.next_offsets)
        self._floors = seen.floors

    def ask(self) -> None:
        """A question is about to be put."""
        self._floors = tuple(map(max, self._seen.floors, self._answered))

    def answer(self, partition: int, offset: int) -> str | None:
        """What is wrong with one partition's answer to it."""
        self.answer_count += 1
        self._answered[partition] = offset
        floor = self._floors[partition]
        if offset < floor and self._seen.may_come_late(partition, offset):
            self.late_count += 1
            self._seen.came_late(partition, offset)
        elif offset < floor:
            return f"the committed offset of partition {partition} went back from {floor} to {offset}"
        return None


class CommittedWatch(Client):
    """Asks again and again what the group committed."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        seen: GroupProgress,
        journal: Journal,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("watch of committed offsets")
        self.offsets = CommittedOffsets(seen)
        self._journal = journal
        self._partitions = [TopicPartition(topic, partition) for partition in range(len(seen.next_offsets))]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                **PATIENT,
                **(settings or {}),
            }
        )

    def step(self) -> None:
        self.offsets.ask()
        try:
            found = self._consumer.committed(self._partitions, timeout=ASK_WAIT_S)
        except KafkaException:
            return  # nobody answers now; it has waited
        self._journal.note(self._name, f"is told {_offsets(found)}")
        for one in found:
            problem = None if one.error else self.offsets.answer(one.partition, max(0, one.offset))
            if problem:
                self.fail(problem)
        self._is_over.wait(ASK_INTERVAL_S)

    def close(self) -> None:
        self._consumer.close()


def _offsets(found: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{one.partition}: {one.error.name() if one.error else one.offset}" for one in found)
