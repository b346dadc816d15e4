"""The table: of outcomes, and of the results file that is in the repository."""

from __future__ import annotations

import json

import pytest

from tests.conformance.__main__ import DOCUMENT, RESULTS
from tests.conformance.cases import all_cases
from tests.conformance.compare import Difference
from tests.conformance.intended import Intended
from tests.conformance.results import Outcome, Ranges, as_json, as_markdown
from tests.conformance.schemas import CLIENT_APIS, api_name, schema_versions

pytestmark = pytest.mark.campaign("unit")

ENTRY = Intended("other words", "The words are not part of the protocol.", frozenset({12}), paths=("text",))
UNUSED = Intended("never met", "Nothing differs like this any more.", frozenset({12}), paths=("none",))
SERVED = {12: Ranges(range(5), range(4)), 13: Ranges(None, range(2))}
OUTCOMES = [
    Outcome(12, 0, "a"),
    Outcome(12, 1, "a", (Difference("text", "x", "y"),)),
    Outcome(12, 2, "a", (Difference("text", "x", "y"), Difference("error_code", 1, 2))),
    Outcome(12, 3, "a", (Difference("error_code", 1, 2),)),
]


def test_the_result_says_what_each_version_is() -> None:
    result = as_json(OUTCOMES, SERVED, [ENTRY, UNUSED])
    heartbeat, leave = result["apis"]
    assert heartbeat["versions"] == {
        "0": {"state": "equal", "cases": 1, "intended": []},
        "1": {"state": "intended", "cases": 1, "intended": ["other words"]},
        "2": {"state": "different", "cases": 1, "intended": ["other words"]},
        "3": {"state": "different", "cases": 1, "intended": []},
        "4": {"state": "bmq only"},
    }
    assert leave["versions"] == {"0": {"state": "kafka only"}, "1": {"state": "kafka only"}}
    assert result["unmet"] == ["never met"]
    assert [one["version"] for one in result["differences"]] == [2, 3]


def test_the_document_shows_a_mark_for_each_version() -> None:
    text = as_markdown(as_json(OUTCOMES, SERVED, [ENTRY, UNUSED]))
    assert "| 12 | Heartbeat | = | 1 | ≠ 1 | ≠ | b |" in text
    assert "| 13 | LeaveGroup | k | k |  |  |  |" in text
    assert "1. **other words.** The words are not part of the protocol." in text
    assert "| Heartbeat | 2-3 | a | `error_code` | `1` | `2` |" in text
    assert "4 requests were compared in 4 versions of 1 APIs" in text


def test_the_same_answers_make_the_same_document() -> None:
    assert as_json(OUTCOMES, SERVED, [ENTRY]) == as_json(list(OUTCOMES), dict(SERVED), [ENTRY])


def test_the_document_is_what_its_results_make() -> None:
    assert DOCUMENT.read_text() == as_markdown(json.loads(RESULTS.read_text()))


def test_every_api_has_a_valid_case_at_every_version() -> None:
    cases = [case for case in all_cases() if case.is_valid]
    for api_key in CLIENT_APIS:
        for version in schema_versions(api_key):
            assert any(case.api_key == api_key and case.versions(version) for case in cases), api_name(api_key)


def test_every_case_has_a_name_of_its_own() -> None:
    names = [(case.api_key, case.name) for case in all_cases()]
    assert len(set(names)) == len(names)
