"""A cluster of bmq on HDFS beside three Apache Kafka brokers: faults, moves, restarts, scaling, load, many partitions.

    python -m bench.cluster [--quick] [--only NAME …] [--side bmq|kafka] [--results FILE] [--again]

NAME is a part or the id of a criterion. --again puts what it measures into the results of an earlier run, in the place of
what these have of it, and notes that under `again`. Where Kafka can do the same it is measured in the same run, in turn with bmq.
Writes bench/results/cluster.json (machine, versions, every sample and the criteria) and prints a table. Exit code 0 says
that it ran; whether a criterion holds is in the file and in the table. Ctrl-C ends it with what was measured until then, in
a file of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.cluster import criteria
from bench.cluster.findings import Findings, say
from bench.cluster.parts import RUNS
from bench.cluster.plan import PARTS, Plan, parts_of, quick
from bench.cluster.stage import Stage, seconds_since, time_limit
from bench.cluster.table import table
from bench.hdfs.commands import prepare_process
from bench.measure import machine_facts, versions
from tests.support.processes import JARS, REPOSITORY, kill_everything

DATA: Final = REPOSITORY / ".cache" / "bench-cluster"
RESULTS: Final = REPOSITORY / "bench" / "results" / "cluster.json"
ROUGH_RESULTS: Final = REPOSITORY / ".cache" / "bench-cluster.json"
"""Of runs that are not the whole: they do not take the place of one that is."""


def run(plan: Plan, stage: Stage, findings: Findings) -> dict[str, float]:
    """All parts of the plan; the seconds each run took. Raises nothing but KeyboardInterrupt."""
    took: dict[str, float] = {}
    done = set()
    for part in plan.parts:
        work = RUNS[part]
        if work in done:
            continue
        done.add(work)
        together = [name for name in plan.parts if RUNS[name] is work]
        say(", ".join(together))
        began = time.monotonic()
        limit_s = plan.pairs_limit_s if part == criteria.PAIRS else plan.limit_s
        try:
            with time_limit(limit_s, part):
                work(stage, plan, findings)
        except Exception as error:
            for name in together:
                findings.failed(name, f"{type(error).__name__}: {error}")
            clean(stage)  # nobody knows what it left behind
        took[part] = seconds_since(began)
    return took


def clean(stage: Stage) -> None:
    """End everything; what cannot be ended does not take the results along."""
    kill_everything()
    try:
        stage.down()
    except Exception as error:
        say(f"FAILED to clean up: {error}")


def cluster_versions() -> dict[str, str]:
    hadoop = next(iter((JARS / "hadoop").glob("hadoop-hdfs-client-*.jar"))).stem.removeprefix("hadoop-hdfs-client-")
    zookeeper = next(iter((JARS / "zookeeper").glob("zookeeper-[0-9]*.jar"))).stem.removeprefix("zookeeper-")
    return {**versions(), "hadoop": hadoop, "zookeeper": zookeeper, "kazoo": version("kazoo")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="few rounds and small sizes: a rough look")
    options.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"of: {', '.join(PARTS)}")
    options.add_argument("--side", nargs=1, choices=[criteria.BMQ, criteria.KAFKA], help="one of them alone")
    options.add_argument("--results", type=Path)
    options.add_argument("--again", action="store_true", help="measure these again, into the results that are there")
    given = options.parse_args()
    try:
        parts = parts_of(given.only)
    except ValueError as error:
        options.error(str(error))
    plan = Plan(parts, tuple(given.side or (criteria.BMQ, criteria.KAFKA)))
    if given.quick:
        plan = quick(plan)
    is_whole = not (given.quick or given.only or given.side)
    results = given.results or (RESULTS if is_whole or given.again else ROUGH_RESULTS)
    if given.again and (given.quick or not results.exists()):
        options.error("--again needs results of an earlier run, and is not for --quick")
    earlier = json.loads(results.read_text()) if given.again else {}

    prepare_process()
    began = time.monotonic()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": given.quick,
        "machine": machine_facts(DATA),
        "versions": cluster_versions(),
        "plan": asdict(plan),
    }
    findings = Findings.without(earlier, parts, plan.sides) if earlier else Findings()
    stage = Stage(DATA)
    try:
        result["part_s"] = run(plan, stage, findings)
    except KeyboardInterrupt:
        result["interrupted"] = True
        results = given.results or ROUGH_RESULTS  # of --again as well: what was there stays there
    finally:
        clean(stage)
    result["duration_s"] = seconds_since(began)
    if earlier:
        result = {**earlier, "again": [*earlier.get("again", ()), result]}
    result.update(asdict(findings))
    result["criteria"] = criteria.evaluate(findings.parts, findings.pairs, findings.failures)
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(f"\n{results} written after {seconds_since(began):.0f} s")
    sys.exit(0)


if __name__ == "__main__":
    main()
