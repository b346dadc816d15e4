"""One campaign: a source that grows, four copiers of it, what is done to them and to the nodes, and what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from testing.cluster import ENVIRONMENT, BmqCluster
from testing.processes import ProcessFailed
from tests.soak.cluster.logs import log_events, mistakes
from tests.soak.etl.comparison import Comparison, compare
from tests.soak.etl.copier import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from tests.soak.etl.crew import Copier, Work, hire, work_of
from tests.soak.etl.faults import Performer
from tests.soak.etl.plan import CopierKill, Plan
from tests.soak.journal import Journal
from tests.support.paced_load import PacedProducer
from tests.support.transactional_load import committed_values

PARTITIONS: Final = 6
RECORDS_S: Final = 120
REPLICATION_FACTOR: Final = 3
LOOK_INTERVAL_S: Final = 0.2
FAULT_TIMEOUT_S: Final = 120.0
CATCH_UP_WAIT_S: Final = 150.0
CATCH_UP_INTERVAL_S: Final = 1.0
# Of members by KIP-848 the nodes say how long a silent one is kept: as long as the classic ones ask for, and not 45 s, in
# which a killed copier would hold its partitions.
SHORT_SESSIONS: Final = {
    "BMQ_KAFKA": json.dumps(
        {
            **json.loads(ENVIRONMENT["BMQ_KAFKA"]),
            "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
            "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
        }
    )
}


@dataclass(slots=True)
class EtlReport:
    """`violations`: sentences; with none of them the campaign has passed."""

    seed: int
    comparison: Comparison | None = None
    work: Work = field(default_factory=Work)
    copier_kills: int = 0
    done: Counter[str] = field(default_factory=Counter)
    caught_up_s: float = 0.0
    order_failures: list[str] = field(default_factory=list)
    log_events: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        return not self.violations

    def as_json(self) -> dict[str, Any]:
        found = self.comparison
        return {
            "seed": self.seed,
            "passed": self.has_passed,
            "etl_lost_or_doubled": None if found is None else found.lost_or_doubled,
            "source_records": None if found is None else found.source_count,
            "copier_kills": self.copier_kills,
            "done": dict(self.done),
            "copiers": dict(self.work.words),
            "refused": dict(self.work.refused),
            "longest_transaction_s": self.work.longest_s,
            "longest_gap_s": round(self.work.gap_s, 2),
            "caught_up_s": round(self.caught_up_s, 1),
            "order_failures": self.order_failures,
            "log_events": dict(self.log_events),
            "violations": self.violations,
        }

    def text(self) -> str:
        found = self.comparison
        lines = [f"etl with seed {self.seed}: {'passed' if self.has_passed else 'FAILED'}"]
        if found is not None:
            lines.append(f"  etl_lost_or_doubled {found.lost_or_doubled} of {found.source_count} records")
        longest = ", ".join(f"{client} {seconds:.1f} s" for client, seconds in sorted(self.work.longest_s.items()))
        lines += [
            f"  copiers: {self.copier_kills} kills; {_listed(self.work.words)}",
            f"  longest transactions: {longest}; longest time in which nobody committed: {self.work.gap_s:.1f} s; "
            f"all was copied {self.caught_up_s:.1f} s after the last fault",
            f"  nodes: {_listed(self.done)}",
            f"  logged by the nodes: {_listed(self.log_events) or 'nothing of note'}",
            *(f"  aborted for an error {count} times: {what}" for what, count in self.work.refused.most_common(12)),
            *(f"  order not carried out: {failure}" for failure in self.order_failures),
            *(f"  VIOLATION: {violation}" for violation in self.violations),
        ]
        return "\n".join(lines)


class Campaign:
    """On a cluster that runs, from the main thread. `protocol`: of PROTOCOLS. `say(line)`: what is done, as it is done."""

    def __init__(
        self,
        cluster: BmqCluster,
        plan: Plan,
        directory: Path,
        protocol: str = "classic",
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.report = EtlReport(plan.seed)
        self._cluster = cluster
        self._plan = plan
        self._directory = directory
        self._say = say
        self._journal = Journal(directory / "campaign.log")
        self._topics = (f"etl-{plan.seed}-source", f"etl-{plan.seed}-target")
        self._group = f"etl-{plan.seed}"
        self._copiers = list(hire(cluster.bootstrap, self._topics, self._group, protocol, directory))
        self._performer = Performer(
            cluster, self._topics, self._group, [copier.transactional_id for copier in self._copiers], self._note
        )
        # One that was killed a moment ago comes back first.
        self._killing = [asyncio.Lock() for _ in self._copiers]
        self._began_s = 0.0

    async def run(self) -> EtlReport:
        """Never raises: what goes wrong is a violation."""
        try:
            await self._run()
        except Exception as error:
            self._violated(f"the campaign could not go on: {type(error).__name__}: {_first_line(error)}")
        finally:
            for copier in self._copiers:
                if copier.process.is_running:
                    copier.kill()
            self._journal.close()
        return self.report

    async def _run(self) -> None:
        report = self.report
        await asyncio.to_thread(self._create_topics)
        source = PacedProducer(self._cluster.bootstrap, self._topics[0], PARTITIONS, RECORDS_S)
        self._began_s = time.monotonic()
        rows = [asyncio.create_task(row) for row in (self._kill_copiers(), self._hurt_nodes(), self._move_partitions())]
        watch = asyncio.create_task(self._watch())
        try:
            for copier in self._copiers:
                copier.start()
            for row in asyncio.as_completed(rows):
                await row
            await self._performer.make_good()
            await asyncio.sleep(max(0.0, self._plan.duration_s - self._now_s()))
        finally:
            for row in rows:
                row.cancel()
            await asyncio.to_thread(source.finish)
        await self._catch_up()
        watch.cancel()
        for copier in self._copiers:
            await self._stop(copier)
        report.work = work_of(self._copiers)
        report.copier_kills = sum(copier.kills for copier in self._copiers)
        report.done = self._performer.done
        report.order_failures = self._performer.orders.failures
        report.violations += [f"a copier had to give up: {line}" for line in report.work.fatal]
        if source.failed:
            self._violated(f"{len(source.failed)} records were not taken from their producer: {source.failed[:3]}")
        await asyncio.to_thread(self._compare, source)
        report.log_events = log_events(self._cluster.nodes.values())
        report.violations += mistakes(self._cluster.nodes.values())

    # -- What is done ------------------------------------------------------------------------------------------------

    async def _kill_copiers(self) -> None:
        back: list[asyncio.Task[None]] = []
        for kill in self._plan.copier_kills:
            await asyncio.sleep(max(0.0, kill.at_s - self._now_s()))
            back.append(asyncio.create_task(self._kill_copier(kill)))
        if back:
            await asyncio.gather(*back)

    async def _kill_copier(self, kill: CopierKill) -> None:
        copier = self._copiers[kill.copier]
        async with self._killing[kill.copier]:
            self._note(f"kill of {copier.name}")
            copier.kill()
            await asyncio.sleep(kill.back_s)
            copier.start()

    async def _hurt_nodes(self) -> None:
        for fault in self._plan.faults:
            await asyncio.sleep(fault.after_s)
            if self._now_s() >= self._plan.hurt_until_s:
                return
            try:
                async with asyncio.timeout(fault.lasts_s + FAULT_TIMEOUT_S):
                    await self._performer.hurt(fault)
            except (ProcessFailed, AssertionError, TimeoutError) as error:
                self._violated(f"{fault.kind} was not made good: {type(error).__name__}: {_first_line(error)}")
                await self._performer.make_good()

    async def _move_partitions(self) -> None:
        for move in self._plan.moves:
            await asyncio.sleep(move.after_s)
            if self._now_s() >= self._plan.hurt_until_s:
                return
            await self._performer.move(move)

    # -- Watching ----------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Copiers that gave up are started again; nodes do not end by themselves."""
        while True:
            for copier in self._copiers:
                if copier.is_expected and not copier.process.is_running:
                    self._note(f"{copier.name} ended by itself with {copier.process.exit_code}")
                    copier.start()
            for node in self._cluster.nodes.values():
                try:
                    node.check_alive()
                except ProcessFailed as error:
                    self._violated(_first_line(error))
                    await self._performer.make_good()
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def _catch_up(self) -> None:
        began_s = time.monotonic()
        left = ""
        while time.monotonic() - began_s < CATCH_UP_WAIT_S:
            left = await asyncio.to_thread(self._left)
            if not left:
                self.report.caught_up_s = time.monotonic() - began_s
                return
            await asyncio.sleep(CATCH_UP_INTERVAL_S)
        self._violated(f"not everything was copied {CATCH_UP_WAIT_S:g} s after the last fault: {left}")

    def _left(self) -> str:
        """What the group has not committed yet; empty when it has committed all."""
        where = [TopicPartition(self._topics[0], partition) for partition in range(PARTITIONS)]
        config = {"bootstrap.servers": self._cluster.bootstrap, "group.id": self._group, "log_level": 0}
        consumer = Consumer(config)
        try:
            committed = {each.partition: each.offset for each in consumer.committed(where, timeout=20)}
            ends = {each.partition: consumer.get_watermark_offsets(each, timeout=20)[1] for each in where}
        except KafkaException as error:
            return str(error)
        finally:
            consumer.close()
        behind = {
            partition: f"{committed[partition]} of {end}"
            for partition, end in ends.items()
            if committed[partition] != end
        }
        return str(behind) if behind else ""

    async def _stop(self, copier: Copier) -> None:
        try:
            code = await asyncio.to_thread(copier.stop)
        except ProcessFailed as error:
            self._violated(f"{copier.name} did not stop: {_first_line(error)}")
            return
        self._note(f"{copier.name} ended with {code}")

    # -- The result --------------------------------------------------------------------------------------------------

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        brokers = len(self._cluster.brokers)
        topics = [NewTopic(name, PARTITIONS, min(REPLICATION_FACTOR, brokers)) for name in self._topics]
        for made in admin.create_topics(topics).values():
            made.result(timeout=30)
        self._cluster.wait_settled()

    def _compare(self, source: PacedProducer) -> None:
        there, copied = (committed_values(self._cluster.bootstrap, topic, PARTITIONS) for topic in self._topics)
        found = self.report.comparison = compare(there, copied)
        acknowledged = {str(number) for number in source.acknowledged.values()}
        gone = acknowledged - {value for values in there.values() for value in values}
        if gone:
            self._violated(f"{len(gone)} acknowledged records are not in the source: {sorted(gone)[:5]}")
        if found.lost_or_doubled:
            self._violated(
                f"{len(found.lost)} records were lost ({list(found.lost[:5])}…), {len(found.doubled)} are there too often "
                f"({list(found.doubled[:5])}…)"
            )
        if found.disordered:
            self._violated(f"the order of records changed in partitions {list(found.disordered)}")

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _note(self, what: str) -> None:
        self._journal.note("campaign", f"{time.time():.3f} {what}")
        self._say(f"  {self._now_s():7.1f} s {what}")

    def _violated(self, what: str) -> None:
        self.report.violations.append(what)
        self._note(f"VIOLATION: {what}")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
