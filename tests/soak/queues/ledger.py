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
from tests.soak.queues.record import REJECTED, DeadLetter, Delivery, End, Place, Record

EXAMPLES_MAX: Final = 5
AFTERMATH_S: Final = 5.0
"""A member hears this late that its session is gone."""
REFUSED: Final = ErrorCode.INVALID_RECORD_STATE
"""The lock has run out: nothing became of what was said. After other errors nobody knows."""


class Span(NamedTuple):
    """Of time."""

    begin_s: float
    end_s: float


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
        self._records: dict[Place, Record] = {}
        self._problems: dict[str, dict[str, None]] = {}
        self._early: dict[tuple[str, Place], Early] = {}
        self._troubles: dict[str, list[float]] = {}

    # --- what members tell

    def given(self, place: Place, delivery: Delivery) -> None:
        with self._lock:
            record = self._records.setdefault(place, Record())
            self.counts["deliveries"] += 1
            self._note_number(place, record, delivery)
            holder = None if record.last is None else record.unsaid.get(record.last.member)
            if holder is not None and holder.member != delivery.member and holder.at_s <= delivery.at_s:
                if delivery.at_s < holder.since_s + self._lock_s:
                    self._early[holder.member, place] = Early(place, holder, delivery)
                else:
                    self.counts["locks_run_out"] += 1
            record.deliveries.append(delivery)
            record.unsaid[delivery.member] = delivery
            for end in record.acknowledged:
                self._check_again(place, delivery, end)
            self._check_dead(place, record, delivery)

    def deciding(self, member: str, at_s: float, choice: Choice, places: Iterable[Place]) -> None:
        """It is about to say this of them: whether it is heard, nobody knows yet."""
        with self._lock:
            for place in places:
                record = self._records.setdefault(place, Record())
                delivery = record.unsaid.pop(member, None) or Delivery(member, at_s, at_s, 0)
                end = End(choice, delivery, at_s) if choice in FINAL else None
                record.sent[member] = None if member in record.sent else (choice, end)
                if end is not None:
                    record.ends.append(end)
                early = self._early.get((member, place))
                if early is not None and at_s <= early.given.at_s:
                    del self._early[member, place]

    def answered(self, member: str, at_s: float, places: Iterable[Place], error_code: int | None) -> None:
        """What became of what it said; `error_code`: Kafka's, or librdkafka's own."""
        with self._lock:
            for place in places:
                record = self._records.setdefault(place, Record())
                if member not in record.sent:
                    self._report("unasked", f"{self._at(place)} was answered to {member}, who had said nothing of it")
                    continue
                said = record.sent.pop(member)
                if said is None:
                    self.counts["answers_unclear"] += 1
                    continue
                choice, end = said
                if error_code is None:
                    self.counts[f"{choice}_known"] += 1
                    if end is not None:
                        end.answered_s = at_s
                        for delivery in record.deliveries:
                            self._check_again(place, delivery, end)
                elif error_code == REFUSED:
                    self.counts["answers_refused"] += 1
                    if end is not None:
                        record.ends.remove(end)
                else:
                    self.counts["answers_lost"] += 1

    def troubled(self, member: str, at_s: float) -> None:
        """Its connection was lost, or it ended: its locks may end before their time."""
        with self._lock:
            self._troubles.setdefault(member, []).append(at_s)

    def dead(self, letter: DeadLetter) -> None:
        with self._lock:
            record = self._records.setdefault(letter.place, Record())
            if record.letter is not None:
                self.counts["letters_again"] += 1
                return
            self.counts["letters"] += 1
            record.letter = letter
            for delivery in record.deliveries:
                self._check_dead(letter.place, record, delivery)

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
                record = self._records.get(place) or Record()
                if record.letter is None and (record.is_rejected or not record.may_be_accepted):
                    known = "no end" if record.known is None else record.known.choice
                    return f"{self._at(place)} has {len(record.deliveries)} deliveries, and {known} is known"
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
                record = self._records.get(place) or Record()
                for end in record.acknowledged:
                    end.is_certain = self._is_certain(end, outages)
                    self.counts["ends_certain"] += end.is_certain
                self._check_ends(place, record)
                self._check_last(place, record)
            for place in self._records:
                if place[1] >= ends.get(place[0], 0):
                    self._report("beyond", f"{self._at(place)} is behind the end of its partition")
            return [sentence for found in self._problems.values() for sentence in _examples(list(found))]

    # --- decisions

    def _note_number(self, place: Place, record: Record, delivery: Delivery) -> None:
        number, last = delivery.number, record.last
        if not 1 <= number <= self._deliveries_max:
            self._report("number", f"{self._at(place)} has delivery {number}; {self._deliveries_max} are allowed")
            return
        if any(number == one.number for one in record.deliveries):
            self._report("number", f"{self._at(place)} has delivery {number} twice, the second at {delivery.member}")
        elif last is not None and last.at_s < delivery.since_s and number < last.number:
            self._report("number", f"{self._at(place)} has delivery {number} behind {last.number}")
        self.counts["delivered_again"] += number > 1

    def _check_again(self, place: Place, delivery: Delivery, end: End) -> None:
        """An acknowledged end says that the record is done, whoever has ended it."""
        if end.answered_s is not None and delivery.since_s > end.answered_s:
            self._report(
                "again",
                f"{self._at(place)} was given to {delivery.member} after {end.choice} of {end.member} was acknowledged",
            )

    def _check_dead(self, place: Place, record: Record, delivery: Delivery) -> None:
        if record.letter is not None and delivery.since_s > record.letter.at_s:
            self._report("again", f"{self._at(place)} was given to {delivery.member} after it was a dead letter")

    def _check_ends(self, place: Place, record: Record) -> None:
        """Against deliveries that came after theirs."""
        for end in record.acknowledged:
            later = record.later(end)
            if later is None:
                continue
            what = f"{self._at(place)}: {end.choice} of {end.member} was acknowledged"
            if end.is_certain and later.since_s > (end.answered_s or 0.0):
                continue  # which is said already
            if end.is_certain:
                second = next((one for one in record.acknowledged if one.is_certain and one.number > end.number), None)
                then = f"{later.member} had it as delivery {later.number}"
                if second is not None:
                    then = f"then {second.choice} of {second.member}"
                self._report("twice", f"{what} while it was locked, and {then}")
            elif later.member != end.member:
                self.counts["ends_late"] += 1
                if not record.had_another_end(end):
                    why = f"{later.member} had it as delivery {later.number}, and nothing else had ended it"
                    self._report("twice", f"{what} for delivery {end.number}, and {why}")

    def _check_last(self, place: Place, record: Record) -> None:
        letter, may_be_accepted = record.letter, record.may_be_accepted
        if letter is not None:
            self._check_letter(place, record, letter)
        elif record.is_rejected:
            self._report("letters", f"{self._at(place)} was rejected and is not among the dead letters")
        elif not may_be_accepted:
            what = "delivered and never accepted" if record.deliveries else "never delivered"
            self._report("lost", f"{self._at(place)} was {what}, and is not among the dead letters")
        self.counts["accepts_unknown"] += letter is None and may_be_accepted and not record.is_accepted
        self.counts["accepted"] += letter is None and record.is_accepted

    def _check_letter(self, place: Place, record: Record, letter: DeadLetter) -> None:
        newest = max((one.number for one in record.deliveries if one.since_s <= letter.at_s), default=0)
        if any(self._excludes(record, letter, end) for end in record.acknowledged):
            self._report("letters", f"{self._at(place)} was accepted, and is among the dead letters")
        elif letter.number < newest:
            why = f"its dead letter says {letter.number}"
            self._report("letters", f"{self._at(place)} was delivered {newest} times, and {why}")
        elif letter.reason == REJECTED:
            if not any(end.choice is Choice.REJECT for end in record.ends):
                self._report("letters", f"{self._at(place)} is a dead letter as rejected, and nobody rejected it")
        elif letter.number != self._deliveries_max:
            self._report("letters", f"{self._at(place)} is a dead letter after {letter.number} deliveries")
        self.counts["letters_of_rejected"] += letter.reason == REJECTED

    def _excludes(self, record: Record, letter: DeadLetter, end: End) -> bool:
        """Whether this acknowledged end is an accept that ended the record itself."""
        if end.choice is not Choice.ACCEPT:
            return False
        if end.is_certain:
            return True
        if letter.reason == REJECTED:
            return not record.was_rejected_before(end)
        return letter.number < end.number

    def _is_certain(self, end: End, outages: Sequence[Span]) -> bool:
        """Whether it was acknowledged while its member had the record locked for certain."""
        begin_s, end_s = end.delivery.since_s, end.answered_s
        if not end.number or end_s is None or end_s >= begin_s + self._lock_s:
            return False
        return not self._may_have_lost_locks(end.member, begin_s, end_s, outages)

    def _is_excused(self, early: Early, outages: Sequence[Span]) -> bool:
        return self._may_have_lost_locks(early.held.member, early.held.since_s, early.given.at_s, outages)

    def _may_have_lost_locks(self, member: str, begin_s: float, end_s: float, outages: Sequence[Span]) -> bool:
        """Whether its session may have ended in this time."""
        if any(one.begin_s <= end_s and begin_s <= one.end_s + AFTERMATH_S for one in outages):
            return True
        return any(begin_s <= at_s <= end_s + AFTERMATH_S for at_s in self._troubles.get(member, ()))

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
