"""The share groups of a soak together: a producer, a reader, members of all groups, dead letters, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from tests.soak.clients import READ_TIMEOUT_S
from tests.soak.history import Sightings, compare
from tests.soak.load import PATIENT, Client, Reader, SteadyProducer, group_of, run_all
from tests.soak.logins import ANYBODY, PRODUCER, READER, Logins
from tests.soak.queues.crew import CrewMember
from tests.soak.queues.groups import Undone, left_to_do
from tests.soak.queues.ledger import QueueLedger, Span
from tests.soak.queues.letters import NAME, DeadLetterReader
from tests.soak.queues.plan import GROUP_PLANS, LETTERS, LOCK_S, PARTITIONS, RECORDS_PER_S, TOPIC
from tests.soak.queues.progress import Progress

FINAL_READER: Final = "final queue reader"
TOPICS: Final = (TOPIC, LETTERS)
GROUPS: Final = (*(plan.name for plan in GROUP_PLANS), group_of(FINAL_READER), group_of(NAME))
DRAIN_INTERVAL_S: Final = 1.0
# A group with which little happened proves little; in a short run some of it happens by chance.
NEEDED: Final = (
    "accept_known",
    "release_known",
    "reject_known",
    "ends_certain",
    "letters",
    "locks_run_out",
    "killed",
    "closed",
)
NEEDED_S_MIN: Final = 300.0


@dataclass(frozen=True, slots=True)
class QueueFindings:
    """`figures`: of each group, by its name."""

    violations: Sequence[str]
    acknowledged_count: int
    figures: Mapping[str, Mapping[str, int]]


class Queues:
    """Everybody who has to do with share groups."""

    def __init__(self, bootstrap: str, seed: int, directory: Path, logins: Logins = ANYBODY) -> None:
        directory.mkdir(parents=True)
        reading = logins.settings(READER)
        self._bootstrap = bootstrap
        self._reading = reading
        self._began_s = 0.0
        self._sightings = tuple(Sightings(partition) for partition in range(PARTITIONS))
        self._producer = SteadyProducer(
            bootstrap, TOPIC, 0, PARTITIONS, RECORDS_PER_S, {**logins.settings(PRODUCER), "client.id": "queue-producer"}
        )
        self._ledgers = {plan.name: QueueLedger(plan.name, plan.deliveries_max, LOCK_S) for plan in GROUP_PLANS}
        self._letters = DeadLetterReader(bootstrap, self._ledgers, reading)
        settings = {"bootstrap.servers": bootstrap, **PATIENT, **reading}
        self._members = {
            plan.name: tuple(
                CrewMember(plan, number, seed, settings, self._ledgers[plan.name], self._sightings, directory)
                for number in range(plan.members)
            )
            for plan in GROUP_PLANS
        }

    @property
    def _all_members(self) -> tuple[CrewMember, ...]:
        return tuple(member for members in self._members.values() for member in members)

    @property
    def _all(self) -> tuple[Client, ...]:
        return (self._producer, *self._all_members, self._letters)

    def start(self) -> None:
        self._began_s = time.monotonic()
        for client in self._all:
            client.start()

    def judge(self, get: Callable[[str], tuple[int, str]], outages: Sequence[Span]) -> QueueFindings:
        """End the producer, let the groups come to the end, and compare. `get`: of the server's REST address.

        `outages`: when the server was away. Raises KafkaException.
        """
        ran_s = time.monotonic() - self._began_s
        self._producer.finish()
        final = Reader(self._bootstrap, TOPIC, self._sightings, FINAL_READER, settings=self._reading)
        ends = final.read_once(READ_TIMEOUT_S)
        violations = [
            problem for reading in final.readings.values() for problem in compare(self._producer.acknowledged, reading)
        ]
        violations += self._drain(get, ends)
        run_all([*self._all_members, self._letters], lambda client: client.finish())
        for name, ledger in self._ledgers.items():
            violations += ledger.judge(ends, outages)
            if ran_s >= NEEDED_S_MIN:
                figures = self._figures(name)
                violations += [f"group {name}: nothing counts as {what}" for what in NEEDED if not figures.get(what)]
        violations += [failure for client in (*self._all, final) for failure in client.failures]
        return QueueFindings(
            violations, self._producer.acknowledged.count, {name: self._figures(name) for name in self._ledgers}
        )

    def close(self) -> None:
        run_all(self._all, lambda client: client.finish())
        for client in self._all:
            client.close()

    def _drain(self, get: Callable[[str], tuple[int, str]], ends: Mapping[int, int]) -> list[str]:
        """What is wrong: a group that does not come further, or not to the end."""
        began_s = time.monotonic()
        left = {name: Progress(began_s) for name in self._ledgers}
        problems: list[str] = []
        while left:
            for name, progress in tuple(left.items()):
                undone, now_s = self._undrained(get, name, ends), time.monotonic()
                if undone.what and (problem := progress.problem(undone.records, now_s)) is None:
                    continue
                if undone.what:
                    problems.append(f"group {name} {problem}: {undone.what}")
                self._ledgers[name].counts["drain_s"] = round(now_s - began_s)
                del left[name]
            time.sleep(DRAIN_INTERVAL_S)
        return problems

    def _undrained(self, get: Callable[[str], tuple[int, str]], name: str, ends: Mapping[int, int]) -> Undone:
        """What a group has not done yet."""
        undone = left_to_do(get, name, ends)
        if undone.what:
            return undone
        try:
            if not self._letters.is_at_end():
                return Undone(0, "dead letters are not read")
        except KafkaException as error:
            return Undone(0, str(error))
        return Undone(0, self._ledgers[name].unsettled(ends) or "")

    def _figures(self, name: str) -> dict[str, int]:
        ends: dict[str, int] = {}
        for member in self._members[name]:
            for how, count in member.ends.items():
                ends[how] = ends.get(how, 0) + count
        return dict(sorted({**self._ledgers[name].counts, **ends}.items()))
