"""What may fail by chance without the gate being red: little, for a week, and never a test of safety."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from testing.processes import REPOSITORY
from tools.quarantine import DAYS_MAX, ENTRIES_MAX, FILE, BadQuarantine, Entry, is_excused, problems, read_quarantine

pytestmark = pytest.mark.unit

TODAY = date(2026, 2, 1)
ENTRY = Entry("tests/e2e/test_kill.py::test_a", date(2026, 1, 31), "looks once", "assert 3 == 4")
TEXT = """
[[test]]
name = "tests/e2e/test_kill.py::test_a"
since = 2026-01-31
cause = "looks once"
log = "assert 3 == 4"
"""


def test_an_entry_has_a_date_a_cause_and_a_log(tmp_path: Path) -> None:
    file = tmp_path / "quarantine.toml"
    assert read_quarantine(file) == []
    file.write_text(TEXT)
    assert read_quarantine(file) == [ENTRY]


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ('cause = "looks once"', ""),
        ('cause = "looks once"', 'cause = ""'),
        ("since = 2026-01-31", 'since = "soon"'),
        ("since = 2026-01-31", "since = 2026-01-31T10:00:00"),
        ("[[test]]", "[test]"),
        ("[[test]]", "[[test"),
    ],
)
def test_what_is_no_entry_is_refused(tmp_path: Path, line: str, instead: str) -> None:
    (tmp_path / "quarantine.toml").write_text(TEXT.replace(line, instead))
    with pytest.raises(BadQuarantine, match=r"quarantine\.toml: "):
        read_quarantine(tmp_path / "quarantine.toml")


def test_it_is_short_and_ends_after_a_week() -> None:
    assert problems([ENTRY], (), TODAY) == []
    many = [replace(ENTRY, name=f"{number}") for number in range(ENTRIES_MAX + 1)]
    assert problems(many, (), TODAY) == ["the quarantine has 6 entries, 5 are allowed"]
    old = replace(ENTRY, since=date(2026, 1, 31 - DAYS_MAX))
    assert problems([old], (), TODAY) == [
        "tests/e2e/test_kill.py::test_a is in quarantine since 2026-01-24, longer than 7 days"
    ]


def test_safety_is_never_excused() -> None:
    assert problems([ENTRY], {ENTRY.name}, TODAY) == [
        "tests/e2e/test_kill.py::test_a is a test of safety: it cannot be in quarantine"
    ]
    assert not is_excused({ENTRY.name}, [ENTRY], {ENTRY.name})


def test_only_known_failures_are_excused() -> None:
    assert is_excused({ENTRY.name}, [ENTRY], ())
    assert not is_excused({ENTRY.name, "another"}, [ENTRY], ())
    assert not is_excused((), [ENTRY], ())


def test_the_file_of_this_repository_can_be_read() -> None:
    assert len(read_quarantine(REPOSITORY / FILE)) <= ENTRIES_MAX
