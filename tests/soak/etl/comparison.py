"""Is the copy whole? Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """Values that are missing in the copy, each as often as it is; and those that are there too often.

    `disordered`: partitions in which the records that should be there are, but in another order.
    """

    source_count: int
    lost: Sequence[str]
    doubled: Sequence[str]
    disordered: Sequence[int]

    @property
    def lost_or_doubled(self) -> int:
        return len(self.lost) + len(self.doubled)


def compare(source: Mapping[int, Sequence[str]], target: Mapping[int, Sequence[str]]) -> Comparison:
    """Values by partition, in order; a copy has each record in the partition of the same number."""
    lost: list[str] = []
    doubled: list[str] = []
    disordered: list[int] = []
    for partition in sorted(source.keys() | target.keys()):
        wanted, found = source.get(partition, ()), target.get(partition, ())
        missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
        lost += missing.elements()
        doubled += more.elements()
        if not missing and not more and list(wanted) != list(found):
            disordered.append(partition)
    return Comparison(sum(map(len, source.values())), lost, doubled, disordered)
