"""Cells and lines that the benchmarks' tables for people have in common."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol


class Absolute(Protocol):
    """A figure of bmq alone."""

    @property
    def id(self) -> str: ...


def spread_cells(values: list[float], widths: tuple[int, int, int]) -> str:
    """Minimum, median and maximum of the pairs' ratios; nothing without pairs."""
    spread = (min(values), statistics.median(values), max(values)) if values else ()
    return "".join(f"{value:{width}.2f}" for value, width in zip(spread, widths, strict=False))


def absolute_lines(
    absolutes: Iterable[Absolute], criteria: Mapping[str, dict[str, Any]], name_width: int, value_width: int
) -> Iterator[str]:
    """One line for each figure that has no rival."""
    for absolute in absolutes:
        criterion = criteria[absolute.id]
        value = "-" if criterion["value"] is None else f"{criterion['value']:.4g}"
        yield f"{absolute.id:{name_width}}{value:>{value_width}}{verdict_text(criterion)}"


def verdict_text(criterion: dict[str, Any]) -> str:
    said = criterion.get("reason", "DOES NOT HOLD") if not criterion["holds"] else "holds"
    if "\n" in said:  # the end of a log: its last line says most
        said = f"{said.splitlines()[0]} … {said.splitlines()[-1]}"
    return f"  {criterion['op']} {criterion['bound']:g}: {said}"
