"""From samples to the few numbers that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

BUCKET_LEAST_US: Final = 10.0
BUCKET_FACTOR: Final = 1.1


def percentile(samples: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the least sample that `share` (0 to 1) of all do not exceed. Raises ValueError."""
    if not samples:
        raise ValueError("a percentile of nothing")
    if not 0 <= share <= 1:
        raise ValueError(f"{share} is no share of the samples")
    ordered = sorted(samples)
    # Rounded first: 0.99 * 200 is 198.00000000000003 in floating point on some inputs, and one rank would be skipped.
    rank = -int(-round(share * len(ordered), 9) // 1)
    return ordered[max(rank, 1) - 1]


def latency_summary(latencies_us: Sequence[float]) -> dict[str, Any]:
    """Count, median, tail and worst of latencies given in microseconds; these are in milliseconds. `histogram_us` has all."""
    return {
        "count": len(latencies_us),
        "p50_ms": percentile(latencies_us, 0.5) / 1000,
        "p90_ms": percentile(latencies_us, 0.9) / 1000,
        "p99_ms": percentile(latencies_us, 0.99) / 1000,
        "max_ms": max(latencies_us) / 1000,
        "histogram_us": histogram(latencies_us),
    }


def histogram(latencies_us: Sequence[float]) -> str:
    """All samples, as `upper end of the bucket:count` of every bucket that has some; each begins 10% above the one before."""
    counts: dict[float, int] = {}
    upper_us = BUCKET_LEAST_US
    for latency_us in sorted(latencies_us):
        while latency_us > upper_us:
            upper_us *= BUCKET_FACTOR
        counts[upper_us] = counts.get(upper_us, 0) + 1
    return " ".join(f"{round(upper)}:{count}" for upper, count in counts.items())


def around_changes(numbers: Sequence[int], reach: int) -> set[int]:
    """The places that are among the `reach` on either side of a place whose number differs from the one before it."""
    changes = [place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1]]
    return {place for change in changes for place in range(max(0, change - reach), min(len(numbers), change + reach))}
