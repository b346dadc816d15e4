"""Limits how many resting segments whose writer broke are closed for it. Decisions only; times in seconds of the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bmq.broker.search_pace import SearchPace

RUNNING_MAX: Final = 8


class BrokenCloses:
    """Of all partitions of a process, so many a second; none is begun while RUNNING_MAX run.

    A DataNode that dies breaks the writers of hundreds of partitions at once. Each close costs the NameNode and two DataNodes
    some twenty calls, and partitions that are written to come first. While the store takes no changes (safe mode), closes that
    were begun are tried again and again, and so no more are begun.
    """

    def __init__(self, per_s: float) -> None:
        self._pace = SearchPace(per_s)
        self._running = 0

    def take(self, now_s: float) -> bool:
        """Whether another may begin now; if so, counts it."""
        return self._running < RUNNING_MAX and self._pace.take(now_s)

    @contextmanager
    def running(self, is_broken: bool = True) -> Iterator[None]:
        """A broken segment is being closed, whatever the reason. `is_broken` False: it is closed in order, and does not count."""
        self._running += is_broken
        try:
            yield
        finally:
            self._running -= is_broken
