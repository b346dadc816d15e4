"""Every test that tests/README.md names is there."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit

TESTS: Final = REPOSITORY / "tests"
NAMED: Final = re.compile(r"\| `([\w/]+\.py)` \| `(test_\w+)` \|")


def missing(text: str) -> list[str]:
    """Named tests that are not in their files."""
    return [
        f"{path}::{name}"
        for path, name in NAMED.findall(text)
        if not (TESTS / path).is_file() or f"def {name}(" not in (TESTS / path).read_text(encoding="utf-8")
    ]


def test_the_named_tests_are_there() -> None:
    text = (TESTS / "README.md").read_text(encoding="utf-8")
    assert len(NAMED.findall(text)) == text.count("| `test_") > 20, "file and name, each in code marks"
    assert missing(text) == []


def test_a_missing_one_is_found() -> None:
    own = "| | `unit/docs/test_named_tests.py` | `test_a_missing_one_is_found` |"
    others = "| `unit/docs/test_none.py` | `test_a` |\n| `unit/docs/test_named_tests.py` | `test_none` |"
    assert missing(f"{own}\n{others}") == [
        "unit/docs/test_none.py::test_a",
        "unit/docs/test_named_tests.py::test_none",
    ]
