"""One core of a bmq node beside one core of an Apache Kafka node, under a client in C that is pinned to another core.

The client sends frames made beforehand and throws away what it receives, so that the servers are seen and not the clients.
Writes bench/results/core.json (every raw sample and the criteria) and prints a table. Exit code 0 says that it ran;
whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.core import criteria, tuning
from bench.core import plan as plan_module
from bench.core.client import Client, pinned_to
from bench.core.loads import COMPRESSED_TOPICS, PARTITIONS, TOPICS, Target, run_all, run_compressed
from bench.core.plan import Plan
from bench.criteria import BMQ, KAFKA
from bench.findings import Findings, say
from bench.measure import versions
from bench.measured_parts import measured_parts
from bench.runner import bench_of, main
from testing.java import TOPICS as TOPIC_TOOL
from testing.java import run_tool
from testing.processes import REPOSITORY, kill_everything
from testing.servers import BmqServer, KafkaServer, Server

DATA: Final = REPOSITORY / ".cache" / "bench-core"
MAKERS: Final[Mapping[str, Callable[[Path], Server]]] = {BMQ: BmqServer, KAFKA: KafkaServer}


Run = Callable[[Target, Client, Plan, dict[str, Any]], None]
LOADS: Final[Mapping[str, tuple[Run, tuple[str, ...]]]] = {
    criteria.PAIRS: (run_all, TOPICS),
    criteria.COMPRESSED: (run_compressed, COMPRESSED_TOPICS),
}
"""By part: what runs its loads, and the topics they need."""


class TooFewProcessors(Exception):
    """There is no processor for the client beside the server's."""


@dataclass(frozen=True, slots=True)
class OneServer:
    """A server as the loads see it."""

    server: Server

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def processes(self) -> Mapping[str, int]:
        return {self.server.name: self.server.pid}


def pairs(plan: Plan, findings: Findings, part: str) -> None:
    """Who comes first changes: neither profits from a machine that slows down or speeds up."""
    server_core, client_core = cores()
    client = Client(DATA / "client", client_core)
    found = findings.pairs(part, plan.pairs)
    for number in range(plan.pairs):
        pair: dict[str, Any] = {"order": list(plan.sides[:: 1 if number % 2 == 0 else -1])}
        found.append(pair)
        for name in pair["order"]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            with findings.attempt([part], f"pair {number + 1}: {name}"):
                put_under_load(MAKERS[name](DATA / name), server_core, client, plan, pair.setdefault(name, {}), part)


def cores() -> tuple[int, int]:
    """The server's processor and the client's. Raises TooFewProcessors."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise TooFewProcessors("this needs two processors, one for the server and one for the client")
    return allowed[0], allowed[1]


def put_under_load(
    server: Server, core: int, client: Client, plan: Plan, raw: dict[str, Any], part: str = criteria.PAIRS
) -> None:
    """A part's loads against a server on a new directory, which is removed again; `raw` is given what is found."""
    run, topics = LOADS[part]
    shutil.rmtree(server.directory, ignore_errors=True)
    os.sync()
    try:
        with pinned_to([core]):
            server.start()
        for topic in topics:
            run_tool(
                TOPIC_TOOL,
                *("--bootstrap-server", server.bootstrap, "--create", "--topic", topic),
                *("--partitions", str(PARTITIONS), "--replication-factor", "1"),
            )
        run(OneServer(server), client, plan, raw)
    finally:
        server.close()
        shutil.rmtree(server.directory, ignore_errors=True)


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    try:
        return measured_parts(plan, findings, {part: partial(pairs, plan, findings, part) for part in plan.parts})
    finally:
        kill_everything()
        shutil.rmtree(DATA, ignore_errors=True)


BENCH: Final = bench_of("core", __doc__, (plan_module, criteria, tuning), measure, versions, DATA)

if __name__ == "__main__":
    main(BENCH)
