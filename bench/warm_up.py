"""Servers are warmed until their figures stop improving: the same load again and again, judged the same on both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

IMPROVEMENT_LEAST: Final = 0.05
"""A run that is less than this above the best one so far ends the warm-up."""


def has_settled(figures: Sequence[float]) -> bool:
    """Whether the last of these rates improved by less than 5% on the best before it. Pure."""
    return len(figures) > 1 and figures[-1] < max(figures[:-1]) * (1 + IMPROVEMENT_LEAST)


def warm_up(run: Callable[[], float], runs_max: int, runs_min: int = 1) -> dict[str, Any]:
    """Perform `run`, which returns a rate, until the rates settle, at least and at most so often."""
    figures: list[float] = []
    while len(figures) < runs_min or (len(figures) < runs_max and not has_settled(figures)):
        figures.append(run())
    return {"figures": figures, "runs_max": runs_max, "settled": has_settled(figures)}
