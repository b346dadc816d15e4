"""Fetches that wait for records: one wake-up per partition, for any number of waiting consumers.

One callback per log is registered for its next news (see PartitionLog.on_advance), and wakes all fetches that wait for the log by
then. It stays registered when the last of them leaves: that costs nothing, and the consumer's next fetch usually waits again.

Readers of committed records find no new ones until the last stable offset moves. While an open transaction holds that back, moves
of the high watermark do not wake them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.log.partition_log import PartitionLog

Wake = Callable[[], None]
# A woken fetch of many partitions looks after a delay, so that a consumer of hundreds uses at most a third of a processor.
GATHER_S_PER_PARTITION: Final = 40e-6
GATHER_S_MIN: Final = 0.002  # a fetch of fewer partitions looks at once, because that is cheap
GATHER_S_MAX: Final = 0.020


def gather_time_s(partition_count: int) -> float:
    """The delay between the wake-up and the look of a fetch of this many partitions, in which more partitions may get records."""
    gather_s = min(partition_count * GATHER_S_PER_PARTITION, GATHER_S_MAX)
    return 0 if gather_s < GATHER_S_MIN else gather_s


class _Waiting(NamedTuple):
    """The fetches that wait for one log.

    `wakes`: callback -> None, or for a reader of committed records the last stable offset at which it began to wait.
    """

    wakes: dict[Wake, int | None]
    offsets: tuple[int, int]  # high watermark and log start when the callback was registered
    take_back: Callable[[], None]


class PartitionWaits:
    """The waiting fetches of all logs. At most one callback is registered with a log at any time."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[PartitionLog, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, log: PartitionLog, wake: Wake, *, is_committed: bool = False) -> None:
        """Call `wake` once at the log's next news, unless it is discarded before.

        `is_committed`: ignore moves of the high watermark alone.
        """
        self._entry(log).wakes[wake] = log.last_stable_offset if is_committed else None

    def discard(self, log: PartitionLog, wake: Wake) -> None:
        entry = self._waiting.get(log)
        if entry is not None:
            entry.wakes.pop(wake, None)

    def close(self) -> None:
        """Unregister every callback and drop all waits."""
        waiting, self._waiting = self._waiting, {}
        for entry in waiting.values():
            entry.take_back()

    def _entry(self, log: PartitionLog) -> _Waiting:
        entry = self._waiting.get(log)
        if entry is None:
            offsets = log.high_watermark, log.log_start_offset
            entry = self._waiting[log] = _Waiting({}, offsets, log.on_advance(lambda: self._fire(log)))
        return entry

    def _fire(self, log: PartitionLog) -> None:
        entry = self._waiting.pop(log, None)
        if entry is None:
            return
        wakes = entry.wakes
        high_watermark, start_offset = entry.offsets
        # If the high watermark is the same, the news is another one, for all. A log that has ended notifies new waiters again.
        if log.high_watermark != high_watermark and log.log_start_offset == start_offset:
            stable_offset = log.last_stable_offset
            still = {wake: seen for wake, seen in wakes.items() if seen == stable_offset}
            if still:
                self._entry(log).wakes.update(still)
                wakes = {wake: seen for wake, seen in wakes.items() if wake not in still}
        for wake in wakes:
            wake()
