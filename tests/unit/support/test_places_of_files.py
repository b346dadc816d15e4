"""A stage imports only files that name it: what a file names is what its tests have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.processes import REPOSITORY
from tests.support.places import CAMPAIGN, PLACES, is_left_out, places_in

pytestmark = pytest.mark.unit

TESTS = REPOSITORY / "tests"
REAL = tuple(sorted(file for place in ("integration", "e2e") for file in (TESTS / place).rglob("*.py")))


def test_places_are_read_from_the_text() -> None:
    source = """
pytestmark = [pytest.mark.hurt, pytest.mark.timeout(240)]
in_campaign = pytest.mark.campaign("spark-jobs")
@pytest.mark.contract
# remark.unit, mark.faulty, mark.sparkling
"""
    assert places_in(source) == {"hurt", "campaign:spark-jobs", "contract"}
    assert places_in("import pytest") == set()


@pytest.mark.parametrize(
    ("place", "name", "source", "is_out"),
    [
        ("clients", "test_a.py", "pytest.mark.hurt", True),
        ("hurt", "test_a.py", "pytest.mark.hurt", False),
        (None, "test_a.py", "pytest.mark.hurt", False),
        ("clients", "test_a.py", "def test_without_a_place(): ...", False),
        ("clients", "conftest.py", "pytest.mark.hurt", False),
        ("campaign:soak", "test_a.py", 'pytest.mark.campaign("kills")', True),
    ],
)
def test_files_of_other_places_alone_are_left_out(
    tmp_path: Path, pytestconfig: pytest.Config, place: str | None, name: str, source: str, is_out: bool
) -> None:
    class Config:
        def getoption(self, option: str) -> str | None:
            assert option == "--place"
            return place

    (tmp_path / name).write_text(source)
    assert is_left_out(tmp_path / name, Config()) is is_out  # type: ignore[arg-type]


def marks(tree: ast.AST) -> Iterator[str]:
    """Each `pytest.mark.X` that is a place, as `places_in` names it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{CAMPAIGN}":
            (part,) = node.args
            assert isinstance(part, ast.Constant) and isinstance(part.value, str), "the name of a part is a literal"
            yield f"{CAMPAIGN}:{part.value}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark" and node.attr in PLACES:
            yield node.attr


def is_a_test_or_a_mark(node: ast.stmt) -> Iterator[str]:
    """Names of what would carry a marker into a file that imports it: markers, and classes of tests."""
    if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
        yield node.name
    if isinstance(node, ast.Assign) and any(marks(node.value)):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_a_marker_stands_in_the_file_of_its_tests() -> None:
    """So that none comes in with an import, and none is in a file that is not one of tests."""
    carriers, imported = set[tuple[str, str]](), set[tuple[str, str]]()
    for file in REAL:
        source = file.read_text()
        tree = ast.parse(source)
        found = set(marks(tree))
        assert found == places_in(source) & set(PLACES), file
        assert bool(found) is file.name.startswith("test_"), file
        module = ".".join(file.relative_to(REPOSITORY).with_suffix("").parts)
        for node in tree.body:
            carriers |= {(module, name) for name in is_a_test_or_a_mark(node)}
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {(node.module, alias.name) for alias in node.names}
    assert not carriers & imported
    elsewhere = [file for place in ("support", "fakes") for file in (TESTS / place).rglob("*.py")]
    assert [file for file in elsewhere if file.name != "places.py" and places_in(file.read_text())] == []
