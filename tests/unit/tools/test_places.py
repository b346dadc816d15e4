"""A document that says where each test runs, and which ones are gone."""

from __future__ import annotations

import pytest

from tools.places import document, group_of

pytestmark = pytest.mark.unit

PLACES = {
    "tests/unit/log/test_names.py::test_a[1]": "unit",
    "tests/unit/log/test_padding.py::test_b": "unit",
    "tests/e2e/test_kill.py::test_c": "faults",
    "tests/e2e/test_kill.py::test_d": "campaign:kills",
}


def test_folders_of_unit_tests_are_a_line_and_files_of_others() -> None:
    assert [group_of(name) for name in PLACES] == ["tests/unit/log/"] * 2 + ["tests/e2e/test_kill.py"] * 2
    said = document(PLACES).splitlines()
    assert "| tests/unit/log/ | 2 | unit 2 |" in said
    assert "| tests/e2e/test_kill.py | 2 | campaign:kills 1, faults 1 |" in said
    assert "| all | 4 |" in said
    assert not any("lost" in line for line in said)


def test_what_is_gone_is_named() -> None:
    before = [*PLACES, "tests/e2e/test_kill.py::test_gone"][1:]
    said = document(PLACES, before, "1a2b3c").splitlines()
    assert "Revision 1a2b3c had 4 tests; 1 of them are not here any more, 1 are new." in said
    assert "- lost: `tests/e2e/test_kill.py::test_gone`" in said
    assert "| tests/e2e/test_kill.py | 3 | 2 | campaign:kills 1, faults 1 |" in said
