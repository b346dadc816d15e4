"""Transactions, committed offsets and KIP-848 groups of bmq beside those of Apache Kafka, on one node and on three.

Each pair is every load on both sides, in changing order; the criterion is the median of the pairs' ratios. Writes
bench/results/groups.json (machine, versions, every sample and the criteria) and prints a table. Exit code 0 says that it
ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bench.cluster.run import cluster_versions, run_parts
from bench.cluster.stage import Stage
from bench.findings import Findings, say
from bench.groups import criteria, failover, heartbeats, tuning
from bench.groups import plan as plan_module
from bench.groups.criteria import FAILOVER, ONE, ONE_MEMBERS, THREE, THREE_MEMBERS
from bench.groups.gathering import rebalance
from bench.groups.loads import Clients, run_all
from bench.groups.plan import Plan
from bench.groups.target import Opener, Target, one_node, three_nodes
from bench.runner import bench_of, main
from testing.processes import REPOSITORY

DATA: Final = REPOSITORY / ".cache" / "bench-groups"


def order(plan: Plan, number: int) -> list[str]:
    """Who comes first changes: neither profits from a machine that slows down or speeds up."""
    return list(plan.sides[:: 1 if number % 2 == 0 else -1])


# -- Transactions and offsets ------------------------------------------------------------------------------------------


def pairs(part: str, opened: Opener, stage: Stage, plan: Plan, findings: Findings) -> None:
    clients = Clients.build(DATA)
    found = findings.pairs(part, plan.pairs)
    for number in range(plan.pairs):
        pair: dict[str, Any] = {"order": order(plan, number)}
        found.append(pair)
        for name in pair["order"]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            where = f"pair {number + 1}: {name}"
            with findings.attempt([part], where), opened(name, stage) as target:
                put_under_loads(part, target, clients, plan, findings, pair.setdefault(name, {}), where)
    stage.down()


def put_under_loads(
    part: str, target: Target, clients: Clients, plan: Plan, findings: Findings, samples: dict[str, Any], where: str
) -> None:
    def attempt(load: str, perform: Callable[[], Any]) -> None:
        with findings.attempt([f"{part}/{load}"], where):
            samples[load] = perform()

    run_all(target, clients, plan, attempt)


# -- Members of groups -------------------------------------------------------------------------------------------------


def members(part: str, opened: Opener, stage: Stage, plan: Plan, findings: Findings) -> None:
    done = {name: findings.rounds(part, name, plan.pairs) for name in plan.sides}
    for number in range(plan.pairs):
        for name in order(plan, number):
            say(f"  round {number + 1} of {plan.pairs}: {name}")
            with findings.attempt([part], f"round {number + 1}: {name}"), opened(name, stage) as target:
                done[name](gather(target, plan))
    stage.down()


def gather(target: Target, plan: Plan) -> dict[str, Any]:
    target.make_topic("gathering", plan.rebalance_members)
    count = plan.rebalance_members
    rebalances = [rebalance(target, "gathering", count, count, f"{number}") for number in range(plan.rebalances)]
    fixed = rebalance(target, "gathering", count, count, "fixed", obeys=False)
    target.make_topic("idle", plan.each)
    idle = heartbeats.measure(target, DATA, "idle", plan.groups, plan.each, plan.idle_warm_s, plan.idle_s)
    return {"rebalances": rebalances, "fixed_rebalance": fixed, "idle": idle}


def killed(stage: Stage, plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        stage.down()
        done = findings.rounds(FAILOVER, name, plan.kills)
        with findings.attempt([FAILOVER], name), stage.combined(name) as side:
            failover.measure(side, plan.kills, done)
    stage.down()


RUNS: Final[dict[str, Callable[[Stage, Plan, Findings], None]]] = {
    ONE: partial(pairs, ONE, one_node),
    THREE: partial(pairs, THREE, three_nodes),
    ONE_MEMBERS: partial(members, ONE_MEMBERS, one_node),
    THREE_MEMBERS: partial(members, THREE_MEMBERS, three_nodes),
    FAILOVER: killed,
}


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    """All parts of the plan; the seconds each took."""
    return run_parts(DATA, plan.parts, RUNS, lambda _: plan.limit_s, plan, findings)


BENCH: Final = bench_of("groups", __doc__, (plan_module, criteria, tuning), measure, cluster_versions, DATA)

if __name__ == "__main__":
    main(BENCH)
