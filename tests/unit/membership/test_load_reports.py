"""Reports of owned partitions: what moved since the last confirmed one, nothing lost when a report is."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from bmq.broker.partition_events import Limits
from bmq.broker.partition_load import PartitionLoad
from bmq.broker.partition_states import Fenced, Offline
from bmq.controller.partition_reports import FENCED, OFFLINE
from bmq.log.partition_log import TopicPartition
from bmq.membership.load_reports import LoadReports

pytestmark = pytest.mark.unit


@dataclass(eq=False)
class FakeRuntime:
    topic_partition: TopicPartition
    leader_epoch: int = 4
    high_watermark: int = 0
    load: PartitionLoad = field(default_factory=PartitionLoad)
    state: object = None


class FakeManager:
    def __init__(self) -> None:
        self.runtimes = [FakeRuntime(TopicPartition(UUID(int=1), number)) for number in range(3)]

        self.ended: list[FakeRuntime] = []

    def owned(self) -> list[FakeRuntime]:
        return self.runtimes

    def unserved(self) -> list[FakeRuntime]:
        return self.ended


def test_only_what_moved_is_reported_and_lost_reports_are_added_up() -> None:
    manager = FakeManager()
    reports = LoadReports(manager)  # type: ignore[arg-type]
    assert [report.partition for report in reports.changed()] == [0, 1, 2]
    reports.confirm()
    assert reports.changed() == []
    busy = manager.runtimes[1]
    busy.high_watermark, busy.load.bytes_in, busy.load.requests = 10, 100, 2
    (lost,) = reports.changed()
    assert (lost.partition, lost.leader_epoch, lost.high_watermark, lost.bytes_in, lost.requests) == (1, 4, 10, 100, 2)
    busy.load.bytes_in, busy.load.bytes_out = 150, 7
    (again,) = reports.changed()
    assert (again.bytes_in, again.bytes_out, again.requests) == (150, 7, 2)
    reports.confirm()
    busy.load.bytes_in = 160
    (more,) = reports.changed()
    assert (more.bytes_in, more.requests) == (10, 0)


def test_partitions_that_left_are_forgotten_and_new_owners_begin_anew() -> None:
    manager = FakeManager()
    reports = LoadReports(manager)  # type: ignore[arg-type]
    reports.changed()
    reports.confirm()
    key = manager.runtimes.pop().topic_partition
    reports.changed()
    reports.confirm()
    manager.runtimes.append(FakeRuntime(key, leader_epoch=6))
    (report,) = reports.changed()
    assert (report.partition, report.leader_epoch, report.high_watermark) == (2, 6, 0)


def test_another_controller_hears_all_high_watermarks_but_no_load_twice() -> None:
    manager = FakeManager()
    busy = manager.runtimes[0]
    busy.high_watermark, busy.load.bytes_in = 10, 100
    reports = LoadReports(manager)  # type: ignore[arg-type]
    reports.changed()
    reports.confirm()
    reports.restart()
    again = reports.changed()
    assert [(report.high_watermark, report.bytes_in) for report in again] == [(10, 0), (0, 0), (0, 0)]
    reports.confirm()
    assert reports.changed() == []


def test_what_serves_nobody_is_reported_again_and_again() -> None:
    manager = FakeManager()
    manager.runtimes, keys = [], [TopicPartition(UUID(int=1), number) for number in (7, 8)]
    limits = Limits(1, 1)
    manager.ended = [FakeRuntime(keys[0], state=Offline(4, limits)), FakeRuntime(keys[1], state=Fenced(4, limits))]
    reports = LoadReports(manager)  # type: ignore[arg-type]
    for _ in range(2):
        assert [(report.partition, report.high_watermark) for report in reports.changed()] == [
            (7, OFFLINE),
            (8, FENCED),
        ]
        reports.confirm()
