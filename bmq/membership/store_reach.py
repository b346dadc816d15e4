"""Whether a node reaches the store, by what its calls showed lately. Decisions only; times of the event loop in seconds."""

from __future__ import annotations

from bmq.protocol.internal_messages import StoreState


class StoreReach:
    """`silence_max_s`: after so long without an answer, or with writes that wait and none that ended, the store is away. It is
    back with the first write: a node that gave its partitions up has none any more that wait.
    """

    def __init__(self, silence_max_s: float, now_s: float) -> None:
        self._silence_max_s = silence_max_s
        self._answered_s = now_s
        self._wrote_s = now_s
        self._has_written = False
        self._is_away = False
        self._stuck_since_s: float | None = None

    def answered(self, now_s: float) -> None:
        """The store has answered a question."""
        self._answered_s = now_s

    def wrote(self, now_s: float) -> None:
        """Bytes became durable."""
        self._answered_s = self._wrote_s = now_s
        self._has_written, self._is_away = True, False
        self._stuck_since_s = None

    def waits(self, now_s: float, *, is_stuck: bool) -> None:
        """`is_stuck`: a partition waits for the store before it can write."""
        if not is_stuck:
            self._stuck_since_s = None
        elif self._stuck_since_s is None:
            self._stuck_since_s = now_s

    def state(self, now_s: float) -> StoreState:
        """What this node can say of the store now."""
        stuck_s = 0.0 if self._stuck_since_s is None else now_s - self._stuck_since_s
        if max(now_s - self._answered_s, stuck_s) >= self._silence_max_s:
            self._is_away = True
        if self._is_away:
            return StoreState.AWAY
        if self._has_written and now_s - self._wrote_s < self._silence_max_s:
            return StoreState.WRITABLE
        return StoreState.ANSWERS
