"""Pauses between acknowledgements, or records, of a partition, and which fault was under way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

STALL_S: Final = 0.25  # shorter pauses are not kept
AFTERMATH_S: Final = 5.0  # a pause that begins this soon after a fault is over is its doing


@dataclass(frozen=True, slots=True)
class Stall:
    """A client heard nothing of this partition between these moments, though records were waiting."""

    partition: int
    begin_s: float
    end_s: float
    client: str = ""

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault as it was done: from the moment it was caused until all was well again. The same clock as Stall's."""

    kind: str
    begin_s: float
    end_s: float


class StallWatch:
    """Told of everything that a client hears of a partition, as acknowledgements or records; keeps the pauses."""

    def __init__(self, client: str = "") -> None:
        self._client = client
        self.stalls: list[Stall] = []
        self._last_s: dict[int, float] = {}

    def heard_of(self, partition: int, now_s: float) -> None:
        last_s = self._last_s.get(partition, now_s)
        if now_s - last_s >= STALL_S:
            self.stalls.append(Stall(partition, last_s, now_s, self._client))
        self._last_s[partition] = now_s


def cause_of(stall: Stall, troubles: Iterable[Trouble]) -> str:
    """The kinds of all faults that were under way during the pause; else of those just over; else "none"."""
    overlapping = {one.kind for one in troubles if one.begin_s <= stall.end_s and stall.begin_s <= one.end_s}
    if overlapping:
        return " + ".join(sorted(overlapping))
    behind = {one.kind for one in troubles if one.end_s <= stall.begin_s <= one.end_s + AFTERMATH_S}
    return f"after {' + '.join(sorted(behind))}" if behind else "none"


def by_cause(stalls: Sequence[Stall], troubles: Sequence[Trouble], began_s: float) -> dict[str, dict[str, float | str]]:
    """For each cause: how many pauses, the longest, when that began, counted from `began_s`, and whose; the worst first."""
    found: dict[str, list[Stall]] = {}
    for stall in stalls:
        found.setdefault(cause_of(stall, troubles), []).append(stall)
    longest = {cause: max(of_it, key=lambda stall: stall.seconds) for cause, of_it in found.items()}
    return {
        cause: {
            "count": len(found[cause]),
            "longest_s": round(longest[cause].seconds, 3),
            "at_s": round(longest[cause].begin_s - began_s, 1),
            "partition": longest[cause].partition,
            "client": longest[cause].client,
        }
        for cause in sorted(longest, key=lambda cause: -longest[cause].seconds)
    }
