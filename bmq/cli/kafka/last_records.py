"""Where the last N records of each partition begin. Pure: what reads the records is handed in.

Offsets cannot be counted for that: transaction markers, aborted records and what compaction removed take offsets too.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from bmq.cli.kafka.model import Partition

FIRST_WINDOW_OFFSETS: Final = 500
WINDOW_OFFSETS_MAX: Final = 1 << 16
"""Bounds memory: 8 bytes for each record that one partition has in a window."""

Ranges = Mapping[Partition, tuple[int, int]]
ReadOffsets = Callable[[Ranges], Iterable[tuple[Partition, int]]]
"""The offsets of the records within these ranges [start, end); ascending within a partition."""


def with_last_records(ranges: Ranges, count: int, read: ReadOffsets) -> dict[Partition, tuple[int, int]]:
    """Each range cut at its start, so that it has its last `count` records; all of it when it has fewer.

    Reads windows backwards from the ends. They double, so that a long stretch without records takes few requests.
    """
    starts: dict[Partition, int] = {}
    missing = dict.fromkeys(ranges, count)
    window_ends = {at: end for at, (_, end) in ranges.items()}
    window_offsets = FIRST_WINDOW_OFFSETS
    while True:
        for at in list(missing):
            if missing[at] == 0 or window_ends[at] <= ranges[at][0]:
                starts[at] = max(ranges[at][0], window_ends[at])
                del missing[at]
        if not missing:
            return {at: (starts[at], end) for at, (_, end) in ranges.items()}
        windows = {at: (max(ranges[at][0], window_ends[at] - window_offsets), window_ends[at]) for at in missing}
        found = {at: array("q") for at in missing}
        for at, offset in read(windows):
            found[at].append(offset)
        for at, offsets in found.items():
            taken = min(missing[at], len(offsets))
            missing[at] -= taken
            window_ends[at] = windows[at][0] if missing[at] else offsets[-taken]
        window_offsets = min(2 * window_offsets, WINDOW_OFFSETS_MAX)
