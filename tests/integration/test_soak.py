"""Some minutes of the soak: real HDFS, real clients, faults from a fixed seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.faults import HAZARDS, Kind
from tests.soak.run import Soak

pytestmark = [pytest.mark.campaign("soak"), pytest.mark.timeout(600), pytest.mark.safety]

SEED = 7
MINUTES = 2.0
HAZARDOUS_MINUTES = 2.5


async def test_nothing_acknowledged_is_lost_while_everything_fails(tmp_path: Path) -> None:
    report = await Soak(tmp_path, SEED, MINUTES).run()
    print(report.text())
    assert report.violations == [], report.text()
    assert {trouble.kind for trouble in report.troubles} == set(Kind) - HAZARDS
    assert report.counters["bmq_segment_rolls"] > 20
    assert report.counters["bmq_file_takeovers"] > 0
    assert report.counters["bmq_segment_mends"] > 0


async def test_nor_over_tls_with_logins_and_rights(tmp_path: Path) -> None:
    report = await Soak(tmp_path, SEED, MINUTES, is_secured=True).run()
    print(report.text())
    assert report.violations == [], report.text()
    assert {trouble.kind for trouble in report.troubles} == set(Kind) - HAZARDS
    assert report.counters["bmq_segment_rolls"] > 20


async def test_nor_when_it_stands_still_calls_are_late_and_the_power_fails(tmp_path: Path) -> None:
    report = await Soak(tmp_path, SEED, HAZARDOUS_MINUTES, HAZARDS).run()
    print(report.text())
    assert report.violations == [], report.text()
    assert {trouble.kind for trouble in report.troubles} == set(Kind)
    assert report.late_calls.total() > 0


async def test_nor_on_an_hdfs_with_kerberos_whose_tickets_and_tokens_end(tmp_path: Path) -> None:
    report = await Soak(tmp_path, SEED, HAZARDOUS_MINUTES, HAZARDS, is_kerberized=True).run()
    print(report.text())
    assert report.violations == [], report.text()
    assert {trouble.kind for trouble in report.troubles} == set(Kind)
    assert report.late_calls.total() > 0
