"""The batches of one partition, as anybody was shown them: one row without a gap, the same for all. No I/O."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from tests.soak.cluster.batches import Batch


class Entry(NamedTuple):
    """Offsets [base_offset, end_offset) under this leader epoch."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    checksum: int


class Ledger:
    """Used from the threads of all that read."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    @property
    def end_offset(self) -> int:
        return self._entries[-1].end_offset if self._entries else 0

    @property
    def entries(self) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._entries)

    def add(self, batch: Batch) -> tuple[bool, str | None]:
        """Whether nobody saw it before, and what is wrong with it."""
        entry = Entry(batch.base_offset, batch.end_offset, batch.leader_epoch, batch.checksum)
        with self._lock:
            end_offset = self.end_offset
            if entry.base_offset == end_offset:
                problem = self._problem_of_next(entry)
                self._entries.append(entry)
                return True, problem
            if entry.base_offset > end_offset:
                return False, f"partition {self._partition} has nothing from {end_offset} to {entry.base_offset - 1}"
            place = bisect_left(self._entries, entry.base_offset, key=lambda each: each.base_offset)
            known = self._entries[place] if place < len(self._entries) else None
        if known == entry:
            return False, None
        return False, f"partition {self._partition} showed {known} and then {entry}"

    def _problem_of_next(self, entry: Entry) -> str | None:
        if entry.end_offset <= entry.base_offset:
            return f"partition {self._partition} has an empty batch: {entry}"
        if self._entries and entry.leader_epoch < self._entries[-1].leader_epoch:
            return f"partition {self._partition} has {entry} behind a later epoch's {self._entries[-1]}"
        return None

    def epoch_starts(self) -> Iterator[tuple[int, int]]:
        """(leader epoch, offset of its first batch), in the order of the log."""
        last = None
        for entry in self.entries:
            if entry.leader_epoch != last:
                last = entry.leader_epoch
                yield entry.leader_epoch, entry.base_offset
