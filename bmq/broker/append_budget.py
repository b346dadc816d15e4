"""How many bytes may be on their way into the log at once, over all partitions of the process.

The callers (connections) stop reading their sockets while it is full; what they had already read is still taken, up
to a second bound, and refused beyond it. So nothing grows without bound and nothing is dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

_log = structlog.get_logger("bmq.broker")


class AppendBudget:
    """`bytes_max`: from here on callers should wait. `refuse_bytes_max`: from here on appends are refused."""

    def __init__(self, bytes_max: int, refuse_bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.refuse_bytes_max = 2 * bytes_max if refuse_bytes_max is None else refuse_bytes_max
        self.bytes_used = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_full(self) -> bool:
        """Whether callers should stop bringing more."""
        return self.bytes_used >= self.bytes_max

    def take(self, size_bytes: int) -> bool:
        """Count them in; False, and nothing counted, when they must be refused. A lone append always fits."""
        if self.bytes_used and self.bytes_used + size_bytes > self.refuse_bytes_max:
            return False
        self.bytes_used += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        self.bytes_used -= size_bytes
        if self._waiting and self.bytes_used < self.bytes_max:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                try:
                    wake()
                except Exception:  # its owner's bug; the others must not wait for ever
                    _log.exception("room_callback_failed")

    def on_room(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once when there is room again (at once if there is); returns how to take it back."""
        if not self.is_full:
            wake()
            return lambda: None
        self._waiting[wake] = None
        return lambda: self._waiting.pop(wake, None) and None
