"""How many partitions of a process may be starting at once. Decisions only; times in seconds.

When a node dies, the others start hundreds of partitions. Each start costs the store some thirty calls, and the partitions
that work share store, processors and event loop with them. So STARTS_AT_FIRST run at once; in a crowd more are allowed
while the loop runs on time and appends are about as quick as before, fewer when either is late. Never fewer than
STARTS_MIN: the partitions that wait have no owner meanwhile. A node that had no appends before the crowd has nobody to
protect: there the loop alone counts.
"""

from __future__ import annotations

from math import inf
from typing import Final

STARTS_MIN: Final = 1
STARTS_AT_FIRST: Final = 2
"""Before it is known how the process takes them."""
LOOP_LATE_S: Final = 0.02
APPEND_LATE_S: Final = 0.008
APPEND_LATE_FACTOR: Final = 3.0
"""An append is late when it takes longer than both: APPEND_LATE_S, and so many times what appends took before the crowd."""


class StartPace:
    """`allowed`: starts at once, from STARTS_MIN to `starts_max`."""

    def __init__(self, starts_max: int) -> None:
        self._starts_max = starts_max
        self._append_late_s = inf
        self._starts_at_first = min(STARTS_AT_FIRST, starts_max)
        self.allowed = self._starts_at_first

    def begin(self, append_s: float | None) -> None:
        """More starts are asked for than may run at once. `append_s`: what an append took until now; None: there were none."""
        self._append_late_s = inf if append_s is None else max(APPEND_LATE_S, append_s * APPEND_LATE_FACTOR)

    def adjust(self, loop_late_s: float, append_s: float | None, *, is_quiet: bool) -> None:
        """One step, by how late a timer of the loop was and what appends took since the last step.

        `append_s` None: too few have ended to tell, which says nothing unless it `is_quiet`: nobody appends.
        """
        if loop_late_s > LOOP_LATE_S or (append_s is not None and append_s > self._append_late_s):
            self.allowed = max(STARTS_MIN, self.allowed // 2)
        elif append_s is not None or is_quiet or self._append_late_s == inf:
            self.allowed = min(self._starts_max, self.allowed + 1)

    def end(self) -> None:
        """Nothing waits for its start any more."""
        self.allowed = self._starts_at_first
