"""Requests by users with and without rights, beside Kafka's answers to the same: those in the tree, and a Kafka of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.compare import differences
from tests.conformance.intended import INTENDED, reason_for
from tests.conformance.rights.asked import NOT_ASKED, asked_cases
from tests.conformance.rights.intended import RIGHTS_INTENDED
from tests.conformance.rights.judged import Judged
from tests.conformance.rights.random_sets import ask_in_waves, drawn_waves
from tests.conformance.rights.recorded import key_of, recorded, sample
from tests.conformance.rights.run import all_versions, ask_all
from tests.conformance.rights.sides import BMQ, started

ERRORS_SHOWN = 100
SETS = 500
SEED = 1


@pytest.mark.clients
@pytest.mark.bmq_only
@pytest.mark.timeout(120)
def test_refusals_are_those_that_kafka_gave(tmp_path: Path) -> None:
    wanted = recorded()
    with started([BMQ], tmp_path / "servers") as sides:
        found = {key_of(asked): asked for asked in sample(sides, wanted)}
    assert found.keys() == wanted.keys()
    missed = [
        f"{key}: {one}"
        for key, asked in found.items()
        for one in differences(asked.answers[0], wanted[key])
        if reason_for(asked.api_key, asked.case, one, (*RIGHTS_INTENDED, *INTENDED)) is None
    ]
    assert missed == []


@pytest.mark.campaign("kafka")
@pytest.mark.timeout(1_200)
def test_every_version_of_every_api_refuses_as_kafka(tmp_path: Path) -> None:
    judged = Judged()
    with started(directory=tmp_path / "servers") as sides:
        for asked in ask_all(sides, asked_cases()):
            judged.add(asked)
    assert list(judged.lines())[:ERRORS_SHOWN] == []
    assert judged.unmet() == []
    assert judged.requests > 20_000


@pytest.mark.campaign("kafka")
@pytest.mark.timeout(900)
def test_users_with_random_acls_are_refused_as_at_kafka(tmp_path: Path) -> None:
    judged, waves = Judged(), drawn_waves(SEED, SETS)
    users = [user for wave in waves for user in wave.users]
    with started(directory=tmp_path / "servers", personas=users) as sides:
        ask_in_waves(sides, waves, asked_cases(), judged)
        served = all_versions(sides, NOT_ASKED)
    assert list(judged.lines())[:ERRORS_SHOWN] == []
    assert judged.versions == served
    assert len(judged.users) == SETS
