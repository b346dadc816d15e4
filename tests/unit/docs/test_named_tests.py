"""Every test that tests/README.md and the pages of docs name is there."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit

TESTS: Final = REPOSITORY / "tests"
NAMED: Final = re.compile(r"\| `([\w/]+\.py)` \| `(test_\w+)` \|")
SHOWN: Final = re.compile(r"`tests/([\w/]+\.py)::(\w+)`")
"""As pages of docs name the test of a claim."""


def missing(text: str, pattern: re.Pattern[str] = NAMED) -> list[str]:
    """Named tests that are not in their files."""
    return [
        f"{path}::{name}"
        for path, name in pattern.findall(text)
        if not (TESTS / path).is_file() or f"def {name}(" not in (TESTS / path).read_text(encoding="utf-8")
    ]


def test_the_named_tests_are_there() -> None:
    text = (TESTS / "README.md").read_text(encoding="utf-8")
    assert len(NAMED.findall(text)) == text.count("| `test_") > 20, "file and name, each in code marks"
    assert missing(text) == []


def test_tests_of_claims_are_there() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (REPOSITORY / "docs").rglob("*.md")]
    assert sum(len(SHOWN.findall(text)) for text in pages) >= 30
    assert [name for text in pages for name in missing(text, SHOWN)] == []


def test_a_missing_one_is_found() -> None:
    own = "| | `unit/docs/test_named_tests.py` | `test_a_missing_one_is_found` |"
    others = "| `unit/docs/test_none.py` | `test_a` |\n| `unit/docs/test_named_tests.py` | `test_none` |"
    assert missing(f"{own}\n{others}") == [
        "unit/docs/test_none.py::test_a",
        "unit/docs/test_named_tests.py::test_none",
    ]
