"""Limits how often all partitions of a process together look for more replicas. Times in seconds of the event loop.

Pure.
"""

from __future__ import annotations


class SearchPace:
    """At most `per_s` a second; unused searches are kept for one second.

    Each search opens a segment and closes another. Hundreds of partitions that do so at once keep the DataNodes so busy that
    some answer too late, are left out, and give all these partitions a reason for the next search.
    """

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._left = per_s
        self._counted_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Whether a search may begin now; if so, counts it."""
        self._left = min(self._per_s, self._left + (now_s - self._counted_s) * self._per_s)
        self._counted_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
