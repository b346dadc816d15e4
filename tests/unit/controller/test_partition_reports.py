"""Floors never fall below what was reported; rates follow what is measured and fade when nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.controller.partition_reports import FENCED, OFFLINE, PartitionReports
from bmq.metadata.image import PartitionImage
from bmq.protocol.internal_messages import PartitionReport
from bmq.protocol.metadata_records import PartitionChangeRecord
from tests.unit.controller.cluster_support import ManyNodes, registered

pytestmark = pytest.mark.unit


class Reported:
    """A topic of three partitions owned by nodes 2, 3 and 2, and what is reported of it."""

    def __init__(self) -> None:
        self.cluster = ManyNodes(registered(2), registered(3))
        self.topic_id = self.cluster.topic("t", [(2,), (3,), (2,)])
        self.reports = PartitionReports()
        self.now_s = 50.0

    def partition(self, number: int) -> PartitionImage:
        return self.cluster.partitions("t")[number]

    def report(
        self, node: int, partition: int, high_watermark: int, *, epoch: int = 0, traffic: Sequence[int] = (0, 0, 0)
    ) -> None:
        bytes_in, bytes_out, requests = traffic
        report = PartitionReport(
            topic_id=self.topic_id,
            partition=partition,
            leader_epoch=epoch,
            high_watermark=high_watermark,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            requests=requests,
        )
        self.reports.take(self.cluster.image, node, 1_000, [report], self.now_s)

    def floor(self, partition: int) -> int:
        return self.reports.floor_of(self.topic_id, self.partition(partition))


@given(st.lists(st.tuples(st.sampled_from([2, 3]), st.integers(0, 3), st.integers(-3, 50), st.integers(0, 2))))
def test_the_floor_is_the_highest_report_of_the_present_owner(told: list[tuple[int, int, int, int]]) -> None:
    lab = Reported()
    expected = [0, 0, 0]
    for node, partition, high_watermark, epoch in told:
        lab.report(node, partition, high_watermark, epoch=epoch)
        if partition < 3 and epoch == 0 and lab.partition(partition).leader == node:
            # A report of an owner that serves nothing takes nothing back of what was acknowledged before it.
            expected[partition] = max(expected[partition], high_watermark)
    assert [lab.floor(number) for number in range(3)] == expected


@pytest.mark.parametrize("trouble", [OFFLINE, FENCED])
def test_trouble_takes_nothing_back_of_what_was_acknowledged(trouble: int) -> None:
    lab = Reported()
    lab.report(2, 0, 7)
    lab.report(2, 0, trouble)
    assert lab.floor(0) == 7
    assert lab.reports.is_offline(lab.topic_id, lab.partition(0)) == (trouble == OFFLINE)
    assert not lab.reports.is_served(lab.topic_id, lab.partition(0))


def test_a_floor_outlives_its_owner_and_the_controller() -> None:
    lab = Reported()
    lab.report(2, 0, 700)
    record = PartitionChangeRecord(partition_id=0, topic_id=lab.topic_id, leader=3, high_watermark_floor=lab.floor(0))
    lab.cluster.take([record])
    lab.report(2, 0, 900)  # of an owner that was replaced: what counted was known when it was
    assert lab.floor(0) == 700
    lab.report(3, 0, 650, epoch=1)
    assert lab.floor(0) == 700
    lab.report(3, 0, 800, epoch=1)
    assert lab.floor(0) == 800
    lab.reports = PartitionReports()
    assert lab.floor(0) == 700


def test_served_not_yet_served_and_offline() -> None:
    lab = Reported()

    def states() -> tuple[bool, bool]:
        partition = lab.partition(0)
        return lab.reports.is_served(lab.topic_id, partition), lab.reports.is_offline(lab.topic_id, partition)

    assert states() == (False, False)
    lab.report(2, 0, -1)
    assert states() == (False, False)
    lab.report(2, 0, 0)
    assert states() == (True, False)
    lab.report(2, 0, OFFLINE)
    assert states() == (False, True)
    lab.cluster.take([PartitionChangeRecord(partition_id=0, topic_id=lab.topic_id, leader=2)])
    assert states() == (False, False)


def test_rates_approach_what_is_measured_and_fade() -> None:
    lab = Reported()
    for _ in range(60):
        lab.now_s += 1
        lab.report(2, 0, 5, traffic=(3_000_000, 1_000_000, 200))
    rates = lab.reports.rates(lab.topic_id, 0, lab.now_s)
    assert rates.bytes_in == pytest.approx(3_000_000, rel=0.01)
    assert rates.requests == pytest.approx(200, rel=0.01)
    loads = lab.reports.loads(lab.cluster.image, lab.now_s)
    assert set(loads) == {2, 3}
    assert (loads[2].partitions, loads[3].partitions) == (2, 1)
    assert loads[2].bytes_out_s == pytest.approx(1_000_000, rel=0.01) and loads[3].bytes_out_s == 0
    assert lab.reports.rates(lab.topic_id, 0, lab.now_s + 10).bytes_in == pytest.approx(3_000_000 / 2.718, rel=0.02)
    assert lab.reports.rates(lab.topic_id, 0, lab.now_s + 300).bytes_in < 1


def test_a_partitions_load_goes_with_it() -> None:
    lab = Reported()
    lab.report(2, 0, 5, traffic=(1_000_000, 0, 1))
    lab.cluster.take([PartitionChangeRecord(partition_id=0, topic_id=lab.topic_id, leader=3)])
    loads = lab.reports.loads(lab.cluster.image, lab.now_s)
    assert loads[2].bytes_in_s == 0 and loads[3].bytes_in_s > 0


def test_nonsense_is_left_out() -> None:
    lab = Reported()
    lab.report(2, -1, 9)
    lab.report(2, 99, 9)
    lab.report(2, 0, 4, traffic=(-5, -5, -5))
    assert lab.floor(0) == 4
    assert lab.reports.rates(lab.topic_id, 0, lab.now_s).bytes_in == 0
    lab.reports.take(lab.cluster.image, 2, -7, [PartitionReport(topic_id=UUID(int=3), partition=0)], lab.now_s)
    lab.reports.forget(lab.topic_id)
    assert lab.floor(0) == 0
    assert lab.reports.floor_of(lab.topic_id, replace(lab.partition(0), high_watermark_floor=3)) == 3
