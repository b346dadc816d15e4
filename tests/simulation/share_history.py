"""What members of a share group saw, and the rules it must obey whatever was killed, cut or slow in between.

An acquisition is known by its delivery count, which rises by one each time: no count is given twice, what was accepted or
rejected at one count is not given at a higher one, and an older count settles nothing. While a member's lock lives nobody else
gets its records; that a lock lived is known once the member's connection is found to have lasted. What was released waits for the
group's back-off. With dead letters, each record was accepted by somebody, or has a dead letter that says how often it was given;
never both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bmq.protocol.dead_letters import DeadReason
from bmq.protocol.retry_backoff import delay_ms
from bmq.protocol.share_state_messages import AckType
from tests.simulation.dead_letters import Letter
from tests.simulation.history import Violation
from tests.simulation.transaction_history import Place

Spot = tuple[Place, int]  # a partition and an offset
CLOCK_TICK_S = 0.005
"""Clocks tell milliseconds."""


@dataclass(slots=True, eq=False)
class Hold:
    """A member was given a record and has not settled it. `sent_s`: when it asked; `until_s`: the lock lives at least so long.

    `suspicion`: somebody else has it, which is right only if the member's connection has ended before.
    """

    spot: Spot
    member_id: str
    count: int
    sent_s: float
    until_s: float
    may_be_lost: Callable[[float], bool]
    is_missing: bool = False  # the answer had no such record
    suspicion: str = ""
    suspected_s: float = 0.0


@dataclass(slots=True)
class _Seen:
    """`counts`: of its deliveries, by whom. `ended`: the count at which it was accepted or rejected for certain."""

    counts: dict[int, str] = field(default_factory=dict)
    given_s: dict[int, float] = field(default_factory=dict)  # when each delivery was heard of
    ended: int = 0
    accepted_by: str = ""
    may_be_ended: bool = False  # an acknowledgement that ends it was sent
    may_be_accepted: bool = False
    may_be_rejected: bool = False
    is_accepted: bool = False  # for certain, while its member had it locked
    is_rejected: bool = False
    waits: tuple[int, float] = 0, 0.0  # released at this count: not given at a higher one before this time
    is_past: bool = False  # an acknowledgement came too late and was answered without an error: the start is past it
    was_missing: bool = False  # acquired, and not among the records of the answer
    holds: list[Hold] = field(default_factory=list)
    refused: list[Hold] = field(default_factory=list)  # acknowledged, which was answered with an error


class ShareHistory:
    """`now_s`: the time. `limits`: (lowest, highest) delivery count limit that was ever in force.

    `backoff`: what a released record waits for, in milliseconds after the first, second, … delivery.
    """

    def __init__(self, now_s: Callable[[], float], limit: int, backoff: tuple[int, ...] = ()) -> None:
        self._now_s = now_s
        self._backoff = backoff
        self.limits = (limit, limit)
        self.shrinking: frozenset[Place] = frozenset()  # whose first records are deleted now and then
        self.delivery_count = 0
        self.redelivery_count = 0
        self.accept_count = 0
        self.refusal_count = 0
        self.expiry_count = 0  # holds that outlived their locks
        self.wait_count = 0  # deliveries after a back-off
        self.dead_count = 0  # records with a dead letter
        self.lost_count = 0  # members that were told that they are none
        self.lost_fetch_count = 0  # fetches without an answer
        self.failed_fetches = Counter[Place]()  # answers with an error for the partition
        self._seen: dict[Spot, _Seen] = {}

    def limited(self, limit: int) -> None:
        """The group's delivery count limit is about to be changed."""
        self.limits = min(self.limits[0], limit), max(self.limits[1], limit)

    # --- what members are given

    def deliver(self, hold: Hold) -> None:
        seen = self._seen.setdefault(hold.spot, _Seen())
        count, who = hold.count, hold.member_id
        self.delivery_count += 1
        self.redelivery_count += count > 1
        if not 1 <= count <= self.limits[1]:
            raise Violation(f"{hold.spot} was delivered with count {count}, the limit was {self.limits[1]} at most")
        if count in seen.counts:
            raise Violation(f"{hold.spot} was delivered to {seen.counts[count]} and to {who} with count {count}")
        if seen.ended and count > seen.ended:
            raise Violation(f"{hold.spot} was settled at delivery {seen.ended}, and given to {who} with count {count}")
        if seen.is_past:
            raise Violation(f"{hold.spot} was given to {who} with count {count}, and the start had been past it")
        seen.counts[count] = who
        seen.given_s[count] = self._now_s()
        self._check_wait(hold.spot, seen)
        for other in seen.refused:
            if other.count < count and self._is_locked(other):
                why = f"an acknowledgement of it was refused, and {who} was given it at {self._now_s():.3f} s"
                raise Violation(f"{hold.spot} is locked by {other.member_id} until {other.until_s:.3f} s, {why}")
        self._suspect_others(seen, hold)
        seen.holds.append(hold)
        seen.was_missing |= hold.is_missing

    def _check_wait(self, spot: Spot, seen: _Seen) -> None:
        released_count, not_before_s = seen.waits
        for count, at_s in seen.given_s.items() if released_count else ():
            if count <= released_count:
                continue
            if at_s < not_before_s - CLOCK_TICK_S:
                why = f"has to wait until {not_before_s:.3f} s, and was given with {count} at {at_s:.3f} s"
                raise Violation(f"{spot} was released at delivery {released_count}, {why}")
            self.wait_count += count == released_count + 1

    def _suspect_others(self, seen: _Seen, hold: Hold) -> None:
        now_s = self._now_s()
        for other in seen.holds:
            if other.count < hold.count and now_s >= other.until_s:
                self.expiry_count += 1
            elif other.count < hold.count and not other.suspicion:
                other.suspicion = (
                    f"{other.spot} is locked by {other.member_id} until {other.until_s:.3f} s, and was given to "
                    f"{hold.member_id} at {now_s:.3f} s"
                )
                other.suspected_s = now_s

    def lasted(self, holds: Iterable[Hold], asked_s: float) -> None:
        """A request that was sent at `asked_s` was answered on the connection of these holds."""
        for hold in holds:
            if hold.suspicion and hold.suspected_s < asked_s and not hold.may_be_lost(hold.sent_s):
                raise Violation(hold.suspicion)

    # --- what they say

    def settling(self, hold: Hold, kind: AckType) -> None:
        """An acknowledgement is about to be sent; of a renewal the lock may go on."""
        seen = self._seen[hold.spot]
        if kind is not AckType.RENEW:
            seen.holds.remove(hold)
            self._end_newer_locks(seen, hold)
        if kind in (AckType.ACCEPT, AckType.REJECT, AckType.GAP):
            seen.may_be_ended = True
        seen.may_be_accepted |= kind in (AckType.ACCEPT, AckType.GAP)
        seen.may_be_rejected |= kind is AckType.REJECT

    def _end_newer_locks(self, seen: _Seen, hold: Hold) -> None:
        """An acknowledgement names no delivery: the server takes what a member says of an older one for its newest."""
        for other in seen.holds:
            if other.member_id == hold.member_id and other.count > hold.count:
                other.until_s = min(other.until_s, self._now_s())

    def settled(self, hold: Hold, kind: AckType, newest_before: int, sent_s: float) -> None:
        """The acknowledgement was answered without an error. `newest_before`: `newest` when it was sent, at `sent_s`."""
        seen = self._seen[hold.spot]
        self._settled_while_locked(seen, hold, kind, sent_s)
        if hold.count < newest_before and seen.counts[newest_before] != hold.member_id:
            # As in Kafka: below the start offset any acknowledgement is taken, and has no effect.
            self._check_past(seen, hold)
            seen.is_past = True
            return
        if kind in (AckType.ACCEPT, AckType.REJECT, AckType.GAP):
            if seen.ended > hold.count:
                seen.is_past = True
                return
            later = [count for count in seen.counts if count > hold.count]
            if later and seen.counts[max(later)] != hold.member_id:
                raise Violation(f"{hold.spot} was settled at delivery {hold.count}, and given with {max(later)}")
            seen.ended = hold.count
        if kind is AckType.ACCEPT:
            seen.accepted_by = hold.member_id
            self.accept_count += 1

    def refused(self, hold: Hold, kind: AckType) -> None:
        """The acknowledgement was answered with an error. If it was carried out all the same, the lock has ended by it."""
        self.refusal_count += 1
        if kind is not AckType.RELEASE:
            self._seen[hold.spot].refused.append(hold)

    def _check_past(self, seen: _Seen, late: Hold) -> None:
        if late.spot[0] in self.shrinking:
            return
        for hold in seen.holds:
            if hold.count > late.count and self._is_locked(hold):
                why = f"and {hold.member_id} has it with count {hold.count}, for which it has said nothing yet"
                raise Violation(f"{late.spot} was settled by {late.member_id} at delivery {late.count}, {why}")

    def _is_locked(self, hold: Hold) -> bool:
        """For certain."""
        return self._now_s() < hold.until_s and not hold.may_be_lost(hold.sent_s)

    def _settled_while_locked(self, seen: _Seen, hold: Hold, kind: AckType, sent_s: float) -> None:
        """Otherwise the records may be below the start, where any acknowledgement is taken."""
        if not self._is_locked(hold):
            return
        seen.is_accepted |= kind is AckType.ACCEPT
        seen.is_rejected |= kind is AckType.REJECT
        if kind is AckType.RELEASE and self._backoff:
            counts = range(hold.count, self.limits[1] + 1)
            seen.waits = hold.count, sent_s + min(delay_ms(self._backoff, count) for count in counts) / 1000
            self._check_wait(hold.spot, seen)

    def newest(self, spot: Spot) -> int:
        """The highest delivery count that anybody has seen."""
        return max(self._seen[spot].counts)

    def session_ended(self, member_id: str) -> None:
        """Its connection, its session or its membership ended, so its locks may end: those of what was refused as well."""
        for seen in self._seen.values():
            for hold in seen.refused:
                if hold.member_id == member_id:
                    hold.may_be_lost = lambda _: True

    def let_go(self, hold: Hold) -> None:
        """The member forgets it: its connection ended, or its session."""
        holds = self._seen[hold.spot].holds
        if hold in holds:
            holds.remove(hold)

    # --- the end

    def left_over(self, there: Mapping[Place, Iterable[int]]) -> list[Spot]:
        """Of the records that have to reach somebody, those that have not been accepted, and must not be done otherwise."""
        left = []
        for place, offsets in there.items():
            for offset in offsets:
                seen = self._seen.get((place, offset)) or _Seen()
                if seen.was_missing:
                    raise Violation(f"{offset} of {place} was acquired, and its record was not in the answer")
                if not (seen.ended or seen.may_be_ended or self._may_be_archived(seen, place)):
                    left.append((place, offset))
        return left

    def _may_be_archived(self, seen: _Seen, place: Place) -> bool:
        """Deliveries whose answers were lost are counted too."""
        unseen = self.lost_fetch_count + self.failed_fetches[place]
        return max(seen.counts, default=0) + unseen >= self.limits[0]

    # --- dead letters

    def without_letters(self, there: Mapping[Place, Iterable[int]], letters: Iterable[Letter]) -> list[Spot]:
        """Of the records that are there, those that have to have a dead letter, and have none."""
        dead = {(letter.place, letter.offset) for letter in letters}
        missing = []
        for place, offsets in there.items():
            for offset in offsets:
                seen = self._seen.get((place, offset)) or _Seen()
                if (seen.is_rejected or not seen.may_be_accepted) and (place, offset) not in dead:
                    missing.append((place, offset))
        return missing

    def check_letters(self, letters: Iterable[Letter], there: Mapping[Place, Mapping[int, bytes]]) -> None:
        """Each says what is true of its record, and nobody has accepted that. Written twice, it is the same."""
        dead: dict[Spot, Letter] = {}
        for letter in letters:
            spot = letter.place, letter.offset
            if dead.setdefault(spot, letter) != letter:
                raise Violation(f"{spot} has two dead letters: {dead[spot]} and {letter}")
            self._check_letter(spot, letter, self._seen.get(spot) or _Seen())
            value = there.get(letter.place, {}).get(letter.offset)
            if value is not None and letter.value != value:
                raise Violation(f"{spot} is {value!r}, and its dead letter has {letter.value!r}")
        self.dead_count = len(dead)

    def _check_letter(self, spot: Spot, letter: Letter, seen: _Seen) -> None:
        newest = max(seen.counts, default=0)
        if seen.is_accepted:
            raise Violation(f"{spot} was accepted by {seen.accepted_by}, and has a dead letter: {letter}")
        if letter.count < newest:
            raise Violation(f"{spot} was given with count {newest}, and its dead letter says {letter.count}")
        if not 1 <= letter.count <= self.limits[1]:
            raise Violation(f"{spot} has a dead letter with count {letter.count}, the limit was {self.limits[1]}")
        if letter.why == DeadReason.REJECTED.text:
            if not seen.may_be_rejected:
                raise Violation(f"{spot} was rejected by nobody, and has a dead letter: {letter}")
        elif letter.count < self.limits[0]:
            raise Violation(f"{spot} was given up at {letter.count} deliveries, {self.limits[0]} were allowed")

    def check_nothing_more(self, there: Mapping[Place, Iterable[int]]) -> None:
        """Only what is there was ever given."""
        known = {place: frozenset(offsets) for place, offsets in there.items()}
        for (place, offset), seen in self._seen.items():
            if seen.counts and place in known and offset not in known[place]:
                raise Violation(f"{offset} of {place} was given to {seen.counts}, and no such record is there")
