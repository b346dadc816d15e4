"""What members of a share group were given and what they accepted, record by record."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from bench.queues.member import Given

MAYBE: Final = 1
"""An accept was sent; 0: none was."""
ACCEPTED: Final = 2


class Ledger:
    """`counts_lost`: deliveries whose count is lower than the deliveries of the record that members have seen.
    `accepted_twice`: records given again although a member knew that its accept was durable. Called from many threads.
    """

    def __init__(self, partitions: int, records: int) -> None:
        self.counts_lost = 0
        self.accepted_twice = 0
        self.deliveries = 0
        self._records = records
        self._lock = threading.Lock()
        self._seen = [bytearray() for _ in range(partitions)]
        self._accepts = [bytearray() for _ in range(partitions)]

    def delivered(self, given: Sequence[Given]) -> None:
        with self._lock:
            for partition, first, last, count in given:
                seen, accepts = self._columns(partition, last)
                for offset in range(first, last + 1):
                    self.deliveries += 1
                    seen[offset] += 1
                    self.counts_lost += count < seen[offset]
                    self.accepted_twice += accepts[offset] == ACCEPTED

    def accepting(self, accepts: Sequence[Given]) -> None:
        """Call before they are accepted: the answer may get lost."""
        self._mark(accepts, MAYBE)

    def accepted(self, accepts: Sequence[Given]) -> None:
        """The accept is known to be durable."""
        self._mark(accepts, ACCEPTED)

    @property
    def left(self) -> int:
        """Records of which no accept was sent yet."""
        with self._lock:
            return self._records - self._count(MAYBE) - self._count(ACCEPTED)

    @property
    def is_finished(self) -> bool:
        """Whether every record was accepted, or may have been."""
        return self.left <= 0

    def found(self) -> dict[str, int]:
        with self._lock:
            accepted, maybe = self._count(ACCEPTED), self._count(MAYBE)
            return {
                "counts_lost": self.counts_lost,
                "accepted_twice": self.accepted_twice,
                "lost": self._records - accepted - maybe,
                "accepted": accepted,
                "accepts_of_unknown_outcome": maybe,
                "deliveries": self.deliveries,
                "delivered_again": self.deliveries - sum(len(seen) - seen.count(0) for seen in self._seen),
            }

    def _count(self, kind: int) -> int:
        return sum(column.count(kind) for column in self._accepts)

    def _mark(self, accepts: Sequence[Given], kind: int) -> None:
        with self._lock:
            for partition, first, last, _ in accepts:
                column = self._columns(partition, last)[1]
                for offset in range(first, last + 1):
                    column[offset] = max(column[offset], kind)

    def _columns(self, partition: int, last: int) -> tuple[bytearray, bytearray]:
        seen, accepts = self._seen[partition], self._accepts[partition]
        missing = last + 1 - len(seen)
        if missing > 0:
            seen.extend(bytes(missing))
            accepts.extend(bytes(missing))
        return seen, accepts
