"""The figures for people: bmq's, Apache Kafka's beside them, and what holds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Final

from bench.cluster import criteria
from bench.criteria import Ratio, figures_of, pair_ratios
from bench.table import spread_cells, verdict_text

NAME_WIDTH: Final = 46


def table(result: dict[str, Any]) -> str:
    verdicts = {criterion["id"]: criterion for criterion in result["criteria"]}
    lines = [f"{'':{NAME_WIDTH}}{'bmq':>10}{'kafka':>10}"]
    for criterion in criteria.CRITERIA:
        verdict = verdicts[criterion.id]
        if verdict["value"] is None and criterion.part not in result["plan"]["parts"]:
            continue
        name = f"{criterion.what} [{criterion.unit}]" if criterion.unit else criterion.what
        cells = [name.ljust(NAME_WIDTH), _cell(verdict["value"]), _cell(verdict["kafka"]), verdict_text(verdict)]
        lines.append("".join(cells))
    if result["pairs"]:
        lines += ["", *_ratio_lines("three nodes", result["pairs"], verdicts)]
        lines += ["", *_ratio_lines("separate proxies and brokers", criteria.separate(result["pairs"]), {})]
    return "\n".join(lines)


def _ratio_lines(title: str, pairs: list[dict[str, Any]], verdicts: dict[str, Any]) -> Iterator[str]:
    yield f"{title:{NAME_WIDTH}}{'bmq':>10}{'kafka':>10}{'ratio min':>11}{'median':>8}{'max':>8}"
    for ratio in (*criteria.RATIOS, *criteria.MORE_RATIOS):
        cells = [f"{ratio.what} [{ratio.unit}]".ljust(NAME_WIDTH)]
        cells += [_cell(_median(ratio, pairs, side)) for side in (criteria.BMQ, criteria.KAFKA)]
        cells.append(spread_cells(pair_ratios(ratio, pairs), (11, 8, 8)))
        if ratio.id in verdicts:
            cells.append(verdict_text(verdicts[ratio.id]))
        yield "".join(cells)


def _median(ratio: Ratio, pairs: list[dict[str, Any]], side: str) -> float | None:
    figures = figures_of(ratio, pairs, side)
    return statistics.median(figures) if figures else None


def _cell(value: object) -> str:
    return f"{value:10.4g}" if isinstance(value, int | float) else f"{'-':>10}"
