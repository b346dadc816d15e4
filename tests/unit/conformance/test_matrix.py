"""The matrix of clients: what counts as a difference, and what the document says of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.clients.clients import all_clients
from tests.conformance.clients.matrix import Behaviour, ClientRun, as_json, as_markdown, unexplained
from tests.conformance.clients.reasons import REASONS, Reason
from tests.conformance.compare import MISSING, Difference

pytestmark = pytest.mark.campaign("unit")

REQUESTS = {(18, 4): 2, (0, 12): 5, (12, 4): 1}
NEWER = Reason("A newer version", "bmq speaks it already.", paths=("apis/Produce",))
CHANCE = Reason("A heartbeat", "It hangs on time.", paths=("apis/Heartbeat",), is_chance=True)


def run_of(
    requests: dict[tuple[int, int], int] | None = None, outcome: dict[str, Any] | None = None, name: str = "some"
) -> ClientRun:
    kafka = Behaviour(REQUESTS, {"produce": {"offsets": [0, 1]}})
    return ClientRun(name, "1.0", Behaviour(requests or REQUESTS, outcome or kafka.outcome), kafka)


def test_how_often_something_is_asked_for_is_no_difference() -> None:
    found = as_json([run_of({(18, 4): 1, (0, 12): 500, (12, 4): 3})], [])
    assert not found["clients"][0]["differences"]
    assert found["clients"][0]["apis"][0] == {"key": 0, "name": "Produce", "bmq": [12], "kafka": [12]}
    assert unexplained(found) == []


@pytest.mark.parametrize(
    ("requests", "outcome", "told"),
    [
        ({**REQUESTS, (0, 13): 1}, None, "some: apis/Produce: bmq [12, 13], Kafka [12]"),
        ({(18, 4): 2, (0, 12): 5}, None, "some: apis/Heartbeat: bmq '<missing>', Kafka [4]"),
        (None, {"produce": {"offsets": [0, 2]}}, "some: steps/produce/offsets/1: bmq 2, Kafka 1"),
        (None, {"delete topic": {}}, "some: steps/produce: bmq '<missing>', Kafka {'offsets': [0, 1]}"),
    ],
)
def test_another_version_and_another_outcome_need_a_reason(requests: Any, outcome: Any, told: str) -> None:
    assert told in unexplained(as_json([run_of(requests, outcome)], []))


def test_a_reason_explains_a_difference_and_is_missed_when_nothing_needs_it() -> None:
    differs = as_json([run_of({**REQUESTS, (0, 13): 1})], [NEWER, CHANCE])
    assert unexplained(differs) == [] and differs["unmet"] == []
    assert differs["reasons"] == [{"name": "A newer version", "reason": "bmq speaks it already."}]
    assert as_json([run_of()], [NEWER, CHANCE])["unmet"] == ["A newer version"]


def test_the_document_has_a_line_for_each_client_and_a_column_in_the_versions() -> None:
    differs = run_of({**REQUESTS, (0, 13): 1}, {"produce": {"offsets": [7, 1]}})
    lines = as_markdown(as_json([run_of(name="Java 1"), differs], [NEWER]))
    assert "| Java 1.0 | = |" in lines
    assert "| some 1.0 | ≠ |" in lines
    assert "| 0 | Produce | 12 | bmq: 12, 13 · Kafka: 12 (c1) |" in lines
    assert "- c1: **A newer version.** bmq speaks it already." in lines
    assert "- some: steps/produce/offsets/0: bmq 7, Kafka 0" in lines


def test_without_clients_there_is_no_section() -> None:
    assert as_markdown(as_json([], [])) == []


def test_each_reason_says_for_whom_it_is_meant() -> None:
    assert len({one.name for one in REASONS}) == len(REASONS)
    reason = Reason("", "", clients=("Java *",), paths=("apis/Fetch",), bmq=([18],), kafka=(MISSING,))
    assert reason.meets("Java 4.3.0", Difference("apis/Fetch", [18], MISSING))
    assert not reason.meets("kcat 1", Difference("apis/Fetch", [18], MISSING))
    assert not reason.meets("Java 4.3.0", Difference("apis/Fetch", [17], MISSING))


def test_the_clients_have_names_of_their_own() -> None:
    names = [client.name for client in all_clients()]
    assert len(set(names)) == len(names)
