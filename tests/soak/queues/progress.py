"""Whether a share group comes to its end. Decisions only.

How long that takes depends on what the faults left: a record that nobody has done at the last delivery but one is given alone, as in
Kafka, and hundreds of them are a round trip each. So a group has time as long as it comes further.
"""

from __future__ import annotations

from math import inf
from typing import Final

STILL_S_MAX: Final = 90.0
"""A member that was killed has its place in the group for half of this, and its locks for less."""
DRAIN_S_MAX: Final = 600.0


class Progress:
    """Of one group, from `began_s` on."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._least = inf
        self._moved_s = began_s

    def problem(self, left_records: float, now_s: float) -> str | None:
        """It has so many left: what is wrong with that."""
        if left_records < self._least:
            self._least, self._moved_s = left_records, now_s
        if now_s - self._moved_s > STILL_S_MAX:
            return f"did not come further within {STILL_S_MAX:g} s"
        if now_s - self._began_s > DRAIN_S_MAX:
            return f"did not come to the end within {DRAIN_S_MAX:g} s"
        return None
