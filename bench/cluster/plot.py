"""A small picture of bench/results/cluster.json: what producers notice, and the loads beside Apache Kafka.

python -m bench.cluster.plot [RESULTS.json [PICTURE.svg]]
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from bench.cluster import criteria
from bench.criteria import pair_ratios
from bench.plot import COLOURS, NAMES, main
from tests.support.processes import REPOSITORY

RESULTS: Final = REPOSITORY / "bench" / "results" / "cluster.json"
BOUND_COLOUR: Final = "#b3261e"
# A bound of nothing at all cannot be drawn on a logarithmic axis.
SHORTEST_S: Final = 0.01


def draw(result: dict[str, Any], picture: Path) -> None:
    """On the left every figure in seconds, with its bound as a line; on the right the ratios of the pairs."""
    mpl.rcParams["svg.hashsalt"] = "bmq"
    timed = [criterion for criterion in criteria.CRITERIA if criterion.unit == "s" and criterion.bound > 0]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 0.4 * len(timed) + 1.4), layout="constrained", width_ratios=[3, 2]
    )
    _draw_seconds(left, timed, result)
    _draw_ratios(right, result["pairs"])
    for panel in (left, right):
        panel.invert_yaxis()
        panel.tick_params(axis="x", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


def _draw_seconds(panel: Axes, timed: list[criteria.Criterion], result: dict[str, Any]) -> None:
    for row, criterion in enumerate(timed):
        for side, offset in ((criteria.BMQ, -0.18), (criteria.KAFKA, 0.18)):
            value = criteria.figure(criterion, result["parts"], side)
            if value is not None:
                panel.barh(row + offset, max(value, SHORTEST_S), color=COLOURS[side], height=0.34)
        panel.plot([criterion.bound] * 2, [row - 0.4, row + 0.4], color=BOUND_COLOUR, linewidth=1.5)
    panel.set_xscale("log")
    panel.set_xlim(left=SHORTEST_S)
    panel.set_yticks(range(len(timed)), [criterion.what for criterion in timed], fontsize=8)
    panel.set_title("seconds (bound in red)", fontsize=9)
    handles = [Patch(color=COLOURS[side]) for side in NAMES]
    panel.legend(handles, NAMES.values(), fontsize=7, loc="lower right")


def _draw_ratios(panel: Axes, pairs: list[dict[str, Any]]) -> None:
    labels = []
    for row, ratio in enumerate(criteria.RATIOS):
        values = pair_ratios(ratio, pairs)
        labels.append(f"{ratio.what}\nwanted {ratio.op} {ratio.bound:g}")
        if values:
            panel.barh(row, statistics.median(values), color=COLOURS[criteria.BMQ], height=0.5)
            panel.plot(values, [row] * len(values), ".", color="black", markersize=3)
        panel.plot([ratio.bound] * 2, [row - 0.4, row + 0.4], color=BOUND_COLOUR, linewidth=1.5)
    panel.axvline(1, color=COLOURS[criteria.KAFKA], linewidth=0.8)
    panel.set_xlim(left=0)
    panel.set_yticks(range(len(labels)), labels, fontsize=8)
    panel.set_title("bmq / Apache Kafka", fontsize=9)


if __name__ == "__main__":
    main(draw, RESULTS)
