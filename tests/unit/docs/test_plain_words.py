"""No document, `--help` or message has a riddle that a pattern finds, and no table has a cell that is too long to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.docs.help_texts import help_texts
from tests.unit.docs.pages import REPOSITORY, documents, name_of, sentences
from tests.unit.docs.source_texts import messages, packages
from tests.unit.docs.words import CELL_CHARACTERS_MAX, long_cells, riddles

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")


@in_campaign
@pytest.mark.parametrize("page", documents(), ids=name_of)
def test_no_document_has_a_riddle(page: Path) -> None:
    assert list(riddles(page.read_text(encoding="utf-8"))) == []


def test_no_notebook_has_a_riddle() -> None:
    for notebook in (REPOSITORY / "docs").glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        assert texts
        assert [found for text in texts for found in riddles(text)] == []


@in_campaign
def test_no_help_text_has_a_riddle() -> None:
    texts = list(help_texts())
    assert len(texts) > 300
    assert [(name, *found) for name, text in texts for found in riddles(text)] == []


@in_campaign
@pytest.mark.parametrize("package", packages(), ids=name_of)
def test_no_message_has_a_riddle(package: Path) -> None:
    assert [(place, *found) for place, text in messages(package) for found in riddles(text)] == []


def test_messages_are_found() -> None:
    found = dict(messages(REPOSITORY / "bmq" / "security"))
    assert any("super.users has X, which is not TYPE:NAME" in text for text in found.values())
    assert all(" " in text for text in found.values())


@in_campaign
@pytest.mark.parametrize("page", documents(), ids=name_of)
def test_no_table_cell_is_too_long(page: Path) -> None:
    assert list(long_cells(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Who asks waits, for as long as they like.",
        "It ends. What a dead owner left is taken over.",
        "1. What is sent goes there.",
        "A log that nobody knows is lost.",
        "Somebody reads it.",
        "Whoever may send one may be anybody.",
        "The rest, who reads far behind, takes turns.",
        "It is tried for so long.",
        "A setting shall be there.",
        "It asks in vain.",
        "Of these the last few are known.",
        "So does every index.",
        "It takes whatever there is.",
        "The members of the group and\nwho waits are told.",
    ],
)
def test_riddles_are_found(sentence: str) -> None:
    assert list(riddles(sentence)) != []


@pytest.mark.parametrize(
    "sentence",
    [
        "# What works",
        "What happens then?",
        "Members who joined get partitions.",
        "A file, whose owner died, is closed.",
        "It waits for so long that clients give up.",
        "`whoever` in code is not prose.",
        "```\nWho knows\n```",
    ],
)
def test_plain_sentences_are_not(sentence: str) -> None:
    assert list(riddles(sentence)) == []


def test_paragraphs_are_joined_and_begin_at_their_first_line() -> None:
    text = "# Head\n\none\ntwo\n- three\n  four\n| five |\n```\nsix\n```\nseven\n\n\neight\n## Nine\nten\n"
    assert list(sentences(text)) == [
        (1, "# Head"),
        (3, "one two"),
        (5, "- three four"),
        (7, "| five |"),
        (11, "seven"),
        (14, "eight"),
        (15, "## Nine"),
        (16, "ten"),
    ]


def test_cells_are_measured_without_their_blanks() -> None:
    cell = "x" * CELL_CHARACTERS_MAX
    assert list(long_cells(f"| a |   {cell}   |\n| b | {cell}x |")) == [(2, CELL_CHARACTERS_MAX + 1)]
    assert list(long_cells(f"| {'x' * 70} \\| {'x' * 70} |")) == [(1, 144)]
