"""Log lines about clients that misbehave: a bounded number per minute, so that nobody can fill the disk by sending."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

_WINDOW_S: Final = 60.0
_log = structlog.get_logger("bmq.proxy")


class Trouble:
    """`report(event, …)` logs a warning, or counts it when too many were logged in this minute."""

    def __init__(self, now_s: Callable[[], float], lines_per_minute_max: int) -> None:
        self._now_s = now_s
        self._lines_max = lines_per_minute_max
        self._window_s = now_s()
        self._lines = 0
        self._suppressed = 0
        self.counts: dict[str, int] = {}

    def report(self, event: str, **details: Any) -> None:
        self.counts[event] = self.counts.get(event, 0) + 1
        now_s = self._now_s()
        if now_s - self._window_s >= _WINDOW_S:
            if self._suppressed:
                _log.warning("log_lines_suppressed", count=self._suppressed)
            self._window_s = now_s
            self._lines = self._suppressed = 0
        if self._lines >= self._lines_max:
            self._suppressed += 1
            return
        self._lines += 1
        _log.warning(event, **details)
