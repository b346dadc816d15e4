"""Share groups of one bmq node beside those of one Apache Kafka node, and of three nodes on HDFS beside three brokers; delayed
records beside plain ones, views beside their base, half messages beside transactions, and lanes that come and go.

Each pair is every load on both sides, in changing order; the criterion is the median of the pairs' ratios. Writes
bench/results/queues.json (machine, versions, every sample and the criteria) and prints a table. Exit code 0 says that it
ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from secrets import token_hex
from typing import Any, Final

from bench.cluster.run import cluster_versions
from bench.cluster.sides import ALONE, Side
from bench.cluster.stage import Stage
from bench.core.__main__ import cores
from bench.core.client import Client as FrameClient
from bench.criteria import BMQ
from bench.findings import Findings, say
from bench.groups.clients import Transactor
from bench.groups.target import Target, three_nodes
from bench.hdfs.commands import prepare_process
from bench.loads.client import Client
from bench.measured_parts import measured_parts
from bench.queues import criteria, failover, idle, kills, locks, moves, plain, tuning
from bench.queues import plan as plan_module
from bench.queues.client import Members
from bench.queues.criteria import ACKS, CONSUME, FAILOVER, IDLE, KILLS, LOCKS, MOVES, OLD, PLAIN, THREE
from bench.queues.half import checks, commits
from bench.queues.half.criteria import BY_HTTP, BY_RECORD, CHECKS, HALF
from bench.queues.lanes import flips
from bench.queues.lanes.criteria import LANES
from bench.queues.loads import run_acks, run_consumers
from bench.queues.plan import Plan
from bench.queues.target import one_node
from bench.queues.timers import due, inserts, pending
from bench.queues.timers import kills as timer_kills
from bench.queues.timers.criteria import BEFORE_DELAY, ERROR, INSERT, KILLED, OFF, PENDING, THUNDER
from bench.queues.views import reads, tail
from bench.queues.views.criteria import READS, TAIL
from bench.runner import bench_of, main
from testing.processes import REPOSITORY, kill_everything
from testing.revisions import checked_out

DATA: Final = REPOSITORY / ".cache" / "bench-queues"
FILES: Final = 20_000
BEFORE_SHARE_GROUPS: Final = "caa83b2177a20d2b936b8c3d030da88ee17dbc84"
"""The parent of the first commit about share groups."""
BEFORE_DELAYED_RECORDS: Final = "e2f64dd8199dee156ed933769fa4573d3d974474"
"""The parent of the first commit about delayed records."""


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
        wanted: int,
        opened: Callable[[str], AbstractContextManager[Target]],
        run: Callable[[Target, dict[str, Any]], None],
    ) -> None:
        """Both sides in turn; who comes first changes."""
        found = self.findings.pairs(part, wanted)
        for number in range(wanted):
            pair: dict[str, Any] = {"order": list(self.plan.sides[:: 1 if number % 2 == 0 else -1])}
            found.append(pair)
            for name in pair["order"]:
                say(f"  pair {number + 1} of {wanted}: {name}")
                with self.findings.attempt([part], f"pair {number + 1}: {name}"), opened(name) as target:
                    run(target, pair.setdefault(name, {}))

    def consume(self) -> None:
        self.pairs(
            CONSUME,
            self.plan.consume_pairs,
            self.one,
            lambda target, raw: run_consumers(target, self.client, self.plan, raw),
        )

    def acks(self) -> None:
        self.pairs(ACKS, self.plan.pairs, self.one, self._acks)

    def consume_three(self) -> None:
        """Also the members that fetch and accept one record: clusters take long to start."""

        def run(target: Target, raw: dict[str, Any]) -> None:
            run_consumers(target, self.client, self.plan, raw)
            with self.findings.attempt([f"{THREE}/{ACKS}"], target.name):
                self._acks(target, raw.setdefault(ACKS, {}))

        self.pairs(THREE, self.plan.three_pairs, self.three, run)

    def _acks(self, target: Target, raw: dict[str, Any]) -> None:
        run_acks(target, self.client, self.members, self.plan, raw)

    def locks(self) -> None:
        """bmq alone."""
        done = self.findings.rounds(LOCKS, BMQ, self.plan.lock_rounds)
        for number in range(self.plan.lock_rounds):
            with self.findings.attempt([LOCKS], f"round {number + 1}"):
                done(locks.memory())

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
        self._beside_before(PLAIN, OLD, BEFORE_SHARE_GROUPS)

    def delay_off(self) -> None:
        self._beside_before(OFF, BEFORE_DELAY, BEFORE_DELAYED_RECORDS)

    def _beside_before(self, part: str, name: str, revision: str) -> None:
        """bmq beside itself before there was something, both on one processor, under loads of `bench.core`."""
        self.stage.down()
        server_core, client_core = cores()
        client = FrameClient(DATA / "core", client_core)
        found = self.findings.pairs(part, self.plan.plain_pairs)
        with self.findings.attempt([part], BMQ), checked_out(revision) as tree:
            plain.measure({BMQ: REPOSITORY, name: tree}, DATA / part, client, server_core, self.plan, found)

    @contextmanager
    def alone(self) -> Iterator[Side]:
        """One node with all roles, on HDFS."""
        self.stage.down()
        with self.stage.bmq(ALONE) as side:
            side.wait_whole()
            yield side

    def timer_inserts(self) -> None:
        found = self.findings.pairs(INSERT, self.plan.insert_pairs)
        with self.findings.attempt([INSERT], BMQ), self.alone() as side:
            for number in range(self.plan.insert_pairs):
                say(f"  pair {number + 1} of {self.plan.insert_pairs}")
                found.append({})
                inserts.measure(side, self.client, self.plan.insert_s, number, found[-1])

    def timer_error(self) -> None:
        done = self.findings.rounds(ERROR, BMQ, self.plan.error_rounds)
        for number in range(self.plan.error_rounds):
            with self.findings.attempt([ERROR], f"round {number + 1}"), self.alone() as side:
                done(due.error(side, self.plan.error_rate, self.plan.error_s))

    def thunder(self) -> None:
        plan = self.plan
        done = self.findings.rounds(THUNDER, BMQ, plan.thunder_rounds)
        for number in range(plan.thunder_rounds):
            with self.findings.attempt([THUNDER], f"round {number + 1}"), self.alone() as side:
                calm = plan.thunder_other_rate, plan.thunder_calm_s
                done(due.thunder(side, self.client, plan.thunder_records, *calm))

    def timer_kills(self) -> None:
        done = self.findings.rounds(KILLED, BMQ, 1)
        self.stage.down()
        with self.findings.attempt([KILLED], BMQ), self.stage.combined(BMQ) as side:
            done(timer_kills.measure(side, self.plan.timer_kills))

    def pending(self) -> None:
        """On the embedded store."""
        plan = self.plan
        done = self.findings.rounds(PENDING, BMQ, plan.pending_rounds)
        self.stage.down()
        for number in range(plan.pending_rounds):
            with self.findings.attempt([PENDING], f"round {number + 1}"):
                limit_s = plan.limits_s[PENDING] / plan.pending_rounds
                done(pending.measure(DATA / "pending", plan.pending_records, plan.pending_bytes, limit_s))

    def view_reads(self) -> None:
        plan = self.plan
        found = self.findings.pairs(READS, plan.view_pairs)
        with self.findings.attempt([READS], BMQ), self.one(BMQ) as target:
            records = reads.fill(target, plan.view_records)
            for number in range(plan.view_pairs):
                say(f"  pair {number + 1} of {plan.view_pairs}")
                found.append({})
                reads.measure(target, records, number, found[-1])

    def view_tail(self) -> None:
        done = self.findings.rounds(TAIL, BMQ, self.plan.view_rounds)
        with self.findings.attempt([TAIL], BMQ), self.one(BMQ) as target:
            for number in range(self.plan.view_rounds):
                done(tail.measure(target, self.plan.view_tail_s, number))

    def half(self) -> None:
        plan, client = self.plan, Transactor(DATA / "half")

        def run(target: Target, raw: dict[str, Any]) -> None:
            commits.measure(target, client, plan.warming_s, plan.warm_ups_max, plan.warm_s, plan.seconds, raw)

        self.pairs(HALF, plan.half_pairs, self.one, run)

    def half_checks(self) -> None:
        """By records, and by HTTP."""
        done = self.findings.rounds(CHECKS, BMQ, 1)
        secret = DATA / "secret"
        secret.write_text(token_hex(32))
        service = checks.Service(secret.read_bytes())
        self.stage.down()
        with self.findings.attempt([CHECKS], BMQ), checks.served(service) as port:
            environment = {
                "BMQ_HALF_CHECKS__HOSTS": json.dumps([f"127.0.0.1:{port}"]),
                "BMQ_HALF_CHECKS__SECRET_FILE": str(secret),
            }
            with self.stage.bmq(ALONE, environment=environment) as side:
                side.wait_whole()
                count = self.plan.undecided
                terms = checks.terms_for(side, count)
                by_record = checks.by_record(side, count, terms)
                done({BY_RECORD: by_record, BY_HTTP: checks.by_http(side, service, port, count, terms)})

    def lanes(self) -> None:
        done = self.findings.rounds(LANES, BMQ, 1)
        with self.findings.attempt([LANES], BMQ), self.alone() as side:
            done(flips.measure(side, self.plan.flips))

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
            CONSUME: measuring.consume,
            ACKS: measuring.acks,
            LOCKS: measuring.locks,
            IDLE: measuring.idle,
            PLAIN: measuring.plain,
            THREE: measuring.consume_three,
            INSERT: measuring.timer_inserts,
            ERROR: measuring.timer_error,
            THUNDER: measuring.thunder,
            KILLED: measuring.timer_kills,
            PENDING: measuring.pending,
            OFF: measuring.delay_off,
            READS: measuring.view_reads,
            TAIL: measuring.view_tail,
            HALF: measuring.half,
            CHECKS: measuring.half_checks,
            LANES: measuring.lanes,
            FAILOVER: measuring.failover,
            MOVES: measuring.moves,
            KILLS: measuring.kills,
        }
        return measured_parts(plan, findings, runs, limit_s=plan.limits_s.__getitem__, clean=clean)
    finally:
        clean()
        shutil.rmtree(DATA, ignore_errors=True)


BENCH: Final = bench_of("queues", __doc__, (plan_module, criteria, tuning), measure, cluster_versions, DATA)

if __name__ == "__main__":
    main(BENCH)
