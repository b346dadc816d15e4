"""When to ask a second DataNode, and how often that may be done. Pure.

A replica on a busy disk or in a paused process answers late; a second one asked in the meantime usually answers at once.
The delay follows current latencies, so that only the slowest reads ask twice; a budget keeps a cluster that is slow as
a whole from getting every read twice.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Final

SAMPLES_MAX: Final = 256
SAMPLES_LEAST: Final = 16
SAMPLES_PER_UPDATE: Final = 16
PERCENTILE: Final = 0.95
DELAY_FACTOR: Final = 1.5
FIRST_DELAY_S: Final = 0.1  # until enough latencies were observed
SHARE_MAX: Final = 0.05
SAVED_UP_MAX: Final = 10.0
AT_ONCE_MAX: Final = 16


class HedgeDelay:
    """How long to wait for a first answer, in seconds: longer than most recent ones took. `least_s` is the lower bound."""

    __slots__ = ("_least_s", "_samples", "_until_update", "delay_s")

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._samples: deque[float] = deque(maxlen=SAMPLES_MAX)
        self._until_update = SAMPLES_LEAST
        self.delay_s = max(least_s, FIRST_DELAY_S)

    def observe(self, latency_s: float) -> None:
        """Record the time from the request to the first byte of its answer, or until it was given up."""
        self._samples.append(latency_s)
        self._until_update -= 1
        if self._until_update <= 0:
            self._until_update = SAMPLES_PER_UPDATE
            ordered = sorted(self._samples)
            slow_s = ordered[ceil(PERCENTILE * len(ordered)) - 1]
            self.delay_s = max(self._least_s, slow_s * DELAY_FACTOR)


class HedgeBudget:
    """Limits hedges to SHARE_MAX of all reads, with a few saved up, and to AT_ONCE_MAX at a time."""

    __slots__ = ("_saved_up", "at_once")

    def __init__(self) -> None:
        self._saved_up = SAVED_UP_MAX
        self.at_once = 0

    def note_read(self) -> None:
        self._saved_up = min(self._saved_up + SHARE_MAX, SAVED_UP_MAX)

    def take(self) -> bool:
        """Whether a hedge may begin now. Call `end` when it is over."""
        if self._saved_up < 1.0 or self.at_once >= AT_ONCE_MAX:
            return False
        self._saved_up -= 1.0
        self.at_once += 1
        return True

    def end(self) -> None:
        self.at_once -= 1
