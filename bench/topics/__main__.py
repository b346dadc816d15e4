"""A topic's life on one bmq node beside one Apache Kafka node: compaction, its cost, its memory, and producers beside it.

Each pair is both sides in changing order; the criterion is the median of the pairs' ratios. Writes
bench/results/topics.json (machine, versions, every sample and the criteria) and prints a table.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bench.findings import Findings, say
from bench.measure import versions
from bench.runner import Bench, main
from bench.time_limit import seconds_since
from bench.topics import criteria, tuning
from bench.topics.compaction import MAKERS, Data, Side, allow, await_compaction, compact, fill
from bench.topics.plan import PARTS, Plan, plan_of
from bench.workloads import latency
from tests.support.java import TOPICS, run_tool
from tests.support.processes import REPOSITORY, kill_everything

DATA: Final = REPOSITORY / ".cache" / "bench-topics"


@contextmanager
def started(name: str) -> Iterator[Side]:
    shutil.rmtree(DATA, ignore_errors=True)
    side = MAKERS[name](DATA / name)
    try:
        side.start()
        yield side
    finally:
        side.close()
        shutil.rmtree(DATA, ignore_errors=True)


def compaction(plan: Plan, findings: Findings) -> None:
    """The first of two topics warms the server up: a JVM compiles what runs often."""
    data = Data(plan.records, plan.value_bytes, plan.keys)

    def perform(side: Side) -> dict[str, Any]:
        for topic in ("warm-up", "measured"):
            end_offset = fill(side, topic, data)
            found = compact(side, topic, end_offset)
        return {**found, "gb": plan.records * (plan.value_bytes + 12) / 1e9}

    _pairs(criteria.COMPACTION, plan, findings, perform)


def many_keys(plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        with findings.attempt([criteria.KEYS], name), started(name) as side:
            end_offset = fill(side, "keys", Data(plan.distinct, 20))
            findings.samples(criteria.KEYS, name).update(compact(side, "keys", end_offset))


def beside_producers(plan: Plan, findings: Findings) -> None:
    """A steady producer on another topic, alone and while a log is compacted."""
    data = Data(plan.records, plan.value_bytes, plan.keys)

    def perform(side: Side) -> dict[str, Any]:
        run_tool(TOPICS, "--bootstrap-server", side.bootstrap, "--create", "--topic", "steady", "--partitions", "6")
        end_offset = fill(side, "compacted", data)
        latency(side, "steady", 1_024, plan.measured, plan.warm_up)  # warms up
        without = latency(side, "steady", 1_024, plan.measured, plan.warm_up)
        spent: dict[str, float] = {}

        def compact_meanwhile() -> None:
            time.sleep(plan.warm_up / 10_000)
            began = time.perf_counter()
            allow(side, "compacted")
            await_compaction(side, "compacted", end_offset)
            spent["compaction_s"] = time.perf_counter() - began

        meanwhile = threading.Thread(target=compact_meanwhile, daemon=True)
        meanwhile.start()
        found = latency(side, "steady", 1_024, plan.measured, plan.warm_up)
        meanwhile.join()
        return {"without": without, "with": {**found, **spent}}

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


RUNS: Final[Mapping[str, Callable[[Plan, Findings], None]]] = {
    criteria.COMPACTION: compaction,
    criteria.KEYS: many_keys,
    criteria.BESIDE: beside_producers,
}


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    took: dict[str, float] = {}
    try:
        for part in plan.parts:
            say(part)
            began = time.monotonic()
            try:
                RUNS[part](plan, findings)
            except Exception as error:
                findings.failed(part, f"{type(error).__name__}: {error}")
            took[part] = seconds_since(began)
    finally:
        kill_everything()
        shutil.rmtree(DATA, ignore_errors=True)
    return took


BENCH: Final = Bench(
    name="topics",
    doc=__doc__,
    parts=PARTS,
    names=criteria.PART_OF,
    plan_of=plan_of,
    measure=measure,
    evaluate=criteria.judge,
    definitions={},
    settings=tuning.SETTINGS,
    versions=versions,
    data=DATA,
)

if __name__ == "__main__":
    main(BENCH)
