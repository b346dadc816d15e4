"""One soak of a cluster: a site of its own, clients, phases of faults, and what came of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Final

from testing.namespaces import Network
from tests.soak.clients import Clients, Judgement, Load, create_topic, judge
from tests.soak.cluster.faults import Performer
from tests.soak.cluster.holders import holders_of
from tests.soak.cluster.ledger import Ledger
from tests.soak.cluster.owners import Owners
from tests.soak.cluster.plan import FIRST_S, HAZARDS, QUIET_END_S, Fault, Kind, Phase, plan
from tests.soak.cluster.report import ClusterReport
from tests.soak.cluster.roaming import RoamingReader
from tests.soak.cluster.site import DATANODES, Site, first_line
from tests.soak.journal import Journal
from tests.soak.stalls import Trouble

# One producer waits half a minute for a node that hangs; the other does not, and so sends much twice.
IMPATIENT: Final = {"socket.timeout.ms": 3_000}
IMPATIENT_PRODUCER: Final = {**IMPATIENT, "request.timeout.ms": 3_000}
LOAD: Final = Load("soak", partitions=6, records_per_s=150, producers=({}, IMPATIENT_PRODUCER), members=({}, IMPATIENT))
REPLICATION_FACTOR: Final = 3
SEGMENT_BYTES: Final = 1024 * 1024  # a roll of each partition every twenty seconds
WATCH_INTERVAL_S: Final = 0.5
HISTORY_INTERVAL_S: Final = 2.0
FAULT_TIMEOUT_S: Final = 150.0  # on top of what it lasts; two orders in a row may be waited for
READ_TIMEOUT_S: Final = 60.0
# A run in which little happened proves little. Shares are of what would be with nothing wrong.
RECORDS_SHARE_MIN: Final = 0.5
COMMITS_PER_S_MIN: Final = 0.5
COMMITTED_ANSWERS_PER_S_MIN: Final = 1.0
PASSES_PER_MINUTE_MIN: Final = 1.0
OWNER_CHANGES_PER_MINUTE_MIN: Final = 10.0


class ClusterSoak:
    """Everything that runs. Violations go into `report` as they are found."""

    def __init__(
        self, directory: Path, network: Network, seed: int, minutes: float, hazards: frozenset[Kind] = frozenset()
    ) -> None:
        self.report = ClusterReport(seed, minutes)
        self._duration_s = minutes * 60
        self._random = Random(seed)
        self._site = Site(directory, network, seed, hazards)
        self._kinds = (set(Kind) - HAZARDS) | hazards
        self._plan = plan(seed, self._duration_s, len(self._site.nodes), DATANODES, hazards)
        self._performer = Performer(self._site, LOAD.topic, LOAD.partitions)
        self._owners = Owners(LOAD.topic)
        self._ledgers = tuple(Ledger(partition) for partition in range(LOAD.partitions))
        self._topic_id = ""

    async def run(self) -> ClusterReport:
        try:
            await self._site.start()
            await self._on_site()
        except Exception as error:
            self.report.violations.append(f"the soak could not go on: {type(error).__name__}: {first_line(error)}")
        finally:
            await self._site.close()
        return self.report

    async def _on_site(self) -> None:
        bootstrap = self._site.cluster.bootstrap
        await asyncio.to_thread(create_topic, bootstrap, LOAD, SEGMENT_BYTES, REPLICATION_FACTOR)
        await self._site.wait_settled()
        self._topic_id = (await asyncio.to_thread(self._site.cluster.topic, LOAD.topic))["topic_id"]
        clients = Clients.make(bootstrap, LOAD, Journal(self._site.directory / "clients.log"))
        roaming = RoamingReader(
            self._site.places,
            LOAD.topic,
            self._ledgers,
            clients.sightings,
            clients.acknowledged_end,
            Random(self.report.seed),
        )
        watches = [asyncio.create_task(self._watch()), asyncio.create_task(self._follow_owners())]
        try:
            clients.start()
            roaming.start()
            self.report.began_s = time.monotonic()
            await self._phases()
            await asyncio.to_thread(self._site.wait_served, LOAD.topic, LOAD.partitions)
            await asyncio.to_thread(self._judge, clients, roaming)
            await self._judge_owners()
        except Exception as error:
            # What was found until here is worth more than a traceback.
            self.report.violations.append(f"the soak could not go on: {type(error).__name__}: {first_line(error)}")
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.wait(watches)
        self.report.violations += [
            f"a watch ended: {watch.exception()!r}" for watch in watches if not watch.cancelled()
        ]
        for end in (clients.close, roaming.finish, self._site.add_counters):
            try:
                await asyncio.to_thread(end)
            except Exception as error:
                self.report.violations.append(f"not ended in order: {type(error).__name__}: {first_line(error)}")
        await self._site.stop_all()
        self._account(clients, roaming)

    # --- faults

    async def _phases(self) -> None:
        await asyncio.sleep(FIRST_S)
        for place, phase in enumerate(self._plan.phases):
            if not self._plan.is_due(place, self._now_s(), self._duration_s):
                break
            await self._phase(phase)
        await asyncio.sleep(max(QUIET_END_S, self._duration_s - self._now_s()))

    async def _phase(self, phase: Phase) -> None:
        """All its faults, then everything made good, then quiet."""
        begun = await asyncio.gather(*(self._fault(fault) for fault in phase.faults))
        try:
            await self._site.make_good()
            await self._site.wait_settled()
        except Exception as error:
            kinds = " and ".join(fault.kind for fault in phase.faults)
            self.report.violations.append(
                f"all was not well again after {kinds} at {self._now_s():.1f} s: {first_line(error)}"
            )
        # Clients and faults go by the same clock.
        ended_s = time.monotonic()
        self.report.troubles += [Trouble(name, begin_s, ended_s) for name, begin_s in begun]
        print(f"  {self._now_s():7.1f} s all is well again", flush=True)
        await asyncio.sleep(phase.quiet_s)

    async def _fault(self, fault: Fault) -> tuple[str, float]:
        """Its name in the report, and when it began."""
        await asyncio.sleep(fault.after_s)
        controller = await asyncio.to_thread(self._performer.orders.known_controller)
        victim = self._performer.victim(fault, controller)
        name = str(fault.kind)
        if victim is not None and victim is controller:
            name += " (controller)"
        who = "" if victim is None else f" of node {victim.node_id}"
        begin_s = time.monotonic()
        print(f"  {self._now_s():7.1f} s {name}{who} for {fault.lasts_s:.1f} s", flush=True)
        try:
            async with asyncio.timeout(fault.lasts_s + FAULT_TIMEOUT_S):
                await self._performer.perform(fault, victim)
            self.report.kinds[fault.kind] += 1
        except Exception as error:
            self.report.violations.append(
                f"{name}{who} at {begin_s - self.report.began_s:.1f} s was not made good: {type(error).__name__}: {first_line(error)}"
            )
        return name, begin_s

    def _now_s(self) -> float:
        return time.monotonic() - self.report.began_s

    # --- watching

    async def _watch(self) -> None:
        """The nodes' sizes; and that they end only when they are ended."""
        while True:
            await self._site.look()
            await asyncio.sleep(WATCH_INTERVAL_S)

    async def _follow_owners(self) -> None:
        """Each node keeps the newest changes only."""
        while True:
            await asyncio.to_thread(self._add_owners)
            await asyncio.sleep(HISTORY_INTERVAL_S)

    def _add_owners(self) -> None:
        """As some node has them that answers."""
        node = self._random.choice(self._site.cluster.healthy or self._site.nodes)
        for path, add in (
            (f"/v1/topics/{LOAD.topic}", self._owners.add_topic_page),
            (f"/v1/history?topic={LOAD.topic}&limit=1000", self._owners.add_history_page),
        ):
            status, page = node.get(path)
            if status == 200:
                add(page)

    # --- what came of it

    def _judge(self, clients: Clients, roaming: RoamingReader) -> None:
        judgement = judge(clients, self._site.cluster.bootstrap)
        self.report.violations += judgement.violations
        self.report.read_count = judgement.read_count
        roaming.finish()
        self._read_through_all(roaming, judgement)
        self.report.violations += roaming.failures
        self._add_owners()

    def _read_through_all(self, roaming: RoamingReader, judgement: Judgement) -> None:
        """Every node shows the same log, to its end."""
        ends = [judgement.ends[partition] for partition in range(LOAD.partitions)]
        roaming.resume()
        for place in self._site.places:
            roaming.read_to(place, ends, READ_TIMEOUT_S)

    async def _judge_owners(self) -> None:
        self.report.violations += self._owners.problems
        for partition, ledger in enumerate(self._ledgers):
            holders = await holders_of(self._site, self._topic_id, partition)
            self.report.violations += self._owners.check(partition, ledger, holders)

    def _account(self, clients: Clients, roaming: RoamingReader) -> None:
        report, site, performer = self.report, self._site, self._performer
        report.sent_count, report.acknowledged_count = clients.sent_count, clients.acknowledged_count
        patient, impatient = clients.producers
        report.patient_stalls, report.impatient_stalls = patient.watch.stalls, impatient.watch.stalls
        report.read_stalls = clients.reader.watch.stalls
        report.group_again_count, report.group_commit_count = clients.group.again_count, clients.group.commit_count
        report.committed_answer_count = clients.committed.offsets.answer_count
        report.late_commit_count = clients.committed.offsets.late_count
        report.reading_passes, report.reading_visits = roaming.pass_count, roaming.visit_count
        report.refusals = roaming.refusals
        report.owner_changes = self._owners.change_count
        report.moved_count, report.drained_count = performer.moved_count, performer.drained_count
        report.order_failures = performer.orders.failures
        report.start_s, report.counters, report.memory = site.start_s, site.counters, site.memory
        report.log_events = site.log_events()
        if site.late_calls is not None:
            report.late_calls = site.late_calls.delivered
        report.violations += [*site.problems, *site.partitions_offline(), *site.tracebacks()]
        for node_id, memory in site.memory.items():
            problem = memory.problem()
            if problem:
                report.violations.append(f"node {node_id} {problem}")
        report.violations += self._shortfalls()

    def _shortfalls(self) -> list[str]:
        """What happened too rarely."""
        report, minutes = self.report, self._duration_s / 60
        wanted: dict[str, tuple[float, float]] = {
            "records acknowledged": (
                report.acknowledged_count,
                RECORDS_SHARE_MIN * len(LOAD.producers) * LOAD.records_per_s * self._duration_s,
            ),
            "commits of the group": (report.group_commit_count, COMMITS_PER_S_MIN * self._duration_s),
            "answers about commits": (report.committed_answer_count, COMMITTED_ANSWERS_PER_S_MIN * self._duration_s),
            "readings from offset 0": (report.reading_passes, PASSES_PER_MINUTE_MIN * minutes),
            "changes of owners": (report.owner_changes, OWNER_CHANGES_PER_MINUTE_MIN * minutes),
            "partitions moved": (report.moved_count, 1),
            "nodes drained": (report.drained_count, 1),
            "files taken over": (report.counters.get("bmq_file_takeovers", 0), 1),
            "segments rolled": (report.counters.get("bmq_segment_rolls", 0), minutes),
            **{f"faults {kind}": (report.kinds[kind], 1) for kind in self._kinds},
        }
        return [
            f"too little happened: {count:.0f} {what} of {least:.0f}"
            for what, (count, least) in wanted.items()
            if count < least
        ]
