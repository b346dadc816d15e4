"""A cluster of bmq on HDFS beside three Apache Kafka brokers: faults, moves, restarts, scaling, load, many partitions.

Where Kafka can do the same it is measured in the same run, in turn with bmq. Writes bench/results/cluster.json (machine,
versions, every sample and the criteria) and prints a table. Exit code 0 says that it ran; whether a criterion holds is in
the file and in the table. Ctrl-C ends it with what was measured until then, in a file of its own.
"""

from __future__ import annotations

import shutil
import time
from importlib.metadata import version
from typing import Final

from bench.cluster import criteria, tuning
from bench.cluster.parts import RUNS
from bench.cluster.plan import PARTS, Plan, plan_of
from bench.cluster.stage import Stage
from bench.findings import Findings, say
from bench.hdfs.commands import prepare_process
from bench.measure import versions
from bench.runner import Bench, main
from bench.time_limit import seconds_since, time_limit
from tests.support.processes import JARS, REPOSITORY, kill_everything

DATA: Final = REPOSITORY / ".cache" / "bench-cluster"


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    """All parts of the plan; the seconds each run took."""
    prepare_process()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    stage = Stage(DATA)
    took: dict[str, float] = {}
    try:
        for part in plan.parts:
            together = [name for name in plan.parts if RUNS[name] is RUNS[part]]
            if part != together[0]:
                continue
            say(", ".join(together))
            began = time.monotonic()
            limit_s = plan.pairs_limit_s if part == criteria.PAIRS else plan.limit_s
            try:
                with time_limit(limit_s, part):
                    RUNS[part](stage, plan, findings)
            except Exception as error:
                for name in together:
                    findings.failed(name, f"{type(error).__name__}: {error}")
                clean(stage)  # nobody knows what it left behind
            took[part] = seconds_since(began)
    finally:
        clean(stage)
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


BENCH: Final = Bench(
    name="cluster",
    doc=__doc__,
    parts=PARTS,
    names=criteria.PART_OF,
    plan_of=plan_of,
    measure=measure,
    evaluate=criteria.judge,
    definitions=criteria.DEFINITIONS,
    settings=tuning.SETTINGS,
    versions=cluster_versions,
    data=DATA,
)

if __name__ == "__main__":
    main(BENCH)
