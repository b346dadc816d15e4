"""The one clock by which tests wait for other processes.

A wait says how long it may take on a quiet reference machine, a few times what it needs there. The clock makes that longer by how
much slower this machine is now (`slowness`), and by what it stood still meanwhile, which the runner measures. It keeps which
share of its patience each wait used: one that often needs a quarter of it is to be repaired, not widened.

    patience = Patience(20)
    while not is_there():
        if patience.is_over():
            raise AssertionError(...)
        time.sleep(0.05)
    patience.note()
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

SLOWNESS: Final = "BMQ_SLOWNESS"
STALLS: Final = "BMQ_STALLS"
SLOWNESS_MAX: Final = 8.0
ADDITIONS: Final = 1_000_000
# What the reference machine needs for these, two slow processors without other work.
LOOP_REFERENCE_S: Final = 0.1
START_REFERENCE_S: Final = 0.015

_used_shares: list[float] = []


def measured_slowness() -> float:
    """How many times longer than on the reference machine a loop and the start of a process take now; 1 to SLOWNESS_MAX."""
    began = time.perf_counter()
    total = 0
    for number in range(ADDITIONS):
        total += number
    looped_at = time.perf_counter()
    subprocess.run([sys.executable, "-S", "-E", "-c", ""], check=True, stdin=subprocess.DEVNULL)
    started_at = time.perf_counter()
    slower = max((looped_at - began) / LOOP_REFERENCE_S, (started_at - looped_at) / START_REFERENCE_S)
    return min(max(slower, 1.0), SLOWNESS_MAX)


@cache
def slowness() -> float:
    """The run's, else measured once in this process."""
    given = os.environ.get(SLOWNESS)
    return float(given) if given else measured_slowness()


def stalled_s(since_s: float) -> float:
    """For how long the machine stood still since that moment of the monotonic clock, as far as the runner says."""
    path = os.environ.get(STALLS)
    if not path or not Path(path).exists():
        return 0.0
    stalls = (line.split() for line in Path(path).read_text().splitlines())
    return sum(float(length_s) for end_s, length_s in stalls if float(end_s) > since_s)


class Patience:
    """`limit_s`: on the reference machine. Begins when it is made."""

    def __init__(
        self,
        limit_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        slowness: Callable[[], float] = slowness,
        stalled_s: Callable[[float], float] = stalled_s,
    ) -> None:
        self._now = now
        self._stalled_s = stalled_s
        self._began_s = now()
        self.limit_s = limit_s * slowness()

    @property
    def left_s(self) -> float:
        """Until it is over, at least; below 0 when it is, unless the machine stood still."""
        return self._began_s + self.limit_s - self._now()

    def is_over(self) -> bool:
        if self.left_s >= 0:
            return False
        return self.left_s + self._stalled_s(self._began_s) < 0

    def note(self) -> None:
        """What was waited for has come."""
        if self.limit_s > 0:
            _used_shares.append((self._now() - self._began_s) / self.limit_s)


def largest_used_share() -> float:
    """Of the waits that were noted since the last call; 0.0 when there were none."""
    found = max(_used_shares, default=0.0)
    _used_shares.clear()
    return found
