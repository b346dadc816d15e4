"""A topic's life on bmq beside Apache Kafka: compaction, its cost, its memory, producers beside it and beside a deletion,
a node with many partitions, and how soon a changed config is in force.

Each pair is both sides in changing order, one node each; the criterion is the median of the pairs' ratios. Configs are
changed in clusters of three nodes. Writes bench/results/topics.json (machine, versions, every sample and the criteria)
and prints a table.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from bench.cluster.run import cluster_versions, run_parts
from bench.cluster.stage import Stage
from bench.criteria import BMQ
from bench.findings import Findings, say
from bench.runner import bench_of, main
from bench.topics import configs, criteria, idle, tuning
from bench.topics import plan as plan_module
from bench.topics.compaction import Data, allow, await_compaction, compact, fill
from bench.topics.deletion import closed_segments, delete, fill_segments
from bench.topics.plan import PART_S_MAX, Plan
from bench.topics.sides import MAKERS, Side
from bench.workloads import RATE, latency
from testing.java import TOPICS, run_tool
from testing.processes import REPOSITORY

DATA: Final = REPOSITORY / ".cache" / "bench-topics"
STEADY: Final = "steady"
CLIENT_START_S: Final = 1.0
"""Until a steady producer sends its first record."""


@contextmanager
def emptied() -> Iterator[None]:
    """Nothing of it is left behind, so that each begins with the same room."""
    try:
        yield
    finally:
        shutil.rmtree(DATA, ignore_errors=True)
        DATA.mkdir(parents=True)


@contextmanager
def started(name: str) -> Iterator[Side]:
    with emptied():
        side = MAKERS[name](DATA / name)
        try:
            side.start()
            yield side
        finally:
            side.close()


def compaction(stage: Stage, plan: Plan, findings: Findings) -> None:
    """The first of two topics warms the server up: a JVM compiles what runs often."""

    def perform(side: Side) -> dict[str, Any]:
        for topic, records in (("warm-up", plan.warm_records), ("measured", plan.records)):
            end_offset = fill(side, topic, Data(records, plan.value_bytes, plan.keys, plan.roll_ms))
            found = compact(side, topic, end_offset)
        return {**found, "gb": plan.records * (plan.value_bytes + 12) / 1e9}

    _pairs(criteria.COMPACTION, plan, findings, perform)


def many_keys(stage: Stage, plan: Plan, findings: Findings) -> None:
    """Nothing, when Kafka alone is asked for: its cleaner has no process."""
    if BMQ not in plan.sides:
        return
    with findings.attempt([criteria.KEYS], BMQ), started(BMQ) as side:
        end_offset = fill(side, "keys", Data(plan.distinct, 20, None, plan.roll_ms))
        found = compact(side, "keys", end_offset)
        findings.samples(criteria.KEYS, BMQ).update(found)
        say(f"  {found}")


def beside_producers(stage: Stage, plan: Plan, findings: Findings) -> None:
    """A steady producer on another topic, alone and while a log is compacted."""
    data = Data(plan.records, plan.value_bytes, plan.keys, plan.roll_ms)

    def perform(side: Side) -> dict[str, Any]:
        _make_steady(side)
        end_offset = fill(side, "compacted", data)

        def compact_meanwhile() -> dict[str, Any]:
            began = time.perf_counter()
            allow(side, "compacted")
            await_compaction(side, "compacted", end_offset)
            return {"compaction_s": round(time.perf_counter() - began, 3)}

        return _with_and_without(side, plan.warm_up, plan.measured, compact_meanwhile)

    _pairs(criteria.BESIDE, plan, findings, perform)


def _pairs(part: str, plan: Plan, findings: Findings, perform: Callable[[Side], dict[str, Any]]) -> None:
    """Who comes first changes: neither profits from a machine that slows down or speeds up."""
    found = findings.pairs(part, plan.pairs)
    for number in range(plan.pairs):
        pair: dict[str, Any] = {"order": list(plan.sides[:: 1 if number % 2 == 0 else -1])}
        found.append(pair)
        for name in pair["order"]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            with findings.attempt([part], f"pair {number + 1}: {name}"), started(name) as side:
                pair[name] = perform(side)
                say(f"    {pair[name]}")


def deletion(stage: Stage, plan: Plan, findings: Findings) -> None:
    """A steady producer on another topic, alone and while one of many segments is deleted."""

    def perform(side: Side) -> dict[str, Any]:
        _make_steady(side)
        directories = fill_segments(side, "deleted", plan.deleted_partitions, plan.deleted_segments)
        segments = closed_segments(directories(), plan.deleted_partitions)

        def delete_meanwhile() -> dict[str, Any]:
            return {"segments": segments, "gone_s": round(delete(side, "deleted", directories), 3)}

        return _with_and_without(side, plan.warm_up, plan.deletion_measured, delete_meanwhile)

    _pairs(criteria.DELETION, plan, findings, perform)


def retention(stage: Stage, plan: Plan, findings: Findings) -> None:
    """Nothing, when Kafka alone is asked for."""
    if BMQ not in plan.sides:
        return
    with findings.attempt([criteria.RETENTION], BMQ), emptied():
        found = idle.measure(DATA / "idle", plan.idle_partitions, plan.idle_s, plan.settle_s, plan.retention_check_ms)
        findings.samples(criteria.RETENTION, BMQ).update(found)
        say(f"  {found}")


def changes(stage: Stage, plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        done = findings.rounds(criteria.CONFIGS, name, plan.config_rounds)
        with findings.attempt([criteria.CONFIGS], name), _addresses(stage, name, plan) as addresses:
            configs.measure(addresses)  # the first of all is slow everywhere
            for _ in range(plan.config_rounds):
                done(configs.measure(addresses))
    stage.down()


@contextmanager
def _addresses(stage: Stage, name: str, plan: Plan) -> Iterator[Sequence[str]]:
    if plan.is_cluster:
        with stage.combined(name) as cluster:
            yield cluster.addresses
    else:
        with started(name) as side:
            yield [side.bootstrap]


def _make_steady(side: Side) -> None:
    run_tool(TOPICS, "--bootstrap-server", side.bootstrap, "--create", "--topic", STEADY, "--partitions", "6")


def _with_and_without(
    side: Side, warm_up: int, measured: int, work: Callable[[], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What a steady producer has alone, and while `work` is done, which begins when its warm-up is over."""

    def put() -> dict[str, Any]:
        return latency(side, STEADY, 1_024, measured, warm_up)

    def work_meanwhile() -> dict[str, Any]:
        time.sleep(CLIENT_START_S + warm_up / RATE)
        return work()

    put()  # warms up
    without = put()
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work_meanwhile)
        found = put()
        return {"without": without, "with": {**found, **working.result()}}


RUNS: Final[Mapping[str, Callable[[Stage, Plan, Findings], None]]] = {
    criteria.COMPACTION: compaction,
    criteria.KEYS: many_keys,
    criteria.BESIDE: beside_producers,
    criteria.DELETION: deletion,
    criteria.RETENTION: retention,
    criteria.CONFIGS: changes,
}


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    try:
        return run_parts(DATA, plan.parts, RUNS, lambda _: PART_S_MAX, plan, findings)
    finally:
        shutil.rmtree(DATA, ignore_errors=True)


BENCH: Final = bench_of("topics", __doc__, (plan_module, criteria, tuning), measure, cluster_versions, DATA)

if __name__ == "__main__":
    main(BENCH)
