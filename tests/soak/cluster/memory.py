"""Resident sizes of processes over time, and whether they only ever grow. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

# Caches fill up and pages are first touched while a process is young: without any fault it takes three minutes until there
# is a level that stays, most of it two. Many do not live for longer.
WARM_S: Final = 120.0
OBSERVED_S_MIN: Final = 300.0
GROWTH_MIB_PER_MINUTE_MAX: Final = 4.0
MIB_MAX: Final = 600.0


@dataclass(slots=True)
class Incarnation:
    """One process: its age in seconds and its resident size in MiB, again and again."""

    samples: list[tuple[float, float]] = field(default_factory=list)

    def warm(self) -> list[tuple[float, float]]:
        return [sample for sample in self.samples if sample[0] >= WARM_S]


@dataclass(slots=True)
class NodeMemory:
    """All processes that one node had, one after the other."""

    incarnations: list[Incarnation] = field(default_factory=list)

    def begin(self) -> None:
        """Another process."""
        self.incarnations.append(Incarnation())

    def add(self, age_s: float, mib: float) -> None:
        """Of the present one."""
        self.incarnations[-1].samples.append((age_s, mib))

    @property
    def max_mib(self) -> float:
        return max((mib for each in self.incarnations for _, mib in each.samples), default=0.0)

    @property
    def observed_s(self) -> float:
        """For how long processes were watched after they were warm."""
        return sum(warm[-1][0] - warm[0][0] for warm in self._warm())

    def growth_mib_per_minute(self) -> float:
        """Of warm processes: the one slope that fits all of them best, each from its own height."""
        covariance = variance = 0.0
        for warm in self._warm():
            mean_age_s = sum(age_s for age_s, _ in warm) / len(warm)
            mean_mib = sum(mib for _, mib in warm) / len(warm)
            covariance += sum((age_s - mean_age_s) * (mib - mean_mib) for age_s, mib in warm)
            variance += sum((age_s - mean_age_s) ** 2 for age_s, _ in warm)
        return covariance / variance * 60 if variance else 0.0

    def growth_text(self) -> str:
        """In a few words, where enough was seen of it."""
        if self.observed_s < OBSERVED_S_MIN:
            return "too young to say whether it grows"
        return f"{self.growth_mib_per_minute():+.1f} MiB a minute"

    def problem(self) -> str | None:
        """Too much, or more and more. A short run shows no growth: most of it is youth."""
        if self.max_mib > MIB_MAX:
            return f"used {self.max_mib:.0f} MiB; {MIB_MAX:g} are allowed"
        growth = self.growth_mib_per_minute()
        if self.observed_s >= OBSERVED_S_MIN and growth > GROWTH_MIB_PER_MINUTE_MAX:
            return f"grows by {growth:.1f} MiB a minute, seen over {self.observed_s:.0f} s"
        return None

    def _warm(self) -> Iterable[list[tuple[float, float]]]:
        return filter(None, (each.warm() for each in self.incarnations))
