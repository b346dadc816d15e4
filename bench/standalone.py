"""One bmq node beside one Apache Kafka node on this machine, in alternation, under the same stock clients.

    python -m bench.standalone [--pairs N] [--quick] [--only bmq|kafka] [--results FILE]

BENCH_PAIRS and BENCH_QUICK=1 do the same as the options. Writes bench/results/standalone.json (every raw sample and the
criteria) and prints a table. Exit code 0 says that it ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import criteria, many_partitions
from bench.measure import machine_facts, versions
from bench.table import absolute_lines, spread_cells, verdict_text
from bench.workloads import FULL, QUICK, Sizes, run_all
from tests.support.processes import REPOSITORY, kill_everything
from tests.support.servers import BmqServer, KafkaServer, Server

PAIRS = 5
DATA = REPOSITORY / ".cache" / "bench"
RESULTS = REPOSITORY / "bench" / "results" / "standalone.json"

MAKERS: dict[str, Callable[[Path], Server]] = {"bmq": BmqServer, "kafka": KafkaServer}


def say(text: str) -> None:
    print(f"[{datetime.now(UTC):%H:%M:%S}] {text}", flush=True)


def measure_server(name: str, sizes: Sizes) -> dict[str, Any]:
    """All workloads against one server on a new directory. A failure is in the result, under "failure"."""
    directory = DATA / name
    shutil.rmtree(DATA, ignore_errors=True)
    os.sync()
    server = MAKERS[name](directory)
    raw: dict[str, Any] = {}
    try:
        server.start()
        raw["ready_s"] = time.monotonic() - server.process.started_at
        raw.update(run_all(server, sizes))
    except Exception as error:
        raw["failure"] = f"{name}: {error}"
        say(f"FAILED {raw['failure']}\n{server.process if server.is_running else ''}")
    finally:
        server.close()
        shutil.rmtree(DATA, ignore_errors=True)
    return raw


def measure_alone(name: str, quick: bool) -> dict[str, Any]:
    """1,000 partitions, and empty starts. What fails is named under "failures", the rest is there."""
    raw: dict[str, Any] = {"failures": []}
    parts: dict[str, Callable[[], Any]] = {
        "ready_s": lambda: many_partitions.ready_times(MAKERS[name], DATA / "empty", 3 if quick else 5),
        "many_partitions": lambda: many_partitions.measure(
            MAKERS[name], DATA / "many", starts=1 if quick else 3, idle_s=10 if quick else 20
        ),
    }
    for part, run in parts.items():
        shutil.rmtree(DATA, ignore_errors=True)
        try:
            raw[part] = run()
        except Exception as error:
            raw["failures"].append(f"{name} {part}: {error}")
            say(f"FAILED {raw['failures'][-1]}")
        finally:
            shutil.rmtree(DATA, ignore_errors=True)
    return raw


def table(result: dict[str, Any]) -> str:
    """The figures for people: medians of both servers, ratios with their spread, and what holds."""
    pairs = result["pairs"]
    verdicts = {criterion["id"]: criterion for criterion in result["criteria"]}
    lines = [f"{'':34}{'bmq':>12}{'kafka':>12}{'ratio min':>11}{'median':>8}{'max':>8}  bound"]
    for ratio in (*criteria.RATIOS, *criteria.MORE_RATIOS):
        values = criteria.pair_ratios(ratio, pairs)
        cells = [f"{ratio.what} [{ratio.unit}]".ljust(34)]
        for name in ("bmq", "kafka"):
            figures = criteria.figures_of(ratio, pairs, name)
            cells.append(f"{statistics.median(figures):12.4g}" if figures else f"{'-':>12}")
        cells.append(spread_cells(values, (11, 8, 8)))
        if ratio.id in verdicts:
            cells.append(verdict_text(verdicts[ratio.id]))
        lines.append("".join(cells))
    return "\n".join((*lines, "", *absolute_lines(criteria.ABSOLUTES, verdicts, 34, 12)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=int(os.environ.get("BENCH_PAIRS", PAIRS)))
    options.add_argument("--quick", action="store_true", default=os.environ.get("BENCH_QUICK") == "1")
    options.add_argument("--only", choices=sorted(MAKERS), help="one server alone, to see its figures")
    options.add_argument("--results", type=Path, default=RESULTS)
    given = options.parse_args()
    names = [given.only] if given.only else ["bmq", "kafka"]
    sizes = QUICK if given.quick else FULL

    began = time.monotonic()
    DATA.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": given.quick,
        "machine": machine_facts(DATA),
        "versions": versions(),
        "workloads": {field: getattr(sizes, field) for field in sizes.__slots__},
        "alone": {},
        "pairs": [],
    }
    try:
        for name in names:
            say(f"{name}: empty starts and {many_partitions.PARTITIONS} partitions")
            result["alone"][name] = measure_alone(name, given.quick)
        for number in range(given.pairs):
            # Who comes first changes: neither profits from a machine that slows down or speeds up.
            order = names if number % 2 == 0 else names[::-1]
            pair: dict[str, Any] = {"order": order}
            for name in order:
                say(f"pair {number + 1} of {given.pairs}: {name}")
                pair[name] = measure_server(name, sizes)
            result["pairs"].append(pair)
    finally:
        kill_everything()
        shutil.rmtree(DATA, ignore_errors=True)
    result["duration_s"] = round(time.monotonic() - began, 1)
    result["criteria"] = criteria.evaluate(result["pairs"], result["alone"].get("bmq", {}))
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(f"\n{given.results} written after {result['duration_s']:.0f} s")
    sys.exit(0)


if __name__ == "__main__":
    main()
