"""Who believes to own which partition of a group, and what may be committed for it (KIP-848).

A member owns a partition from the answer that gives it until it has let go of it, or until its session or its time to let go
has ended by its own clock: by then the coordinator may have given the partition to somebody else, and not before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from tests.simulation.history import Violation

Place = tuple[UUID, int]  # topic id, partition


@dataclass(slots=True)
class Holding:
    """What one member believes; `ends_s`: then all of it ends, if nothing is heard before."""

    member: str
    places: set[Place] = field(default_factory=set)
    ends_s: float = 0.0


class Ownership:
    """`now`: seconds. `may_begin_anew`: a group that was empty may come back as one of another protocol, at its first epoch."""

    def __init__(self, now: Callable[[], float], *, may_begin_anew: bool = False) -> None:
        self.assignment_count = 0
        self.lost_count = 0
        self.commit_count = 0
        self.committed: dict[Place, int] = defaultdict(int)  # as last acknowledged or answered
        self._tried: dict[Place, set[int]] = defaultdict(set)
        self._now = now
        self._holdings: dict[str, Holding] = {}
        self._last_holder: dict[Place, str] = {}
        self._epochs: dict[str, int] = defaultdict(lambda: -1)
        self._newest_epoch = 0
        self._may_begin_anew = may_begin_anew
        self._late_joins: Counter[str] = Counter()

    # --- partitions

    def extend(self, member: str, ends_s: float) -> None:
        """The coordinator has heard of the member. What had ended by then does not come back by itself."""
        held = self._holdings.setdefault(member, Holding(member))
        if self._now() >= held.ends_s:
            held.places.clear()
        held.ends_s = ends_s

    def hold(self, member: str, places: Iterable[Place]) -> None:
        """It was told that they are its own."""
        held, now_s = self._holdings[member], self._now()
        if now_s >= held.ends_s:
            return  # it was told too late, and knows that
        for place in places:
            for other in self._holdings.values():
                if other is not held and place in other.places and now_s < other.ends_s:
                    raise Violation(f"{place} was given to {member}, and {other.member} owns it")
            held.places.add(place)
            self._last_holder[place] = member
            self.assignment_count += 1

    def release(self, member: str, places: Iterable[Place]) -> None:
        held = self._holdings.get(member)
        if held is not None:
            held.places.difference_update(places)

    def lose(self, member: str) -> None:
        """It is no member any more, or will not say so again."""
        self._holdings.pop(member, None)
        if self._may_begin_anew:
            self._epochs.pop(member, None)

    def places_of(self, member: str) -> frozenset[Place]:
        held = self._holdings.get(member)
        return frozenset(held.places if held is not None and self._now() < held.ends_s else ())

    def is_anothers(self, member: str, place: Place) -> bool:
        """Somebody else was given it after this member."""
        return self._last_holder.get(place, member) != member

    # --- static members

    def join_unanswered(self, instance_id: str) -> None:
        """A classic member gave up waiting. Its request may still arrive, and then it takes the instance's place."""
        self._late_joins[instance_id] += 1

    def fenced_by_late_join(self, instance_id: str | None) -> bool:
        """Whether such a request may have fenced the instance's present member. Each does so at most once."""
        if instance_id is None or not self._late_joins[instance_id]:
            return False
        self._late_joins[instance_id] -= 1
        return True

    # --- epochs

    def newest_epoch(self) -> int:
        """Whoever joins from now on is told no lower one."""
        return 0 if self._may_begin_anew else self._newest_epoch

    def told_epoch(self, member: str, epoch: int, least: int = 0) -> None:
        """`least`: below it no epoch may be."""
        if epoch < max(self._epochs[member], least):
            raise Violation(f"{member} was told epoch {epoch} after {max(self._epochs[member], least)}")
        self._epochs[member] = epoch
        self._newest_epoch = max(self._newest_epoch, epoch)

    # --- offsets

    def try_commit(self, place: Place, offset: int) -> None:
        self._tried[place].add(offset)

    def commit(self, member: str, place: Place, offset: int, *, was_anothers: bool) -> None:
        """It was acknowledged. `was_anothers`: when it was sent."""
        if was_anothers:
            raise Violation(f"{member} committed {offset} of {place}, which was {self._last_holder[place]}'s")
        self.commit_count += 1
        self.committed[place] = max(self.committed[place], offset)

    def fetched(self, place: Place, offset: int, known_before: int) -> None:
        if offset < known_before:
            raise Violation(f"the committed offset of {place} went back from {known_before} to {offset}")
        if offset and offset not in self._tried[place]:
            raise Violation(f"the committed offset of {place} is {offset}, which nobody committed")
        self.committed[place] = max(self.committed[place], offset)
