"""What clients of a topic with half messages saw, and the rules it must obey whatever was killed, cut or slow in between.

A half message has one fate. It is delivered once, if somebody committed it; it is nowhere, if it was rolled back; it is copied, once at
least, if nobody decided it. What is decided stays: a decision that was acknowledged is obeyed, and another one is refused. Nothing of a batch
that was refused is there. Nobody is asked about a message that is decided.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from bmq.log.half.half_headers import Outcome
from tests.simulation.history import Violation

Name = tuple[int, int]  # a partition, and the offset that a producer was told


class Kind(Enum):
    PLAIN = "plain"
    DELAYED = "delayed"
    HALF = "half"


class HalfSeen(NamedTuple):
    """A record as it was read. `name`: what its header bmq-half-offset says; -1: it has none."""

    offset: int
    value: bytes
    leader_epoch: int
    name: int = -1


def check_id_of(value: bytes) -> bytes:
    return value.partition(b":")[0]


class HalfHistory:
    """`gives_up`: whether what nobody decides is copied in the end."""

    def __init__(self, *, gives_up: bool) -> None:
        self.gives_up = gives_up
        self.kinds: dict[bytes, Kind] = {}
        self.names: dict[Name, bytes] = {}  # of what was acknowledged, or asked about
        self.acknowledged: set[bytes] = set()
        self.to_be_decided: set[bytes] = set()  # by a client that goes on until it is
        self.decided: dict[Name, Outcome] = {}
        self.copies: Counter[bytes] = Counter()
        self.checks: Counter[bytes] = Counter()
        self.refused: set[Name] = set()
        self.values: dict[bytes, bytes] = {}  # of half messages, by check id
        self.seen: dict[int, dict[int, HalfSeen]] = defaultdict(dict)  # of each partition, by offset
        self._asked: dict[Name, set[Outcome]] = defaultdict(set)
        self._withdrawn: set[bytes] = set()
        self._deleted: Counter[int] = Counter()
        self._places: dict[bytes, tuple[int, int]] = {}
        self._offsets: dict[bytes, Name] = {}

    # --- what producers and checkers say and hear

    def send(self, records: Iterable[tuple[bytes, Kind]]) -> None:
        for value, kind in records:
            self.kinds[value] = kind
            if kind is Kind.HALF:
                self.values[check_id_of(value)] = value

    def acknowledge(self, partition: int, base_offset: int, values: Sequence[bytes]) -> None:
        for offset, value in enumerate(values, base_offset):
            if value in self.kinds:
                self._name((partition, offset), value)
                self.acknowledged.add(value)

    def withdraw(self, values: Iterable[bytes]) -> None:
        """Their batch was refused for one of its records."""
        for value in values:
            if value in self._places:
                raise Violation(f"{value!r} was read, and its batch was refused")
            self._withdrawn.add(value)

    def deciding(self, name: Name, outcome: Outcome) -> None:
        """It is about to be asked for."""
        self._asked[name].add(outcome)

    def decide(self, name: Name, outcome: Outcome) -> None:
        """That was acknowledged."""
        before, value = self.decided.setdefault(name, outcome), self.names[name]
        if before is not outcome:
            raise Violation(f"{name}, {value!r}, was decided twice: {before.name} and {outcome.name}")
        if outcome is Outcome.ROLLBACK and value in self._places:
            raise Violation(f"{name} was rolled back, and {value!r} had been read")
        if value in self.copies:
            raise Violation(f"{name} was decided, and {value!r} had been given up")

    def refuse(self, name: Name, outcome: Outcome) -> None:
        """A decision was refused: the other one was made, or nobody may decide any more."""
        if self.decided.get(name) is not outcome:  # else it was made before, and is forgotten
            self.refused.add(name)

    def asked_about(self, name: Name, value: bytes) -> None:
        """A check of it was read."""
        if self.kinds.get(value) is not Kind.HALF:
            raise Violation(f"a check asks about {value!r}, which is no half message")
        self._name(name, value)
        self.checks[value] += 1

    def _name(self, name: Name, value: bytes) -> None:
        if self.names.setdefault(name, value) != value or self._offsets.setdefault(value, name) != name:
            raise Violation(f"{name} is {self.names[name]!r} and {value!r}, which is {self._offsets.get(value)}")

    # --- what readers see

    def read(self, partition: int, one: HalfSeen) -> None:
        before = self.seen[partition].setdefault(one.offset, one)
        if before != one:
            raise Violation(f"offset {one.offset} of {partition} was read as {before} and as {one}")
        place, value = (partition, one.offset), one.value
        if self._places.setdefault(value, place) != place:
            raise Violation(f"{value!r} was read at {self._places[value]} and at {place}")
        kind = self.kinds.get(value)
        if kind is None or value in self._withdrawn:
            raise Violation(f"{place} holds {value!r}, which was {'refused' if kind else 'never sent'}")
        if (kind is Kind.HALF) != (one.name >= 0):
            raise Violation(f"{place} holds {value!r}, a record of kind {kind.value}, with the name {one.name}")
        if kind is not Kind.HALF:
            return
        name = partition, one.name
        self._name(name, value)
        if Outcome.COMMIT not in self._asked[name]:
            raise Violation(f"{value!r} was delivered, and nobody committed it")
        if self.decided.get(name) is Outcome.ROLLBACK:
            raise Violation(f"{value!r} was delivered, and had been rolled back")
        if value in self.copies:
            raise Violation(f"{value!r} was delivered, and had been given up")

    def copied(self, name: Name, value: bytes) -> None:
        """It is in the topic of those given up, perhaps again."""
        if self.kinds.get(value) is not Kind.HALF or not self.gives_up:
            raise Violation(f"{value!r} was given up")
        self._name(name, value)
        if value in self._places:
            raise Violation(f"{value!r} was given up, and had been delivered")
        if name in self.decided:
            raise Violation(f"{value!r} was given up, and decided: {self.decided[name].name}")
        self.copies[value] += 1

    # --- what must hold in the end

    def is_undecided(self, value: bytes) -> bool:
        """Whether nothing that clients saw has decided it."""
        name = self._offsets.get(value)
        return not (value in self._places or value in self.copies or name in self.decided)

    def missing(self) -> list[bytes]:
        """Acknowledged records whose fate nobody has seen yet. One that nobody decides has none where none are given up."""
        return [value for value in self.acknowledged if not self._has_fate(value)]

    def _has_fate(self, value: bytes) -> bool:
        if value in self._places or value in self.copies:
            return True
        if self.kinds[value] is not Kind.HALF:
            return False
        if self.decided.get(self._offsets[value]) is Outcome.ROLLBACK:
            return True
        return not self.gives_up and value not in self.to_be_decided

    def delete(self, partition: int, before_offset: int) -> None:
        """Its records below are to be deleted; somebody has read them."""
        self._deleted[partition] = max(self._deleted[partition], before_offset)

    def check_final(self, partition: int, start: int, log: Sequence[HalfSeen]) -> None:
        """`log`: all that a reader finds, from its `start` to its end, when nothing waits any more."""
        for one in log:
            self.read(partition, one)
        if start > self._deleted[partition]:
            raise Violation(f"{partition} begins at {start}, and nothing above {self._deleted[partition]} was deleted")
        there = {one.offset for one in log}
        gone = [offset for offset in self.seen[partition] if offset >= start and offset not in there]
        if gone:
            raise Violation(f"offsets {gone[:5]} of {partition} were read, and are not there any more")
        epochs = [self.seen[partition][offset].leader_epoch for offset in sorted(self.seen[partition])]
        if epochs != sorted(epochs):
            raise Violation(f"the leader epochs of {partition} go back: {epochs}")

    def counts(self) -> Counter[str]:
        """How much of what happened."""
        return Counter(
            delivered=sum(self.kinds[value] is Kind.HALF for value in self._places),
            rolled_back=sum(outcome is Outcome.ROLLBACK for outcome in self.decided.values()),
            given_up=len(self.copies),
            checks=self.checks.total(),
            refused=len(self.refused),
        )
