"""Pictures of the results for docs/benchmarks: `python -m bench.plot [NAME …]`, of standalone, hdfs, secure_hdfs, cluster, loads,
groups, spark, topics, security, queues and core.

Drawn from the criteria in a results file; what was not measured has a name and no bar.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from bench.criteria import Criterion
from bench.runner import RESULTS

NAMES: Final = (
    "standalone",
    "hdfs",
    "secure_hdfs",
    "cluster",
    "loads",
    "groups",
    "spark",
    "topics",
    "security",
    "queues",
    "core",
)
OURS: Final = "#1b7f5c"
THEIRS: Final = "#9aa0a6"
BOUND: Final = "#b3261e"
SECONDS: Final = {"s": 1.0, "ms": 1e-3}
# Neither a bound nor a figure of nothing at all can be drawn on a logarithmic axis.
SHORTEST_S: Final = 1e-3
ROW_INCHES: Final = 0.42


def draw(result: dict[str, Any], picture: Path) -> None:
    """On the left every judged time with its bound, on the right the ratios of the pairs with theirs."""
    mpl.rcParams["svg.hashsalt"] = "bmq"
    ratios = [one for one in result["criteria"] if "medians" in one]
    times = [one for one in result["criteria"] if "medians" not in one and one["unit"] in SECONDS]
    panels_with = [(panel, rows) for panel, rows in ((_times, times), (_ratios, ratios)) if rows]
    height = ROW_INCHES * max(len(rows) for _, rows in panels_with) + 1.2
    figure, panels = plt.subplots(
        1, len(panels_with), figsize=(6 * len(panels_with), height), layout="constrained", squeeze=False
    )
    for panel, (fill, rows) in zip(panels[0], panels_with, strict=True):
        fill(panel, rows)
        panel.set_yticks(range(len(rows)), [_label(one) for one in rows], fontsize=7)
        panel.invert_yaxis()
        panel.tick_params(axis="x", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


def _times(panel: Axes, rows: list[Criterion]) -> None:
    for row, one in enumerate(rows):
        unit_s = SECONDS[one["unit"]]
        for value, offset, colour in ((one["value"], -0.18, OURS), (one["rival"], 0.18, THEIRS)):
            if isinstance(value, int | float):
                panel.barh(row + offset, max(value * unit_s, SHORTEST_S), color=colour, height=0.34)
        if one["bound"] > 0:
            panel.plot([one["bound"] * unit_s] * 2, [row - 0.4, row + 0.4], color=BOUND, linewidth=1.5)
    panel.set_xscale("log")
    panel.set_xlim(left=SHORTEST_S)
    panel.set_title("seconds (bound in red)", fontsize=9)
    panel.legend([Patch(color=OURS), Patch(color=THEIRS)], ["bmq", "rival"], fontsize=7, loc="lower right")


def _ratios(panel: Axes, rows: list[Criterion]) -> None:
    for row, one in enumerate(rows):
        if one["value"] is not None:
            panel.barh(row, one["value"], color=OURS, height=0.5)
            panel.plot(one["spread"][::2], [row, row], "k-", linewidth=1)
        panel.plot([one["bound"]] * 2, [row - 0.4, row + 0.4], color=BOUND, linewidth=1.5)
    panel.axvline(1, color=THEIRS, linewidth=0.8)
    panel.set_xlim(left=0)
    panel.set_title("bmq / rival: median, least to greatest (bound in red)", fontsize=9)


def _label(one: Criterion) -> str:
    wanted = f"wanted {one['op']} {one['bound']:g}"
    return f"{one['what']}\n{wanted}{'' if one['value'] is not None else ', not measured'}"


def main() -> None:
    measured = [name for name in NAMES if (RESULTS / f"{name}.json").exists()]
    for name in sys.argv[1:] or measured:
        results = RESULTS / f"{name}.json"
        draw(json.loads(results.read_text()), results.with_suffix(".svg"))
        print(f"{results.with_suffix('.svg')} written")


if __name__ == "__main__":
    main()
