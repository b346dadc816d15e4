"""A partition's leaders over time: who led it from when to when, why, and for how long nobody did. Pure.

The changes come from the metadata log, so they include those of every earlier controller. Each controller stamps
its changes with its own clock. A term that would end before it began, because the next controller's clock is
behind, lasted 0 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from bmq.dataclass import dataclass
from bmq.metadata.history import StateChange
from bmq.metadata.image import NO_LEADER, PartitionImage


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """`leader` (-1: nobody) led under `leader_epoch`, because of `reason`, from `since_ms` to `until_ms`.

    `since_ms`: None if it is not known. `until_ms`: None while the term lasts. Both are milliseconds since 1970.
    `leaderless_before_ms`: how long the partition had no leader before this term; 0 for a term without a leader.
    """

    leader: int
    leader_epoch: int
    since_ms: int | None
    until_ms: int | None
    reason: str
    leaderless_before_ms: int

    def lasted_ms(self, now_ms: int | None) -> int | None:
        """How long the term lasted, until `now_ms` if it still does; None if its beginning or its end is not known."""
        end_ms = now_ms if self.until_ms is None else self.until_ms
        return None if self.since_ms is None or end_ms is None else max(0, end_ms - self.since_ms)


def leader_terms(changes: Sequence[StateChange], partition: PartitionImage) -> tuple[LeaderTerm, ...]:
    """The terms of `changes` (oldest first), newest first; at least the present one.

    A partition that has had only its first leader has no change: its only term has no beginning.
    """
    if not changes:
        return (LeaderTerm(partition.leader, partition.leader_epoch, None, None, "", 0),)
    terms: list[LeaderTerm] = []
    leaderless_ms = 0
    for change, following in zip(changes, (*changes[1:], None), strict=True):
        is_leaderless = change.leader == NO_LEADER
        term = LeaderTerm(
            change.leader,
            change.leader_epoch,
            _known(change.timestamp_ms),
            None if following is None else _known(following.timestamp_ms),
            change.reason,
            0 if is_leaderless else leaderless_ms,
        )
        terms.append(term)
        if not is_leaderless:
            leaderless_ms = 0
        elif following is not None:
            leaderless_ms += _length_ms(change, following)
    return tuple(reversed(terms))


def leaderless_ms(terms: Sequence[LeaderTerm], now_ms: int | None) -> int:
    """How long nobody led the partition, over all these terms."""
    return sum(term.lasted_ms(now_ms) or 0 for term in terms if term.leader == NO_LEADER)


def _known(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms


def _length_ms(change: StateChange, following: StateChange) -> int:
    if change.timestamp_ms < 0 or following.timestamp_ms < 0:
        return 0
    return max(0, following.timestamp_ms - change.timestamp_ms)
