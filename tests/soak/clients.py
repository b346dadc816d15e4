"""All clients of a soak together, and what their histories say when compared with each other and with the log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from tests.soak.group import GROUP, CommittedWatch, GroupProgress, Member
from tests.soak.history import Sightings, compare, differences
from tests.soak.journal import Journal
from tests.soak.load import READER_NAME, Client, Reader, SteadyProducer, group_of, run_all
from tests.soak.logins import ADMINISTRATOR, ANYBODY, PRODUCER, READER, Logins
from tests.soak.stalls import Stall

READ_TIMEOUT_S: Final = 120.0
LIVE_READERS_TIMEOUT_S: Final = 120.0
CREATE_TIMEOUT_S: Final = 30.0
FINAL_READER: Final = "final reader"
GROUPS: Final = (GROUP, group_of(READER_NAME), group_of(FINAL_READER))


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent where. `records_per_s`: of each producer.

    `producers`, `members`: the settings of each one, on top of what all have.
    """

    topic: str
    partitions: int
    records_per_s: int
    producers: Sequence[Mapping[str, Any]]
    members: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Clients:
    """`sightings`: by partition, shared by everybody who reads."""

    producers: tuple[SteadyProducer, ...]
    reader: Reader
    members: tuple[Member, ...]
    committed: CommittedWatch
    group: GroupProgress
    sightings: tuple[Sightings, ...]
    load: Load
    journal: Journal

    @classmethod
    def make(cls, bootstrap: str, load: Load, journal: Journal, logins: Logins = ANYBODY) -> Clients:
        topic, partitions = load.topic, load.partitions
        group = GroupProgress(partitions)
        sightings = tuple(Sightings(partition) for partition in range(partitions))
        reading = logins.settings(READER)
        return cls(
            tuple(
                SteadyProducer(
                    bootstrap, topic, number, partitions, load.records_per_s, {**logins.settings(PRODUCER), **settings}
                )
                for number, settings in enumerate(load.producers)
            ),
            Reader(bootstrap, topic, sightings, settings=reading),
            tuple(
                Member(bootstrap, topic, number, group, sightings, journal, {**reading, **settings})
                for number, settings in enumerate(load.members)
            ),
            CommittedWatch(bootstrap, topic, group, journal, reading),
            group,
            sightings,
            load,
            journal,
        )

    @property
    def readers(self) -> tuple[Client, ...]:
        return (self.reader, *self.members, self.committed)

    @property
    def all(self) -> tuple[Client, ...]:
        return (*self.producers, *self.readers)

    @property
    def sent_count(self) -> int:
        return sum(producer.sent_count for producer in self.producers)

    @property
    def acknowledged_count(self) -> int:
        return sum(producer.acknowledged.count for producer in self.producers)

    def acknowledged_end(self, partition: int) -> int:
        """The offset behind the last record of a partition that anybody was told is kept."""
        return max(producer.acknowledged.end(partition) for producer in self.producers)

    @property
    def produce_stalls(self) -> list[Stall]:
        return [stall for producer in self.producers for stall in producer.watch.stalls]

    def start(self) -> None:
        for client in self.all:
            client.start()

    def wait_until_read(self, ends: Mapping[int, int]) -> None:
        """Readers that were there all the time come to the end soon; whether they did is judged by others."""
        deadline_s = time.monotonic() + LIVE_READERS_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if all(
                len(self.reader.readings[partition]) >= end and self.group.next_offsets[partition] >= end
                for partition, end in ends.items()
            ):
                return
            time.sleep(0.1)

    def close(self) -> None:
        for client in self.all:
            client.finish()
        for client in self.all:
            client.close()
        self.journal.close()


@dataclass(frozen=True, slots=True)
class Judgement:
    """`ends`: of the log, by partition, when the producers had ended; `read_count`: records up to there."""

    violations: list[str]
    ends: Mapping[int, int]
    read_count: int


def judge(clients: Clients, bootstrap: str, logins: Logins = ANYBODY) -> Judgement:
    """End the producers, let the readers come to the end, read everything once more, and compare."""
    run_all(clients.producers, lambda client: client.finish())
    final = Reader(bootstrap, clients.load.topic, clients.sightings, FINAL_READER, settings=logins.settings(READER))
    ends = final.read_once(READ_TIMEOUT_S)
    clients.wait_until_read(ends)
    run_all(clients.readers, lambda client: client.finish())
    violations = [failure for client in (*clients.all, final) for failure in client.failures]
    for partition, reading in final.readings.items():
        for producer in clients.producers:
            violations += compare(producer.acknowledged, reading)
        live = clients.reader.readings[partition]
        violations += [*live.problems, *differences(live, reading)]
        if len(live) < ends[partition]:
            violations.append(f"the live reader stopped at {len(live)} of {ends[partition]} in {partition}")
        if clients.group.next_offsets[partition] < ends[partition]:
            got = clients.group.next_offsets[partition]
            violations.append(f"the group stopped at {got} of {ends[partition]} in partition {partition}")
    return Judgement(violations, ends, sum(len(reading) for reading in final.readings.values()))


def create_topic(
    bootstrap: str, load: Load, segment_bytes: int, replication_factor: int = 1, logins: Logins = ANYBODY
) -> None:
    """Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **logins.settings(ADMINISTRATOR)})
    topic = NewTopic(
        load.topic,
        num_partitions=load.partitions,
        replication_factor=replication_factor,
        config={"segment.bytes": str(segment_bytes)},
    )
    admin.create_topics([topic])[load.topic].result(timeout=CREATE_TIMEOUT_S)
