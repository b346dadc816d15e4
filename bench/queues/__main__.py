"""Share groups of one bmq node beside those of one Apache Kafka node, and of three nodes on HDFS beside three brokers.

Each pair is every load on both sides, in changing order; the criterion is the median of the pairs' ratios. Writes
bench/results/queues.json (machine, versions, every sample and the criteria) and prints a table. Exit code 0 says that it
ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from bench.cluster.run import cluster_versions
from bench.cluster.stage import Stage
from bench.core.__main__ import cores, put_under_load
from bench.core.client import Client as FrameClient
from bench.core.contenders import ServerOfTree
from bench.core.plan import plan_of as core_plan_of
from bench.core.revisions import checked_out
from bench.criteria import BMQ
from bench.findings import Findings, say
from bench.groups.target import Target, three_nodes
from bench.hdfs.commands import prepare_process
from bench.loads.client import Client
from bench.measured_parts import measured_parts
from bench.queues import criteria, failover, idle, kills, locks, moves, tuning
from bench.queues.client import Members
from bench.queues.criteria import ACKS, CONSUME, FAILOVER, IDLE, KILLS, LOCKS, MOVES, OLD, PLAIN, THREE
from bench.queues.loads import run_acks, run_consumers
from bench.queues.plan import PARTS, Plan, plan_of
from bench.queues.target import one_node
from bench.runner import FULL, SMOKE, Bench, main
from tests.support.processes import REPOSITORY, kill_everything

DATA: Final = REPOSITORY / ".cache" / "bench-queues"
FILES: Final = 20_000
BEFORE_SHARE_GROUPS: Final = "caa83b21"
SINGLE_PARTITIONS: Final = 100
"""Of the locks of one record each: a tenth of those whose memory is told."""


class Measuring:
    """`clients`: librdkafka's, the members in C, and frames made beforehand."""

    def __init__(self, stage: Stage, plan: Plan, findings: Findings) -> None:
        self.stage, self.plan, self.findings = stage, plan, findings
        self.client = Client(DATA / "client")
        self.members = Members(DATA / "members")
        self.frames = FrameClient(DATA / "frames", None)

    @contextmanager
    def one(self, name: str) -> Iterator[Target]:
        self.stage.down()
        with one_node(name, DATA / "one") as target:
            yield target

    def three(self, name: str) -> AbstractContextManager[Target]:
        return three_nodes(name, self.stage)

    def pairs(
        self,
        part: str,
        opened: Callable[[str], AbstractContextManager[Target]],
        run: Callable[[Target, dict[str, Any]], None],
    ) -> None:
        """Both sides in turn; who comes first changes."""
        found = self.findings.pairs(part, self.plan.pairs)
        for number in range(self.plan.pairs):
            pair: dict[str, Any] = {"order": list(self.plan.sides[:: 1 if number % 2 == 0 else -1])}
            found.append(pair)
            for name in pair["order"]:
                say(f"  pair {number + 1} of {self.plan.pairs}: {name}")
                with self.findings.attempt([part], f"pair {number + 1}: {name}"), opened(name) as target:
                    run(target, pair.setdefault(name, {}))

    def consume(self, part: str, opened: Callable[[str], AbstractContextManager[Target]]) -> None:
        self.pairs(part, opened, lambda target, raw: run_consumers(target, self.client, self.plan, raw))

    def acks(self) -> None:
        self.pairs(ACKS, self.one, lambda target, raw: run_acks(target, self.client, self.members, self.plan, raw))

    def locks(self) -> None:
        """bmq alone."""
        done = self.findings.rounds(LOCKS, BMQ, self.plan.lock_rounds)
        for number in range(self.plan.lock_rounds):
            with self.findings.attempt([LOCKS], f"round {number + 1}"):
                single = locks.measured(SINGLE_PARTITIONS, 1_000, 1)["memory_mib"] * 1_000 / SINGLE_PARTITIONS
                done({**locks.measured(1_000, 1_000, 500), "single_memory_mib": single})

    def idle(self) -> None:
        """bmq alone."""
        done = self.findings.rounds(IDLE, BMQ, self.plan.idle_rounds)
        self.stage.down()
        for number in range(self.plan.idle_rounds):
            with (
                self.findings.attempt([IDLE], f"round {number + 1}"),
                one_node(BMQ, DATA / "idle", idle.CONFIGS) as target,
            ):
                done(idle.measure(target, self.members, self.frames, self.plan))

    def plain(self) -> None:
        """bmq beside itself before there were share groups, each on one processor, under the loads of `bench.core`."""
        self.stage.down()
        size = FULL if self.plan.pairs > 1 else SMOKE
        plan = core_plan_of((), (), size)
        server_core, client_core = cores()
        client = FrameClient(DATA / "core", client_core)
        found = self.findings.pairs(PLAIN, self.plan.pairs)
        with checked_out(BEFORE_SHARE_GROUPS) as tree:
            trees = {BMQ: REPOSITORY, OLD: tree}
            for number in range(self.plan.pairs):
                pair: dict[str, Any] = {"order": list(trees)[:: 1 if number % 2 == 0 else -1]}
                found.append(pair)
                for name in pair["order"]:
                    say(f"  pair {number + 1} of {self.plan.pairs}: {name}")
                    with self.findings.attempt([PLAIN], f"pair {number + 1}: {name}"):
                        server = ServerOfTree(DATA / "plain" / name, trees[name])
                        put_under_load(server, server_core, client, plan, pair.setdefault(name, {}))

    def failover(self) -> None:
        for name in self.plan.sides:
            self.stage.down()
            done = self.findings.rounds(FAILOVER, name, self.plan.failovers)
            with self.findings.attempt([FAILOVER], name), self.stage.combined(name) as side:
                failover.measure(side, self.plan.failovers, self.client, done)

    def moves(self) -> None:
        for name in self.plan.sides:
            self.stage.down()
            done = self.findings.rounds(MOVES, name, self.plan.moves)
            with self.findings.attempt([MOVES], name), self.stage.combined(name) as side:
                moves.measure(side, self.plan.moves, self.client, done)

    def kills(self) -> None:
        """bmq alone."""
        done = self.findings.rounds(KILLS, BMQ, 1)
        self.stage.down()
        with self.findings.attempt([KILLS], BMQ), self.stage.combined(BMQ) as side:
            done(kills.measure(side, self.plan, self.client))


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    prepare_process()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    stage = Stage(DATA)

    def clean() -> None:
        kill_everything()
        try:
            stage.down()
        except Exception as error:
            say(f"FAILED to clean up: {error}")

    try:
        measuring = Measuring(stage, plan, findings)
        runs: Mapping[str, Callable[[], Any]] = {
            CONSUME: lambda: measuring.consume(CONSUME, measuring.one),
            ACKS: measuring.acks,
            LOCKS: measuring.locks,
            IDLE: measuring.idle,
            PLAIN: measuring.plain,
            THREE: lambda: measuring.consume(THREE, measuring.three),
            FAILOVER: measuring.failover,
            MOVES: measuring.moves,
            KILLS: measuring.kills,
        }
        return measured_parts(plan, findings, runs, limit_s=lambda _: plan.limit_s, clean=clean)
    finally:
        clean()
        shutil.rmtree(DATA, ignore_errors=True)


BENCH: Final = Bench(
    name="queues",
    doc=__doc__,
    parts=PARTS,
    names=criteria.PART_OF,
    plan_of=plan_of,
    measure=measure,
    evaluate=criteria.judge,
    definitions={},
    settings=tuning.SETTINGS,
    versions=cluster_versions,
    data=DATA,
)

if __name__ == "__main__":
    main(BENCH)
