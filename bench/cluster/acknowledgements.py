"""When each record of a steady load was sent and acknowledged. Times in seconds on one clock, none of them read here."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any, Final

from bench.cluster.gaps import partition_gaps, producer_gap
from bench.hdfs.figures import latency_summary

WAIT_LONGEST_S: Final = 60.0
"""Nothing that was sent longer before a window is looked at: so long no record waits without its round having failed."""
UNKNOWN_OFFSET: Final = -1


class Acknowledgements:
    """Record n went to partition n modulo `partitions`. One thread writes, any may ask."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._sent_at = array("d")
        self._acknowledged_at = array("d")  # 0: not acknowledged
        self._latency_s = array("f")
        self._offset = array("q")

    # -- Writing -----------------------------------------------------------------------------------------------------

    def sent(self, at: float) -> None:
        """The next record, `sent_count`, was sent."""
        self._acknowledged_at.append(0.0)
        self._latency_s.append(0.0)
        self._offset.append(UNKNOWN_OFFSET)
        self._sent_at.append(at)  # last: who asks goes by its length

    def acknowledged(self, number: int, at: float, latency_s: float, offset: int) -> None:
        self._latency_s[number] = latency_s
        self._offset[number] = offset
        self._acknowledged_at[number] = at

    # -- Asking ------------------------------------------------------------------------------------------------------

    @property
    def sent_count(self) -> int:
        return len(self._sent_at)

    @property
    def acknowledged_count(self) -> int:
        return len(self._acknowledged_at) - self._acknowledged_at.count(0.0)

    def silent_since(self, since: float) -> list[int]:
        """Partitions that acknowledged nothing yet of what was sent to them after `since`."""
        left = set(range(self.partitions))
        for number in range(self.sent_count - 1, -1, -1):
            if self._sent_at[number] <= since or not left:
                break
            if self._acknowledged_at[number] > 0:
                left.discard(number % self.partitions)
        return sorted(left)

    def times(self, since: float = 0.0) -> dict[int, list[float]]:
        """By partition, ascending: when what was sent from `since` on was acknowledged."""
        first = bisect_left(self._sent_at, since)
        times = self._acknowledged_at[first : self.sent_count]
        return {
            partition: sorted(at for at in times[(partition - first) % self.partitions :: self.partitions] if at > 0)
            for partition in range(self.partitions)
        }

    def waits(self, since: float) -> Iterator[tuple[int, float, float]]:
        """Partition, when sent and when acknowledged, of what was sent from `since` on and has its answer."""
        for number in self._answered(since, inf):
            yield number % self.partitions, self._sent_at[number], self._acknowledged_at[number]

    def places(self) -> dict[tuple[int, int], int]:
        """Number of each acknowledged record by partition and offset, where that is known."""
        return {
            (number % self.partitions, self._offset[number]): number
            for number in range(self.sent_count)
            if self._acknowledged_at[number] > 0 and self._offset[number] != UNKNOWN_OFFSET
        }

    def placeless(self) -> set[int]:
        """Numbers of the acknowledged records whose offset is not known."""
        return {
            number
            for number in range(self.sent_count)
            if self._acknowledged_at[number] > 0 and self._offset[number] == UNKNOWN_OFFSET
        }

    def gaps(self, begin: float, end: float) -> dict[str, float]:
        """`gap_s`: the longest of any partition; `producer_gap_s`: of all together; `longest_wait_s`: of any record."""
        times = self.times(begin - WAIT_LONGEST_S)
        return {
            "gap_s": round(max(partition_gaps(times, begin, end).values()), 4),
            "producer_gap_s": round(producer_gap(times, begin, end), 4),
            "longest_wait_s": round(self.longest_wait_s(begin, end), 4),
        }

    def longest_wait_s(self, begin: float, end: float) -> float:
        """The longest any record waited for its acknowledgement, of those that waited in that time; unanswered ones too."""
        longest = 0.0
        for number in range(bisect_left(self._sent_at, begin - WAIT_LONGEST_S), bisect_left(self._sent_at, end)):
            answered = self._acknowledged_at[number] or end
            if answered > begin:
                longest = max(longest, answered - self._sent_at[number])
        return longest

    def latencies(self, begin: float, end: float) -> dict[str, Any]:
        """Summary of the client's own latencies (queued until answered) of what was sent in that time."""
        return latency_summary([self._latency_s[number] * 1e6 for number in self._answered(begin, end)])

    def _answered(self, begin: float, end: float) -> Iterable[int]:
        numbers = range(bisect_left(self._sent_at, begin), bisect_left(self._sent_at, end))
        return (number for number in numbers if self._acknowledged_at[number] > 0)
