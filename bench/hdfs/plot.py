"""A small picture of bench/results/hdfs.json: every ratio with its pairs, beside the bound it is judged by.

python -m bench.hdfs.plot [RESULTS.json [PICTURE.svg]]
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench.hdfs import criteria
from bench.plot import main
from tests.support.processes import REPOSITORY

RESULTS: Final = REPOSITORY / "bench" / "results" / "hdfs.json"
COLOUR: Final = "#1b7f5c"
NAMES: Final = {"java": "Hadoop's client", "native": "hdfs-native"}


def draw(result: dict[str, Any], picture: Path) -> None:
    """One row for each judged ratio: the median as a bar, every pair as a dot, the bound as a line."""
    mpl.rcParams["svg.hashsalt"] = "bmq"
    figure, panel = plt.subplots(figsize=(9, 0.55 * len(criteria.RATIOS) + 1), layout="constrained")
    labels = []
    for row, ratio in enumerate(criteria.RATIOS):
        values = criteria.pair_ratios(ratio, result["pairs"])
        labels.append(f"{ratio.what}\nbmq / {NAMES[ratio.theirs[0]]}, wanted {ratio.op} {ratio.bound:g}")
        if values:
            panel.barh(row, statistics.median(values), color=COLOUR, height=0.5)
            panel.plot(values, [row] * len(values), ".", color="black", markersize=3)
        panel.plot([ratio.bound, ratio.bound], [row - 0.4, row + 0.4], color="#b3261e", linewidth=1.5)
    panel.axvline(1, color="#9aa0a6", linewidth=0.8)
    panel.set_yticks(range(len(labels)), labels, fontsize=8)
    panel.invert_yaxis()
    panel.tick_params(axis="x", labelsize=7)
    panel.set_xlim(left=0)
    panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main(draw, RESULTS)
