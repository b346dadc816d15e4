"""What the members of one share group were given and told, record by record, and what is wrong with it. No I/O.

Times are of the machine's monotonic clock, the same for all processes. What members tell arrives in the order of each one's
telling, and not in the order of all: so times are compared, and a time that is not known exactly counts against no one. A
delivery was acquired between `since_s` and `at_s`. Used from many threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bmq.protocol.error_codes import ErrorCode
from tests.soak.queues.plan import FINAL, Choice

Place = tuple[int, int]
"""Partition and offset."""
EXAMPLES_MAX: Final = 5
AFTERMATH_S: Final = 5.0
"""A member hears this late that its session is gone."""
REFUSED: Final = ErrorCode.INVALID_RECORD_STATE
"""The lock has run out: nothing became of what was said. After other errors nobody knows."""
REJECTED: Final = "Offset rejected by client."
"""Kafka's words in a dead letter; with the others it was delivered too often."""


class Delivery(NamedTuple):
    """A record that a member was given for the `number`th time, as it was told."""

    member: str
    since_s: float
    at_s: float
    number: int


class DeadLetter(NamedTuple):
    """As it was read. `number`: of deliveries, by its header; `reason`: its header's words."""

    place: Place
    number: int
    reason: str
    at_s: float


class Span(NamedTuple):
    """Of time."""

    begin_s: float
    end_s: float


class _Record:
    """`numbers`: those of its deliveries, as bits. `held`: the latest delivery that its member has said nothing of.

    `sent`: by member, what it said and was not answered; None: more than one thing. `may_be`: of each final choice, how often it was
    sent and not refused. `done`: the final choice that was acknowledged, to whom and when.
    """

    __slots__ = ("done", "held", "last", "letter", "may_be", "numbers", "sent")

    def __init__(self) -> None:
        self.numbers = 0
        self.last: Delivery | None = None
        self.held: Delivery | None = None
        self.sent: dict[str, Choice | None] = {}
        self.may_be: Counter[Choice] = Counter()
        self.done: tuple[Choice, str, float] | None = None
        self.letter: DeadLetter | None = None


@dataclass(frozen=True, slots=True)
class Early:
    """A record that a member held was given to another one before its lock could run out."""

    place: Place
    held: Delivery
    given: Delivery


class QueueLedger:
    """`counts`: of what happened."""

    def __init__(self, group: str, deliveries_max: int, lock_s: float) -> None:
        self.counts: Counter[str] = Counter()
        self._group = group
        self._deliveries_max = deliveries_max
        self._lock_s = lock_s
        self._lock = threading.Lock()
        self._records: dict[Place, _Record] = {}
        self._problems: dict[str, dict[str, None]] = {}
        self._early: dict[tuple[str, Place], Early] = {}
        self._troubles: dict[str, list[float]] = {}

    # --- what members tell

    def given(self, place: Place, delivery: Delivery) -> None:
        with self._lock:
            record = self._records.setdefault(place, _Record())
            self.counts["deliveries"] += 1
            self._note_number(place, record, delivery)
            holder = record.held
            if holder is not None and holder.member != delivery.member and holder.at_s <= delivery.at_s:
                if delivery.at_s < holder.since_s + self._lock_s:
                    self._early[holder.member, place] = Early(place, holder, delivery)
                else:
                    self.counts["locks_run_out"] += 1
            record.last = record.held = delivery
            self._check_done(place, record, delivery)

    def deciding(self, member: str, at_s: float, choice: Choice, places: Iterable[Place]) -> None:
        """It is about to say this of them: whether it is heard, nobody knows yet."""
        with self._lock:
            for place in places:
                record = self._records.setdefault(place, _Record())
                record.sent[member] = None if member in record.sent else choice
                if choice in FINAL:
                    record.may_be[choice] += 1
                if record.held is not None and record.held.member == member:
                    record.held = None
                early = self._early.get((member, place))
                if early is not None and at_s <= early.given.at_s:
                    del self._early[member, place]

    def answered(self, member: str, at_s: float, places: Iterable[Place], error_code: int | None) -> None:
        """What became of what it said; `error_code`: Kafka's, or librdkafka's own."""
        with self._lock:
            for place in places:
                record = self._records.setdefault(place, _Record())
                if member not in record.sent:
                    self._report("unasked", f"{self._at(place)} was answered to {member}, who had said nothing of it")
                    continue
                choice = record.sent.pop(member)
                if choice is None:
                    self.counts["answers_unclear"] += 1
                elif error_code is None:
                    self.counts[f"{choice}_known"] += 1
                    if choice in FINAL:
                        self._done(place, record, (choice, member, at_s))
                elif error_code == REFUSED:
                    self.counts["answers_refused"] += 1
                    record.may_be[choice] -= 1
                else:
                    self.counts["answers_lost"] += 1

    def troubled(self, member: str, at_s: float) -> None:
        """Its connection was lost, or it ended: its locks may end before their time."""
        with self._lock:
            self._troubles.setdefault(member, []).append(at_s)

    def dead(self, letter: DeadLetter) -> None:
        with self._lock:
            record = self._records.setdefault(letter.place, _Record())
            if record.letter is not None:
                self.counts["letters_again"] += 1
                return
            self.counts["letters"] += 1
            record.letter = letter
            if record.last is not None:
                self._check_done(letter.place, record, record.last)

    def damaged(self, what: str) -> None:
        with self._lock:
            self._report("damage", f"group {self._group}: {what}")

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    # --- what is asked

    def unsettled(self, ends: Mapping[int, int]) -> str | None:
        """The first record of which more is to come by what is known here: it is not accepted, and no dead letter."""
        with self._lock:
            for place in places_of(ends):
                record = self._records.get(place) or _Record()
                known = self._known(record)
                if record.letter is None and (known is Choice.REJECT or record.may_be[Choice.ACCEPT] <= 0):
                    return f"{self._at(place)} has {record.numbers.bit_count()} deliveries, and {known or 'no end'} is known"
            return None

    def judge(self, ends: Mapping[int, int], outages: Sequence[Span] = ()) -> list[str]:
        """What is wrong, when nothing more is to come of the records below `ends`; empty when nothing is.

        `outages`: when the server was away, which ends sessions.
        """
        with self._lock:
            for early in self._early.values():
                if not self._is_excused(early, outages):
                    self._report(
                        "early",
                        f"{self._at(early.place)} was locked for {early.held.member}, and given to {early.given.member} "
                        f"{early.given.at_s - early.held.since_s:.2f} s later at most; a lock lasts {self._lock_s:g} s",
                    )
            self._early.clear()
            for place in places_of(ends):
                self._check_end(place, self._records.get(place) or _Record())
            for place in self._records:
                if place[1] >= ends.get(place[0], 0):
                    self._report("beyond", f"{self._at(place)} is behind the end of its partition")
            return [sentence for found in self._problems.values() for sentence in _examples(list(found))]

    # --- decisions

    def _note_number(self, place: Place, record: _Record, delivery: Delivery) -> None:
        number, last = delivery.number, record.last
        if not 1 <= number <= self._deliveries_max:
            self._report("number", f"{self._at(place)} has delivery {number}; {self._deliveries_max} are allowed")
            return
        if record.numbers >> number & 1:
            self._report("number", f"{self._at(place)} has delivery {number} twice, the second at {delivery.member}")
        elif last is not None and last.at_s < delivery.since_s and number < last.number:
            self._report("number", f"{self._at(place)} has delivery {number} behind {last.number}")
        record.numbers |= 1 << number
        self.counts["delivered_again"] += number > 1

    def _done(self, place: Place, record: _Record, done: tuple[Choice, str, float]) -> None:
        if record.done is not None:
            first, member, _ = record.done
            self._report(
                "twice", f"{self._at(place)}: {first} of {member} was acknowledged, and then {done[0]} of {done[1]}"
            )
            return
        record.done = done
        if record.last is not None:
            self._check_done(place, record, record.last)

    def _check_done(self, place: Place, record: _Record, last: Delivery) -> None:
        if record.done is not None and last.since_s > record.done[2]:
            choice, member, _ = record.done
            self._report(
                "again", f"{self._at(place)} was given to {last.member} after {choice} of {member} was acknowledged"
            )
        if record.letter is not None and last.since_s > record.letter.at_s:
            self._report("again", f"{self._at(place)} was given to {last.member} after it was a dead letter")

    def _check_end(self, place: Place, record: _Record) -> None:
        known, letter, may_be_accepted = self._known(record), record.letter, record.may_be[Choice.ACCEPT] > 0
        if letter is not None:
            self._check_letter(place, record, letter)
        elif known is Choice.REJECT:
            self._report("letters", f"{self._at(place)} was rejected and is not among the dead letters")
        elif known is None and not may_be_accepted:
            what = "delivered and never accepted" if record.numbers else "never delivered"
            self._report("lost", f"{self._at(place)} was {what}, and is not among the dead letters")
        self.counts["accepts_unknown"] += letter is None and known is None and may_be_accepted
        self.counts["accepted"] += known is Choice.ACCEPT

    def _check_letter(self, place: Place, record: _Record, letter: DeadLetter) -> None:
        if self._known(record) is Choice.ACCEPT:
            self._report("letters", f"{self._at(place)} was accepted, and is among the dead letters")
        elif letter.reason == REJECTED:
            if record.may_be[Choice.REJECT] <= 0:
                self._report("letters", f"{self._at(place)} is a dead letter as rejected, and nobody rejected it")
        elif letter.number != self._deliveries_max:
            self._report("letters", f"{self._at(place)} is a dead letter after {letter.number} deliveries")
        self.counts["letters_of_rejected"] += letter.reason == REJECTED

    def _is_excused(self, early: Early, outages: Sequence[Span]) -> bool:
        begin_s, end_s = early.held.since_s, early.given.at_s
        if any(one.begin_s <= end_s and begin_s <= one.end_s + AFTERMATH_S for one in outages):
            return True
        return any(begin_s <= at_s <= end_s + AFTERMATH_S for at_s in self._troubles.get(early.held.member, ()))

    def _known(self, record: _Record) -> Choice | None:
        return None if record.done is None else record.done[0]

    def _at(self, place: Place) -> str:
        return f"group {self._group}: offset {place[1]} of partition {place[0]}"

    def _report(self, kind: str, sentence: str) -> None:
        self._problems.setdefault(kind, {})[sentence] = None


def places_of(ends: Mapping[int, int]) -> Iterable[Place]:
    """All of them below `ends`."""
    return ((partition, offset) for partition, end in ends.items() for offset in range(end))


def _examples(problems: list[str]) -> list[str]:
    if len(problems) <= EXAMPLES_MAX:
        return problems
    return [*problems[:EXAMPLES_MAX], f"… and {len(problems) - EXAMPLES_MAX} more like the last"]
