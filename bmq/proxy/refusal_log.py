"""Logs clients that are refused or whose connections are closed: at most a few lines each second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger("bmq.proxy")

LINES_PER_SECOND_MAX: Final = 10


class RefusalLog:
    """Writes these lines. `elapsed_s`: a monotonic clock, in seconds."""

    def __init__(self, elapsed_s: Callable[[], float]) -> None:
        self._elapsed_s = elapsed_s
        self._window_s = 0.0
        self._in_window = 0

    def note(self, host: str, reason: str) -> None:
        """Write a line, or count it as left out."""
        now_s = self._elapsed_s()
        if now_s - self._window_s >= 1:
            if self._in_window > LINES_PER_SECOND_MAX:
                log.warning("connections_closed", count=self._in_window - LINES_PER_SECOND_MAX)
            self._window_s, self._in_window = now_s, 0
        self._in_window += 1
        if self._in_window <= LINES_PER_SECOND_MAX:
            log.warning("connection_closed", client=host, reason=reason)
