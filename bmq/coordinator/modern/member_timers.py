"""The deadlines of one group of a new protocol and of its members, on the event loop's clock. Decisions only.

They are in memory only: after a restart each begins anew. A heartbeat only moves a deadline; `wake_ms` is never later
than the earliest deadline, and `due` at or after it finds the next.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from bmq.coordinator.runtime.moment import NEVER_MS


class TimerKind(Enum):
    """What a member has to do before the deadline."""

    SESSION = "heartbeat"
    REBALANCE = "give partitions back"
    JOIN = "join again"
    """For a classic member that was told to rejoin."""
    SYNC = "fetch its assignment"
    """For a classic member that has joined."""
    DELAY = "wait for more members"
    """For a streams group that was empty (member NOBODY): its first target is computed when this expires."""


NOBODY: Final = ""
"""Member id of the group's own timers."""


class TimerOrder(NamedTuple):
    """Restart a member's timer, or (`timeout_ms` None) stop it.

    `epoch`: for a REBALANCE timer, void once the member has left that epoch. `keeps`: a running timer is left alone.
    """

    kind: TimerKind
    member_id: str
    timeout_ms: int | None
    epoch: int = -1
    keeps: bool = False


class Due(NamedTuple):
    """A member missed a deadline."""

    kind: TimerKind
    member_id: str
    epoch: int


class _Deadline(NamedTuple):
    at_ms: float
    timeout_ms: int
    epoch: int


class GroupTimers:
    """See the module."""

    def __init__(self) -> None:
        self.wake_ms: float = NEVER_MS
        self._deadlines: dict[tuple[str, TimerKind], _Deadline] = {}
        self._due: set[tuple[str, TimerKind]] = set()  # found due, and not yet acted on

    def apply(self, order: TimerOrder, loop_ms: float) -> None:
        key = order.member_id, order.kind
        if order.keeps and (key in self._deadlines or key in self._due):
            return
        self._due.discard(key)
        if order.timeout_ms is None:
            self._deadlines.pop(key, None)
        else:
            self._set(key, _Deadline(loop_ms + order.timeout_ms, order.timeout_ms, order.epoch))

    def extend(self, order: TimerOrder, loop_ms: float) -> None:
        """Like `apply`, but a later deadline stays."""
        before = self._deadlines.get((order.member_id, order.kind))
        if before is None or order.timeout_ms is None or before.at_ms < loop_ms + order.timeout_ms:
            self.apply(order, loop_ms)

    def forget(self, member_id: str) -> None:
        """Drop all timers of a member that is gone."""
        for kind in TimerKind:
            self._deadlines.pop((member_id, kind), None)
            self._due.discard((member_id, kind))

    def due(self, loop_ms: float) -> list[Due]:
        """The expired timers, each once; sets `wake_ms` anew."""
        over = [key for key, deadline in self._deadlines.items() if deadline.at_ms <= loop_ms]
        self._due.update(over)
        found = [Due(key[1], key[0], self._deadlines.pop(key).epoch) for key in over]
        self.wake_ms = min((deadline.at_ms for deadline in self._deadlines.values()), default=NEVER_MS)
        return found

    def deadline_ms(self, kind: TimerKind, member_id: str) -> float:
        """When the timer is due, on the event loop's clock; NEVER_MS: it is not running."""
        deadline = self._deadlines.get((member_id, kind))
        return NEVER_MS if deadline is None else deadline.at_ms

    def is_running(self, kind: TimerKind, member_id: str) -> bool:
        return (member_id, kind) in self._deadlines

    def is_due(self, due: Due) -> bool:
        """Whether it was neither restarted nor stopped since it was found due."""
        return (due.member_id, due.kind) in self._due

    def handled(self, due: Due) -> None:
        """It is no longer due, whatever came of it."""
        self._due.discard((due.member_id, due.kind))

    def after_stall(self, loop_ms: float) -> None:
        """This process was stalled: every wait begins anew."""
        for key, deadline in self._deadlines.items():
            self._deadlines[key] = deadline._replace(at_ms=max(deadline.at_ms, loop_ms + deadline.timeout_ms))

    def _set(self, key: tuple[str, TimerKind], deadline: _Deadline) -> None:
        self._deadlines[key] = deadline
        self.wake_ms = min(self.wake_ms, deadline.at_ms)
