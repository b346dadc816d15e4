"""What clients of a topic with delay saw, and the rules it must obey whatever was killed, cut or slow in between.

Each acknowledged record is there once: at its own offset, if its time had passed at its append or it asked for none, or as a
delivery. Deliveries of a partition are in the order of (due time, offset that the producer was told). None is early by its
owner's clock, unless a record with a later due time was delivered before. What was cancelled is not there; a cancellation that was refused
at its first try changed nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tests.simulation.history import Violation

Name = tuple[int, int]  # a partition, and the offset that a producer was told


class Asked(NamedTuple):
    """A record as it was sent, at `time_ms` by the true clock. `at_ms`, `after_ms`: what its header asks for; -1: nothing."""

    value: bytes
    time_ms: int
    at_ms: int = -1
    after_ms: int = -1

    @property
    def is_delayed(self) -> bool:
        return self.at_ms >= 0 or self.after_ms >= 0


class Seen(NamedTuple):
    """A record as it was read. `name`, `due_ms`, `created_ms`: of a delivery, else -1."""

    offset: int
    value: bytes
    timestamp_ms: int
    leader_epoch: int
    name: int = -1
    due_ms: int = -1
    created_ms: int = -1


class DelayHistory:
    """`now_ms`: the true time. `ahead_ms`, `behind_ms`: how much owners' clocks may differ from it by now."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.ahead_ms = 0
        self.behind_ms = 0
        self.asked: dict[bytes, Asked] = {}
        self.names: dict[Name, bytes] = {}  # of what was acknowledged
        self.cancelled: set[Name] = set()
        self.refused: set[Name] = set()
        self.seen: dict[int, dict[int, Seen]] = defaultdict(dict)  # of each partition, by offset
        self._deleted: Counter[int] = Counter()  # below which offset, in each partition
        self._in_doubt: set[Name] = set()  # a cancellation was sent, and nobody knows what came of it
        self._places: dict[bytes, tuple[int, int]] = {}

    # --- what producers say and hear

    def send(self, records: Iterable[Asked]) -> None:
        self.asked.update((one.value, one) for one in records)

    def acknowledge(self, partition: int, base_offset: int, records: Sequence[Asked]) -> None:
        for offset, one in enumerate(records, base_offset):
            before = self.names.setdefault((partition, offset), one.value)
            if before != one.value:
                raise Violation(f"offset {offset} of {partition} was told for {before!r} and for {one.value!r}")

    def cancelling(self, name: Name) -> None:
        """It is about to be asked for."""
        self._in_doubt.add(name)

    def cancel(self, name: Name) -> None:
        """That was acknowledged."""
        self._in_doubt.discard(name)
        self.cancelled.add(name)
        if self.names[name] in self._places:
            raise Violation(f"{name} was cancelled, and {self.names[name][:20]!r} had been read")

    def refuse(self, name: Name, *, is_certain: bool) -> None:
        """It was refused. `is_certain`: no try before could have been taken."""
        if is_certain:
            self._in_doubt.discard(name)
            self.refused.add(name)

    # --- what readers see

    def read(self, partition: int, one: Seen) -> None:
        before = self.seen[partition].setdefault(one.offset, one)
        if before != one:
            raise Violation(f"offset {one.offset} of {partition} was read as {before} and as {one}")
        place = partition, one.offset
        if self._places.setdefault(one.value, place) != place:
            raise Violation(f"{one.value[:20]!r} was read at {self._places[one.value]} and at {place}")
        asked = self.asked.get(one.value)
        if asked is None:
            raise Violation(f"offset {one.offset} of {partition} holds {one.value[:20]!r}, which nobody sent")
        name = one.offset if one.name < 0 else one.name
        if self.names.get((partition, name), one.value) != one.value:
            raise Violation(f"{one} is not {self.names[partition, name][:20]!r}, which was told this offset")
        if (partition, name) in self.cancelled:
            raise Violation(f"{one} was cancelled")
        self._check_time(one, asked)

    def _check_time(self, one: Seen, asked: Asked) -> None:
        latest_ms = self._now_ms() + self.ahead_ms
        earliest_ms = asked.time_ms - self.behind_ms + asked.after_ms if asked.after_ms >= 0 else asked.at_ms
        if one.name < 0:
            if asked.is_delayed and earliest_ms > latest_ms:
                raise Violation(f"{one} asked for {earliest_ms}, and was read at {latest_ms} at the latest")
            return
        if not asked.is_delayed:
            raise Violation(f"{one} asked for no delay, and was delivered")
        if one.due_ms < earliest_ms:
            raise Violation(f"{one} asked for {earliest_ms}")
        if one.timestamp_ms > latest_ms:
            raise Violation(f"{one} was read at {latest_ms} at the latest")
        if one.created_ms != asked.time_ms:
            raise Violation(f"{one} was made at {asked.time_ms}")

    # --- what must hold in the end

    def missing(self) -> list[bytes]:
        """Acknowledged records that nobody has read yet, and that were not cancelled."""
        excused = self.cancelled | self._in_doubt
        return [value for name, value in self.names.items() if name not in excused and value not in self._places]

    def delete(self, partition: int, before_offset: int) -> None:
        """Its records below are to be deleted; somebody has read them."""
        self._deleted[partition] = max(self._deleted[partition], before_offset)

    def check_final(self, partition: int, start: int, log: Sequence[Seen]) -> None:
        """`log`: all that a reader finds, from its `start` to its end, when nothing is pending any more."""
        for one in log:
            self.read(partition, one)
        if start > self._deleted[partition]:
            raise Violation(f"{partition} begins at {start}, and nothing above {self._deleted[partition]} was deleted")
        there = {one.offset for one in log}
        gone = [offset for offset in self.seen[partition] if offset >= start and offset not in there]
        if gone:
            raise Violation(f"offsets {gone[:5]} of {partition} were read, and are not there any more")
        last = (-1, -1)
        reached_ms = -1
        for offset in sorted(self.seen[partition]):
            one = self.seen[partition][offset]
            if one.name < 0:
                continue
            if (one.due_ms, one.name) <= last:
                raise Violation(f"{one} of {partition} was delivered behind {last}")
            if one.due_ms > max(one.timestamp_ms, reached_ms):
                raise Violation(f"{one} of {partition} is early: due times up to {reached_ms} had been reached")
            last, reached_ms = (one.due_ms, one.name), one.due_ms
        epochs = [self.seen[partition][offset].leader_epoch for offset in sorted(self.seen[partition])]
        if epochs != sorted(epochs):
            raise Violation(f"the leader epochs of {partition} go back: {epochs}")

    def counts(self) -> Counter[str]:
        """How much of what happened."""
        read = [one for partition in self.seen.values() for one in partition.values()]
        return Counter(
            delivered=sum(one.name >= 0 for one in read),
            plain=sum(one.name < 0 for one in read),
            cancelled=len(self.cancelled),
            refused=len(self.refused),
        )
