"""Who saw which record while a lane came and went. Decisions only.

Records are numbers; each LANE_OF-th one is of the lane. What a consumer of the lane has seen counts as seen when it has
committed that; what it has not committed comes again, to the base group or to the next consumer of the lane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

LANE_OF: Final = 2


def is_of_lane(number: int) -> bool:
    return number % LANE_OF == 0


@dataclass(slots=True)
class FlipLedger:
    """`base`, `lane`: how often each record was seen; `copied`: as a copy, by the base group."""

    base: Counter[int] = field(default_factory=Counter)
    lane: Counter[int] = field(default_factory=Counter)
    copied: int = 0

    def lane_committed(self, numbers: Iterable[int]) -> None:
        self.lane.update(numbers)

    def base_saw(self, number: int, *, is_copy: bool) -> None:
        self.base[number] += 1
        self.copied += is_copy

    def has_all(self, produced: Iterable[int]) -> bool:
        return all(number in self.base or number in self.lane for number in produced)

    def found(self, produced: Iterable[int]) -> dict[str, int]:
        """`produced`: those that were acknowledged."""
        both = self.base + self.lane
        return {
            "skipped": sum(number not in both for number in produced),
            "doubled": sum(count - 1 for count in both.values()),
            "misrouted": sum(not is_of_lane(number) for number in self.lane),
            "by_base": len(self.base),
            "by_lane": len(self.lane),
            "copied": self.copied,
        }
