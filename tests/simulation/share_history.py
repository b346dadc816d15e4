"""What members of a share group saw, and the rules it must obey whatever was killed, cut or slow in between.

An acquisition is known by its delivery count, which rises by one each time: no count is given twice, what was accepted or
rejected at one count is not given at a higher one, and an older count settles nothing. While a member's lock lives nobody else
gets its records; that a lock lived is known once the member's connection is found to have lasted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bmq.protocol.share_state_messages import AckType
from tests.simulation.history import Violation
from tests.simulation.transaction_history import Place

Spot = tuple[Place, int]  # a partition and an offset


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
    ended: int = 0
    accepted_by: str = ""
    may_be_ended: bool = False  # an acknowledgement that ends it was sent
    is_past: bool = False  # an acknowledgement came too late and was answered without an error: the start is past it
    was_missing: bool = False  # acquired, and not among the records of the answer
    holds: list[Hold] = field(default_factory=list)


class ShareHistory:
    """`now_s`: the time. `limits`: (lowest, highest) delivery count limit that was ever in force."""

    def __init__(self, now_s: Callable[[], float], limit: int) -> None:
        self._now_s = now_s
        self.limits = (limit, limit)
        self.delivery_count = 0
        self.redelivery_count = 0
        self.accept_count = 0
        self.refusal_count = 0
        self.expiry_count = 0  # holds that outlived their locks
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
        self._suspect_others(seen, hold)
        seen.holds.append(hold)
        seen.was_missing |= hold.is_missing

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
        if kind in (AckType.ACCEPT, AckType.REJECT, AckType.GAP):
            seen.may_be_ended = True

    def settled(self, hold: Hold, kind: AckType, newest_before: int) -> None:
        """The acknowledgement was answered without an error. `newest_before`: `newest` when it was sent."""
        seen = self._seen[hold.spot]
        if hold.count < newest_before and seen.counts[newest_before] != hold.member_id:
            # As in Kafka: below the start offset any acknowledgement is taken, and has no effect.
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

    def newest(self, spot: Spot) -> int:
        """The highest delivery count that anybody has seen."""
        return max(self._seen[spot].counts)

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

    def check_nothing_more(self, there: Mapping[Place, Iterable[int]]) -> None:
        """Only what is there was ever given."""
        known = {place: frozenset(offsets) for place, offsets in there.items()}
        for (place, offset), seen in self._seen.items():
            if seen.counts and place in known and offset not in known[place]:
                raise Violation(f"{offset} of {place} was given to {seen.counts}, and no such record is there")
