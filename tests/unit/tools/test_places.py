"""A document that says where each test runs, and which ones are gone."""

from __future__ import annotations

import pytest

from tools.places import REPOSITORY, Moved, document, group_of, missing_packages, moved_tests

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
    assert (
        "Revision 1a2b3c had 4 tests; 1 of them are lost, 0 have another name or went with what they tested "
        "(moved_tests.toml), 1 names are new."
    ) in said
    assert "- lost: `tests/e2e/test_kill.py::test_gone`" in said
    assert "| tests/e2e/test_kill.py | 3 | 2 | campaign:kills 1, faults 1 |" in said


def test_another_name_counts_only_while_its_test_is_here() -> None:
    moved = Moved(
        files={"tests/unit/old/test_names.py": "tests/unit/log/test_names.py"},
        tests={
            "tests/e2e/test_x.py::test_y": "tests/e2e/test_kill.py::test_c",
            "tests/e2e/test_z.py::test_z[1]": "nowhere",
        },
        gone={"tests/unit/test_numba.py": "it is not used any more", "tests/unit/test_a.py::test_b": "the same"},
    )
    kept = [
        "tests/unit/old/test_names.py::test_a[1]",
        "tests/e2e/test_x.py::test_y[a]",
        "tests/e2e/test_x.py::test_y",
        "tests/unit/test_numba.py::test_any[3]",
        "tests/unit/test_a.py::test_b[2]",
    ]
    lost = [
        "tests/e2e/test_z.py::test_z[1]",
        "tests/unit/log/test_names.py::test_a[2]",
        "tests/unit/old/test_names.py::test_a[2]",
        "tests/unit/test_a.py::test_c",
    ]
    assert moved.lost([*PLACES, *kept, *lost], PLACES) == sorted(lost)
    said = document(PLACES, [*PLACES, *kept, *lost], "1a2b3c", moved).splitlines()
    assert any("4 of them are lost, 5 have another name" in line for line in said)


def test_every_entry_has_a_reason_or_names_a_test_that_is_here() -> None:
    moved = moved_tests()
    assert all((REPOSITORY / file).is_file() for file in moved.files.values())
    for name in moved.tests.values():
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (REPOSITORY / file).read_text(), name
    assert all(len(reason) > 10 for reason in moved.gone.values())


def test_packages_that_a_revision_needs_are_named_once() -> None:
    said = "E   ModuleNotFoundError: No module named 'numba.core'\nE   ModuleNotFoundError: No module named 'numba'\n1 error"
    assert missing_packages(said) == ["numba"]
    assert missing_packages("E   AssertionError: no kernel") == []
