"""Fetches that wait for records: one wake-up per partition, however many consumers wait for it.

One callback per log is registered for its next move, and wakes all fetches that wait for the log by then. It stays
registered when the last of them leaves: it costs nothing, and the consumer's next fetch usually waits again.
"""

from __future__ import annotations

from collections.abc import Callable

from bmq.log.partition_log import PartitionLog

Wake = Callable[[], None]


class PartitionWaits:
    """Who waits for which log. At most one callback is registered with a log at any time."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[PartitionLog, tuple[dict[Wake, None], Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, log: PartitionLog, wake: Wake) -> None:
        """Call `wake` once at the log's next move, unless it is discarded before the move."""
        entry = self._waiting.get(log)
        if entry is None:
            entry = self._waiting[log] = ({}, log.on_advance(lambda: self._fire(log)))
        entry[0][wake] = None

    def discard(self, log: PartitionLog, wake: Wake) -> None:
        entry = self._waiting.get(log)
        if entry is not None:
            entry[0].pop(wake, None)

    def close(self) -> None:
        """Take every callback back and forget who waits."""
        waiting, self._waiting = self._waiting, {}
        for _, take_back in waiting.values():
            take_back()

    def _fire(self, log: PartitionLog) -> None:
        entry = self._waiting.pop(log, None)
        if entry is None:
            return
        for wake in entry[0]:
            wake()
