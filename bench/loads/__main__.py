"""A cluster of bmq on HDFS beside three Apache Kafka brokers, under loads whose clients hide as little as they can.

Each pair is every load on both sides, in changing order; the criterion is the median of the pairs' ratios. Writes
bench/results/loads.json (machine, versions, every sample and the criteria) and prints a table. Exit code 0 says that it
ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from bench.cluster.run import cluster_versions, run_parts
from bench.cluster.sides import ALONE, PROXIES_AND_BROKERS, Side
from bench.cluster.stage import Stage
from bench.core.client import Client as FrameClient
from bench.criteria import BMQ, KAFKA
from bench.findings import Findings, say
from bench.loads import criteria, overload, raw, tuning, workers
from bench.loads import plan as plan_module
from bench.loads.client import Client
from bench.loads.criteria import ONE, OVERLOAD, PAIRS, SEPARATE, TWO, WORKERS
from bench.loads.loads import run_all, run_many
from bench.loads.plan import Plan
from bench.runner import bench_of, main
from testing.hdfs import outside_any_loop
from testing.processes import REPOSITORY

DATA: Final = REPOSITORY / ".cache" / "bench-loads"


def pairs(stage: Stage, plan: Plan, findings: Findings) -> None:
    client = Client(DATA / "client")
    frames = FrameClient(DATA / "frames", max(os.sched_getaffinity(0)))
    found = findings.pairs(PAIRS, plan.pairs)
    for number in range(plan.pairs):
        names = [*plan.sides, *([SEPARATE] if number < plan.separate_pairs and BMQ in plan.sides else [])]
        # Who comes first changes: neither profits from a machine that slows down or speeds up.
        pair: dict[str, Any] = {"order": names[:: 1 if number % 2 == 0 else -1]}
        found.append(pair)
        for name in pair["order"]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            where = f"pair {number + 1}: {name}"
            stage.down()
            with findings.attempt([PAIRS], where), ExitStack() as stack:
                side = side_of(name, stage, stack)
                put_under_loads(side, name, stage, client, frames, plan, findings, pair.setdefault(name, {}), where)
    stage.down()


def side_of(name: str, stage: Stage, stack: ExitStack) -> Side:
    if name == SEPARATE:
        return stack.enter_context(stage.bmq(PROXIES_AND_BROKERS))
    return stack.enter_context(stage.combined(name))


def put_under_loads(
    side: Side,
    name: str,
    stage: Stage,
    client: Client,
    frames: FrameClient,
    plan: Plan,
    findings: Findings,
    samples: dict[str, Any],
    where: str,
) -> None:
    def attempt(load: str, perform: Callable[[], Any]) -> None:
        with findings.attempt([f"{PAIRS}/{load}"], where):
            samples[load] = perform()

    run_all(side, client, frames, plan, attempt)
    if name == BMQ:
        raw_rates = raw.rates(stage.hdfs.namenodes[0], plan.raw_bytes, DATA)
        attempt("raw_hdfs", lambda: outside_any_loop(raw_rates))
    run_many(side, client, plan, attempt)


def side_by_side(stage: Stage, plan: Plan, findings: Findings) -> None:
    """Nothing, when Kafka alone is asked for."""
    if BMQ not in plan.sides:
        return
    found = findings.pairs(WORKERS, plan.workers_rounds)
    layouts = {ONE: ALONE, TWO: ALONE * 2}
    for number in range(plan.workers_rounds):
        pair: dict[str, Any] = {"order": [*layouts][:: 1 if number % 2 == 0 else -1]}
        found.append(pair)
        for name in pair["order"]:
            say(f"  round {number + 1} of {plan.workers_rounds}: {name}")
            with findings.attempt([WORKERS], f"round {number + 1}: {name}"), stage.bmq(layouts[name]) as side:
                pair[name] = workers.measure(side, plan, DATA)
    stage.down()


def overloaded(stage: Stage, plan: Plan, findings: Findings) -> None:
    client = Client(DATA / "client")
    found = findings.pairs(OVERLOAD, plan.overload_rounds)
    for number in range(plan.overload_rounds):
        pair: dict[str, Any] = {"order": list(plan.sides[:: 1 if number % 2 == 0 else -1])}
        found.append(pair)
        for name in pair["order"]:
            say(f"  round {number + 1} of {plan.overload_rounds}: {name}")
            stage.down()
            with findings.attempt([OVERLOAD], f"round {number + 1}: {name}"), ExitStack() as stack:
                side = side_of(name, stage, stack)
                stall = None if name == KAFKA else lambda seconds: stall_datanode(stage, seconds)
                pair[name] = overload.measure(side, client, plan, DATA, stall)
    stage.down()


def stall_datanode(stage: Stage, seconds: float) -> None:
    """Let one stand still for so long."""
    datanode = stage.hdfs.datanode(0)
    outside_any_loop(datanode.pause())
    time.sleep(seconds)
    outside_any_loop(datanode.resume())


RUNS: Final[dict[str, Callable[[Stage, Plan, Findings], None]]] = {
    PAIRS: pairs,
    WORKERS: side_by_side,
    OVERLOAD: overloaded,
}


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    """All parts of the plan; the seconds each took."""
    return run_parts(DATA, plan.parts, RUNS, lambda _: plan.limit_s, plan, findings)


BENCH: Final = bench_of("loads", __doc__, (plan_module, criteria, tuning), measure, cluster_versions, DATA)

if __name__ == "__main__":
    main(BENCH)
