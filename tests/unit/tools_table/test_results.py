"""The table of Kafka's tools: of outcomes, and of the results file that is in the repository."""

from __future__ import annotations

import json

import pytest

from tests.tools_table.__main__ import DOCUMENT, RESULTS
from tests.tools_table.cases import all_cases
from tests.tools_table.compare import ComparedStep, Difference
from tests.tools_table.intended import Intended
from tests.tools_table.results import as_json, as_markdown, without_case
from tests.tools_table.run import Outcome
from tests.tools_table.tools import TOOLS

pytestmark = pytest.mark.campaign("unit")

ENTRY = Intended("other words", "They say the same.", ("kafka-groups",), bmq=("hello",), kafka=("good day",))
UNUSED = Intended("never met", "Nothing differs like this any more.", ("kafka-groups",), bmq=("none",))
OPTIONS = {"kafka-groups": ["--list", "--share", "--streams", "--help", "--type"]}
GREETING = Difference(("hello you",), ("good day",))
OUTCOMES = [
    Outcome(
        "kafka-groups",
        "a",
        [
            ComparedStep("kafka-groups --list", frozenset({"--list"}), ()),
            ComparedStep("kafka-groups --list --share", frozenset({"--list", "--share"}), (GREETING,)),
            ComparedStep("kafka-groups --streams", frozenset({"--streams"}), (Difference(("bye",), ("good day",)),)),
        ],
    )
]


def test_the_result_says_what_each_option_is() -> None:
    result = as_json(OUTCOMES, OPTIONS, [ENTRY, UNUSED])
    (tool,) = result["tools"]
    assert (tool["cases"], tool["steps"], tool["equal"], tool["different"]) == (1, 3, 1, 1)
    assert {option: cell["state"] for option, cell in tool["options"].items()} == {
        "--list": "intended",
        "--share": "intended",
        "--streams": "different",
        "--help": "left out",
        "--type": "no case",
    }
    assert result["unmet"] == ["never met"]
    assert [one["command"] for one in result["differences"]] == ["kafka-groups --streams"]
    assert without_case(result) == ["kafka-groups --type"]


def test_the_document_shows_a_mark_for_each_option() -> None:
    text = as_markdown(as_json(OUTCOMES, OPTIONS, [ENTRY]))
    marks = "`--list` 1 · `--share` 1 · `--streams` ≠ · `--help` – · `--type` ?"
    assert "| kafka-groups | 1 | 3 | 1 |" in text
    assert f"- **kafka-groups**: {marks}" in text
    assert "1. **other words.** They say the same." in text
    assert "| `kafka-groups --streams` | bye | good day |" in text
    assert "3 commands were compared; 1 print the same, 1 differ only as listed below, 1 differ otherwise." in text


def test_the_document_is_what_its_results_make() -> None:
    assert DOCUMENT.read_text() == as_markdown(json.loads(RESULTS.read_text()))


def test_every_tool_has_cases_with_names_of_their_own() -> None:
    names = [(case.tool, case.name) for case in all_cases()]
    assert len(set(names)) == len(names)
    assert {tool for tool, _ in names} == set(TOOLS)
