"""Whether the memory of a server grows over a soak, by samples in order of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def figures(samples_mib: Sequence[float]) -> dict[str, float]:
    """Greatest, and the medians of the first and the last quarter: what grows without bound shows in them."""
    if not samples_mib:
        return {}
    quarter = max(1, len(samples_mib) // 4)
    first, last = sorted(samples_mib[:quarter]), sorted(samples_mib[-quarter:])
    return {
        "max": round(max(samples_mib), 1),
        "first_quarter": round(first[len(first) // 2], 1),
        "last_quarter": round(last[len(last) // 2], 1),
    }


def growth_problems(samples_mib: Sequence[float], samples_min: float, growth_mib_max: float) -> list[str]:
    """Sentences: it grew by more than this, or too little was seen of it."""
    if len(samples_mib) < samples_min:
        return [f"the server told the sizes of its caches {len(samples_mib)} times, not {samples_min:.0f}"]
    found = figures(samples_mib)
    growth_mib = found["last_quarter"] - found["first_quarter"]
    if growth_mib <= growth_mib_max:
        return []
    return [f"the server grew by {growth_mib:.0f} MiB beside its caches; {growth_mib_max:g} are allowed"]
