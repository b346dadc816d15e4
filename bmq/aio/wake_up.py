"""One wake-up of something that looks for work: at the earliest of the times that were asked for."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle
from collections.abc import Callable


class WakeUp:
    """Calls `wake` once for all that asked before."""

    __slots__ = ("_handle", "_loop", "_wake", "_wake_s")

    def __init__(self, loop: AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._handle: Handle | None = None
        # uvloop's handle of what is called at once has no time, so we keep it.
        self._wake_s = 0.0

    def within(self, wait_s: float) -> None:
        """Call `wake` after `wait_s`, or earlier if that was asked for."""
        wake_s = self._loop.time() + wait_s
        if self._handle is not None:
            if self._wake_s <= wake_s:
                return
            self._handle.cancel()
        self._wake_s, self._handle = wake_s, self._loop.call_later(wait_s, self._fire)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._wake()
