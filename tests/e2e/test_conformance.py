"""A sample of the conformance run (`make conformance`): its servers, its cases and its comparison work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.cases import all_cases
from tests.conformance.results import EQUAL, as_json
from tests.conformance.run import both_servers, compare_all, served_by
from tests.conformance.schemas import api_name

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(120)]

APIS = ("Heartbeat", "DescribeProducers", "OffsetDelete")


def test_a_few_apis_are_answered_as_by_kafka(tmp_path: Path) -> None:
    cases = [case for case in all_cases() if api_name(case.api_key) in APIS]
    with both_servers(tmp_path / "servers") as (bmq, kafka):
        result = as_json(compare_all(bmq, kafka, cases), served_by(bmq, kafka))
    assert not result["differences"]
    heartbeat = next(api for api in result["apis"] if api["name"] == "Heartbeat")["versions"]
    assert {version: cell["state"] for version, cell in heartbeat.items()} == dict.fromkeys("01234", EQUAL)
