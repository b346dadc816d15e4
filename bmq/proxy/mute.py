"""The mute of a connection: its requests are not begun, because its client has used up a quota."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable


class Mute:
    """Mutes one connection. `ended()` is called when requests may be begun again. Answers are sent all the time.

    It lasts for the time in the answer to the client, and until a shared bucket for which the connection waits calls `go_on`.
    """

    __slots__ = ("_ended", "_is_held", "_loop", "_timer", "_until_s", "is_on")

    def __init__(self, loop: AbstractEventLoop, ended: Callable[[], None]) -> None:
        self._loop = loop
        self._ended = ended
        self._timer: TimerHandle | None = None
        self._until_s = 0.0
        self._is_held = False
        self.is_on = False

    def last(self, wait_ms: int) -> None:
        """Begin no request for `wait_ms` from now on. A longer mute that is under way stays."""
        until_s = self._loop.time() + wait_ms / 1_000
        if wait_ms > 0 and until_s > self._until_s:
            self.is_on = True
            self._until_s = until_s
            if self._timer is None:
                self._timer = self._loop.call_at(until_s, self._timer_fired)

    @property
    def is_timed(self) -> bool:
        """Whether a mute for a time is under way."""
        return self._timer is not None

    def hold(self) -> None:
        """Begin no request until `go_on`."""
        self.is_on = self._is_held = True

    def go_on(self) -> None:
        """End the wait for a bucket: it has room, or was replaced."""
        if self._is_held:
            self._is_held = False
            self._end()

    def close(self) -> None:
        """Cancel the timer: the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ended = _nothing

    def _timer_fired(self) -> None:
        self._timer = None
        if self._loop.time() < self._until_s:
            self._timer = self._loop.call_at(self._until_s, self._timer_fired)
        else:
            self._end()

    def _end(self) -> None:
        self.is_on = self._is_held or self._timer is not None
        if not self.is_on:
            self._ended()


def _nothing() -> None:
    """Replaces `ended` when the connection is closed."""
