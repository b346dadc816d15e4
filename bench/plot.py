"""Small pictures of bench/results/standalone.json, for README.md.

python -m bench.plot [RESULTS.json [PICTURE.svg]]
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench import criteria
from bench.standalone import RESULTS

COLOURS = {"bmq": "#1b7f5c", "kafka": "#9aa0a6"}
NAMES = {"bmq": "bmq", "kafka": "Apache Kafka"}
COLUMNS = 3


def draw(result: dict[str, Any], picture: Path) -> None:
    """One panel for each ratio: the medians as bars, every sample as a dot."""
    mpl.rcParams["svg.hashsalt"] = "bmq"
    rows = -(-len(criteria.RATIOS) // COLUMNS)
    figure, panels = plt.subplots(rows, COLUMNS, figsize=(9, 2.4 * rows), layout="constrained")
    for ratio, panel in zip(criteria.RATIOS, panels.flat, strict=False):
        for position, name in enumerate(COLOURS):
            samples = criteria.figures_of(ratio, result["pairs"], name)
            if not samples:
                continue
            panel.barh(position, statistics.median(samples), color=COLOURS[name], height=0.6)
            panel.plot(samples, [position] * len(samples), ".", color="black", markersize=3)
        better = "more is better" if ratio.op == ">=" else "less is better"
        panel.set_title(f"{ratio.what} [{ratio.unit}]\n{better}", fontsize=9)
        panel.set_yticks(range(len(COLOURS)), [NAMES[name] for name in COLOURS], fontsize=8)
        panel.invert_yaxis()
        panel.tick_params(axis="x", labelsize=7)
        panel.set_xlim(left=0)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


def main(draw: Callable[[dict[str, Any], Path], None], results: Path) -> None:
    """Draw the results named on the command line, or these, into the picture named behind them, or beside them."""
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else results
    picture = Path(sys.argv[2]) if len(sys.argv) > 2 else results.with_suffix(".svg")
    draw(json.loads(results.read_text()), picture)
    print(f"{picture} written")


if __name__ == "__main__":
    main(draw, RESULTS)
