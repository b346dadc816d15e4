"""An intake, its doors and a cluster in memory that tests of the agent share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bmq.channels.channel import Channel, parse_channel
from bmq.channels.channel_set import ChannelSet
from bmq.databus.intake import Intake
from bmq.databus.lanes.transactions import SendFailed, TopicRefusal, TopicsRefused
from bmq.databus.rules import LaneKey
from bmq.databus.socket_frame import Answer, parse_answer
from bmq.databus.spool.frame import SpooledRecord
from bmq.databus.spool.spool import Spool, SpoolBudget
from tests.unit.databus.spools import NOW_MS, everything


def channel(name: str = "c", **more: Any) -> Channel:
    return parse_channel({"name": name, "topic": "t", **more})


def channels(*given: Channel, version: int = 1) -> ChannelSet:
    return ChannelSet(version, {one.name: one for one in given})


class SpoolLane:
    """A lane that produces nothing."""

    def __init__(self, spool: Spool, first_number: int) -> None:
        self.spool = spool
        self.next_number = first_number
        self.busy_numbers = (0, 0)
        self.notified = 0

    def busy(self) -> tuple[int, int]:
        return self.busy_numbers

    def notify(self) -> None:
        self.notified += 1


class Agent:
    """An intake over spools on disk. `rolls` are what the dice give, `now_s` is its clock."""

    def __init__(
        self,
        directory: Path,
        *given: Channel,
        bytes_max: int = 1 << 30,
        is_synced: bool = False,
        segment_bytes: int = 4_096,
    ) -> None:
        self.directory = directory
        self.lanes: dict[LaneKey, SpoolLane] = {}
        self.budget = SpoolBudget(bytes_max)
        self.now_s = 100.0
        self.rolls: list[float] = []
        self._segment_bytes = segment_bytes
        self.intake = Intake(
            self.lane_of,
            self.budget,
            now_ms=lambda: NOW_MS,
            now_s=lambda: self.now_s,
            dice=lambda: self.rolls.pop(0),
            is_synced=is_synced,
        )
        self.intake.use(channels(*given))

    def lane_of(self, key: LaneKey) -> SpoolLane:
        lane = self.lanes.get(key)
        if lane is None:
            spool = Spool(self.directory / key.name, self.budget, segment_bytes=self._segment_bytes)
            lane = self.lanes[key] = SpoolLane(spool, 1_000)
        return lane

    def records(self) -> list[SpooledRecord]:
        """Of all lanes."""
        return [record for lane in self.lanes.values() for record in everything(lane.spool)]

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records()]


class Asking:
    """A sink that keeps its answers."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.flushes = 0

    def answer(self, content: bytes) -> None:
        self.answers.append(parse_answer(content)[0])

    def flush_answers(self) -> None:
        self.flushes += 1

    @property
    def codes(self) -> list[str]:
        return [answer.code.name for answer in self.answers]


async def turn() -> None:
    """One turn of the loop."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


class Cluster:
    """Topics in memory, changed by whole transactions. `faults`: what happens to the next commits.

    `before`: the commit fails and nothing is done; `after`: it is done, and the answer is lost.
    """

    def __init__(self) -> None:
        self.landed: list[SpooledRecord] = []
        self.positions: dict[str, int] = {}
        self.faults: list[str] = []
        self.is_away = False
        self.refused: dict[str, TopicRefusal] = {}
        self.refused_values: set[bytes] = set()
        self.commits = 0

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.landed]


class FakeTransactions:
    """Of one id at the cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self._is_open = False
        self._added: list[SpooledRecord] = []

    def start(self, batch_bytes: int) -> int:
        if self._cluster.is_away:
            raise SendFailed("the cluster is away")
        self._is_open = True
        return self._cluster.positions.get(self._name, 0)

    def add(self, records: Sequence[SpooledRecord]) -> None:
        assert self._is_open
        self._added += records

    def commit(self, position: int) -> None:
        cluster = self._cluster
        records, self._added = self._added, []
        assert self._is_open
        fault = cluster.faults.pop(0) if cluster.faults else ""
        if fault == "before" or cluster.is_away:
            raise SendFailed("the connection was lost")
        refused = {record.topic: cluster.refused[record.topic] for record in records if record.topic in cluster.refused}
        for record in records:
            if record.value in cluster.refused_values:
                refused.setdefault(record.topic, TopicRefusal("a record is wrong", is_of_a_record=True))
        if refused:
            raise TopicsRefused(refused)
        assert position > cluster.positions.get(self._name, 0)
        cluster.landed += records
        cluster.positions[self._name] = position
        cluster.commits += 1
        if fault == "after":
            raise SendFailed("the answer was lost")

    def close(self) -> None:
        self._is_open = False
        self._added = []

    def end(self) -> None:
        self._is_open = False
