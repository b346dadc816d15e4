"""The product knows neither tests nor benchmarks, these do not know each other, and share what is in testing/."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from testing.processes import REPOSITORY

pytestmark = pytest.mark.unit

FORBIDDEN = {
    "bmq": {"testing", "tests", "bench", "tools"},
    "testing": {"tests", "bench"},
    "bench": {"tests"},
}
OF_BENCHMARKS = (
    "tests/unit/bench/",
    "tests/integration/test_load_client.py",
    "tests/integration/test_librdkafka_client.py",
    "tests/integration/test_transaction_clients.py",
    "tests/e2e/test_micro_walks.py",
)
"""Tests of benchmarks, which import what they test."""
BORROWED = {"tests/e2e/cluster/test_delayed_runs_failover.py": {"bench.queues.timers.delayed"}}
"""To be moved to testing/."""


def imported(source: str) -> Iterator[str]:
    """The full names of all modules that are imported, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imported_of(file: Path, wanted: Collection[str]) -> set[str]:
    """What a file imports of the wanted packages. Only a text that has the name of one is read as Python."""
    source = file.read_text()
    if not any(package in source for package in wanted):
        return set()
    return {module for module in imported(source) if module.partition(".")[0] in wanted}


def files_of(package: str) -> list[Path]:
    return sorted((REPOSITORY / package).rglob("*.py"))


def test_imports_are_found() -> None:
    source = """
from tests.support import x
def f():
    import bench.runner as r
"""
    assert set(imported(source)) == {"tests.support", "bench.runner"}


def test_only_the_wanted_packages_count(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text('from tests.support import x\nimport bench.runner as r\nimport workbench\nwords = "tools"\n')
    assert imported_of(file, {"bench", "tools"}) == {"bench.runner"}
    assert imported_of(file, {"testing"}) == set()


@pytest.mark.parametrize("package", FORBIDDEN)
def test_who_must_not_know_whom(package: str) -> None:
    files = files_of(package)
    assert len(files) > 10
    wrong = {str(file): found for file in files if (found := imported_of(file, FORBIDDEN[package]))}
    assert wrong == {}


def test_only_tests_of_benchmarks_import_them() -> None:
    found = {}
    for file in files_of("tests"):
        name = str(file.relative_to(REPOSITORY))
        modules = imported_of(file, {"bench"})
        if modules and not name.startswith(OF_BENCHMARKS):
            found[name] = modules
    assert found == BORROWED
