"""One bmq node beside one Apache Kafka node on this machine, in alternation, under the same stock clients.

Writes bench/results/standalone.json (every raw sample and the criteria) and prints a table. Exit code 0 says that it ran;
whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.criteria import BMQ, KAFKA
from bench.findings import Findings, say
from bench.measure import versions
from bench.runner import Bench, main
from bench.standalone import criteria, many_partitions, tuning
from bench.standalone.plan import PARTS, Plan, plan_of
from bench.time_limit import seconds_since
from bench.workloads import run_all
from testing.java import TOPICS, run_tool
from testing.processes import REPOSITORY, kill_everything
from testing.servers import BmqServer, KafkaServer, Server

DATA: Final = REPOSITORY / ".cache" / "bench"
PARTITIONS: Final = 6
MAKERS: Final[Mapping[str, Callable[[Path], Server]]] = {BMQ: BmqServer, KAFKA: KafkaServer}


@dataclass(frozen=True, slots=True)
class OneServer:
    """A server as the loads see it."""

    server: Server

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    @property
    def processes(self) -> Mapping[str, int]:
        return {self.server.name: self.server.pid}

    def make_topic(self, topic: str) -> None:
        run_tool(
            TOPICS,
            *("--bootstrap-server", self.bootstrap, "--create", "--topic", topic),
            *("--partitions", str(PARTITIONS), "--replication-factor", "1"),
        )


def empty_starts(plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        with findings.attempt([criteria.EMPTY], name):
            times = many_partitions.ready_times(MAKERS[name], DATA / "empty", plan.starts)
            findings.samples(criteria.EMPTY, name)["ready_s"] = times
        _clear()


def with_many_partitions(plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        with findings.attempt([criteria.MANY], name):
            found = many_partitions.measure(
                MAKERS[name], DATA / "many", plan.partitions, plan.partition_starts, plan.idle_s
            )
            findings.samples(criteria.MANY, name).update(found)
        _clear()


def pairs(plan: Plan, findings: Findings) -> None:
    """Who comes first changes: neither profits from a machine that slows down or speeds up."""
    found = findings.pairs(criteria.PAIRS, plan.pairs)
    for number in range(plan.pairs):
        pair: dict[str, Any] = {"order": list(plan.sides[:: 1 if number % 2 == 0 else -1])}
        found.append(pair)
        for name in pair["order"]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            with findings.attempt([criteria.PAIRS], f"pair {number + 1}: {name}"):
                put_under_load(name, plan, pair.setdefault(name, {}))
            _clear()


def put_under_load(name: str, plan: Plan, raw: dict[str, Any]) -> None:
    """All workloads against one server on a new directory; `raw` is given what is found."""
    _clear()
    os.sync()
    server = MAKERS[name](DATA / name)
    try:
        server.start()
        raw["ready_s"] = time.monotonic() - server.process.started_at
        one = OneServer(server)
        run_all(one, plan.sizes, one.make_topic, raw)
    finally:
        server.close()


RUNS: Final[Mapping[str, Callable[[Plan, Findings], None]]] = {
    criteria.EMPTY: empty_starts,
    criteria.MANY: with_many_partitions,
    criteria.PAIRS: pairs,
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
        _clear()
    return took


def _clear() -> None:
    shutil.rmtree(DATA, ignore_errors=True)


BENCH: Final = Bench(
    name="standalone",
    doc=__doc__,
    parts=PARTS,
    names=criteria.PART_OF,
    plan_of=plan_of,
    measure=measure,
    evaluate=criteria.judge,
    definitions=criteria.DEFINITIONS,
    settings=tuning.SETTINGS,
    versions=versions,
    data=DATA,
)

if __name__ == "__main__":
    main(BENCH)
