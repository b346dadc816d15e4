"""What each test of the gate costs -> tests/durations.json.

    python -m tools.durations [--rounds N] [STAGE …]      # run the gate's stages that start processes; the median of N rounds

The record gives xdist the order of files. Over a budget is a failure here, on a quiet machine, and never in the gate.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tools.stall_meter import Stall

PATIENCE_SHARE_MAX: Final = 0.25
SHOWN_MAX: Final = 10
DEAREST_MAX: Final = 12
CPU_BUDGETS_S: Final[Mapping[str, float]] = {
    "unit": 1.0,
    "simulation": 10.0,
    "contract": 3.0,
    "clients": 10.0,
    "hurt": 30.0,
    "faults": 30.0,
    "spark": 120.0,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """`patience`: the largest share of its patience that a wait of the test used."""

    place: str
    seconds: float
    cpu_s: float
    java_starts: int
    patience: float


def read_costs(directory: Path) -> dict[str, Cost]:
    """By test: what tests/support/measured_tests.py wrote. A line that was cut off by a kill is left out."""
    found = {}
    for file in sorted(directory.glob("*.jsonl")):
        for text in file.read_text().splitlines():
            try:
                line: dict[str, Any] = json.loads(text)
            except ValueError:
                continue
            found[line["name"]] = Cost(**{name: line[name] for name in Cost.__slots__})
    return found


def failed_tests(directory: Path) -> tuple[set[str], set[str]]:
    """(names of the tests that failed, names of those that judge safety), of what was written there."""
    lines = _lines(directory)
    failed = {line["name"] for line in lines if line["outcome"] == "failed"}
    return failed, {line["name"] for line in lines if line["is_safety"]}


def errors_of_tests(directory: Path) -> dict[str, str]:
    """By the name of each test that failed, the first line of what it failed with."""
    return {
        line["name"]: (line["error"].splitlines() or [""])[0]
        for line in _lines(directory)
        if line["outcome"] == "failed"
    }


def tests_in_stalls(directory: Path, stalls: Sequence[Stall]) -> set[str]:
    """Names of the tests that ran while the machine stood still. Both clocks are the system's monotonic one, in seconds."""
    return {
        line["name"]
        for line in _lines(directory)
        for stall in stalls
        if line["began_s"] < stall.end_s and stall.end_s - stall.length_s < line["began_s"] + line["seconds"]
    }


def _lines(directory: Path) -> list[dict[str, Any]]:
    return [
        json.loads(text)
        for file in directory.glob("*.jsonl")
        for text in file.read_text().splitlines()
        if text.endswith("}")
    ]


def median_costs(rounds: Sequence[Mapping[str, Cost]]) -> dict[str, Cost]:
    """Of each test: medians over the rounds that ran it, and the largest share of patience."""
    seen: dict[str, list[Cost]] = collections.defaultdict(list)
    for costs in rounds:
        for name, cost in costs.items():
            seen[name].append(cost)
    return {
        name: Cost(
            costs[-1].place,
            round(statistics.median(cost.seconds for cost in costs), 3),
            round(statistics.median(cost.cpu_s for cost in costs), 3),
            max(cost.java_starts for cost in costs),
            max(cost.patience for cost in costs),
        )
        for name, costs in sorted(seen.items())
    }


def over_budget(costs: Mapping[str, Cost]) -> list[str]:
    """A line for each test that needs more of a processor than its place allows, the worst first."""
    over = [
        (cost.cpu_s / CPU_BUDGETS_S[cost.place], name, cost)
        for name, cost in costs.items()
        if cost.place in CPU_BUDGETS_S
    ]
    return [
        f"{name}: {cost.cpu_s:.1f} s of a processor; {cost.place} has {CPU_BUDGETS_S[cost.place]:.0f}"
        for share, name, cost in sorted(over, reverse=True)
        if share > 1
    ]


def impatient(costs: Mapping[str, Cost], share_max: float = PATIENCE_SHARE_MAX) -> list[str]:
    """A line for each test with a wait that used more than this share of its patience, the worst first."""
    over = sorted(((cost.patience, name) for name, cost in costs.items() if cost.patience > share_max), reverse=True)
    return [f"{name}: a wait used {share:.0%} of its patience" for share, name in over]


def dearest_files(costs: Mapping[str, Cost]) -> list[str]:
    """`12 of 40 s FILE`, processor seconds of the seconds that its tests took; the dearest first."""
    totals: dict[str, tuple[float, float]] = collections.defaultdict(lambda: (0.0, 0.0))
    for name, cost in costs.items():
        file = name.partition("::")[0]
        cpu_s, seconds = totals[file]
        totals[file] = cpu_s + cost.cpu_s, seconds + cost.seconds
    ordered = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return [f"{cpu_s:.0f} of {seconds:.0f} s {file}" for file, (cpu_s, seconds) in ordered]


def described(costs: Mapping[str, Cost]) -> list[str]:
    """For the end of a stage: processor seconds, starts of Java, the dearest files, and the waits that came close to their end."""
    cpu_s, starts = sum(cost.cpu_s for cost in costs.values()), sum(cost.java_starts for cost in costs.values())
    largest = max((cost.patience for cost in costs.values()), default=0.0)
    lines = [
        f"tests: {cpu_s:.0f} s of a processor, {starts} starts of Java; no wait used more than {largest:.0%} of its patience"
    ]
    if costs:
        lines.append(f"dearest: {', '.join(dearest_files(costs)[:DEAREST_MAX])}")
    return lines + [f"warning: {line}" for line in impatient(costs)[:SHOWN_MAX]]


def write_costs(path: Path, costs: Mapping[str, Cost]) -> None:
    path.write_text(json.dumps({name: asdict(cost) for name, cost in sorted(costs.items())}, indent=0) + "\n")


def main() -> int:
    from tools.machine_lock import machine_lock
    from tools.stages import REPOSITORY, STAGES, run_measured

    names = [stage.name for stage in STAGES["test"] if stage.shares]
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(names)}; default: all")
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    chosen = [stage for stage in STAGES["test"] if stage.name in (given.stages or names)]
    with machine_lock("make durations"):
        rounds = [run_measured(chosen) for _ in range(given.rounds)]
    costs = median_costs([costs for _, costs in rounds])
    path = REPOSITORY / "tests" / "durations.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    places = {stage.name for stage in chosen}
    others = {name: Cost(**cost) for name, cost in kept.items() if cost["place"] not in places}
    write_costs(path, {**others, **costs})
    problems = over_budget(costs) + impatient(costs)
    print("\n".join([*described(costs), *problems]))
    failed = [outcome.stage.name for outcomes, _ in rounds for outcome in outcomes if not outcome.passed]
    print(f"{len(costs)} tests, {len(problems)} problems" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return int(bool(problems or failed))


if __name__ == "__main__":
    sys.exit(main())
