"""A cluster of bmq on HDFS beside three Apache Kafka brokers: faults, moves, restarts, scaling, load, many partitions.

Where Kafka can do the same it is measured in the same run, in turn with bmq. Writes bench/results/cluster.json (machine,
versions, every sample and the criteria) and prints a table. Exit code 0 says that it ran; whether a criterion holds is in
the file and in the table. Ctrl-C ends it with what was measured until then, in a file of its own.
"""

from __future__ import annotations

from typing import Final

from bench.cluster import criteria, tuning
from bench.cluster.parts import RUNS
from bench.cluster.plan import PARTS, Plan, plan_of
from bench.cluster.run import cluster_versions, run_parts
from bench.findings import Findings
from bench.runner import Bench, main
from testing.processes import REPOSITORY

DATA: Final = REPOSITORY / ".cache" / "bench-cluster"


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    """All parts of the plan; the seconds each run took."""

    def limit_s(part: str) -> float:
        return plan.pairs_limit_s if part == criteria.PAIRS else plan.limit_s

    return run_parts(DATA, plan.parts, RUNS, limit_s, plan, findings)


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
