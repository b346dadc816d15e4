"""Each test runs somewhere, and a stage runs what is its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY
from tests.support.places import PARTS, PLACES, NoPlace, place_of

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

CONFTEST = """
import pytest
from tests.support.places import STAGES, add_option, fail_without_a_place, keep_those_of_the_place

def pytest_addoption(parser):
    add_option(parser)

def pytest_configure(config):
    for name in (*STAGES, "campaign"):
        config.addinivalue_line("markers", name)

def pytest_collection_modifyitems(config, items):
    keep_those_of_the_place(config, items)

def pytest_runtest_setup(item):
    fail_without_a_place(item)
"""
TESTS = """
import pytest

pytestmark = [pytest.mark.timeout(5), pytest.mark.contract]

def test_shared():
    pass

@pytest.mark.hurt
def test_hurts():
    pass

@pytest.mark.campaign("soak")
def test_lasts():
    pass
"""


def collected(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments, "--rootdir", str(directory), str(directory)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=Patience(40).limit_s,
        check=False,
    )


@in_campaign
@pytest.mark.parametrize(
    ("place", "name"), [("contract", "test_shared"), ("hurt", "test_hurts"), ("campaign:soak", "test_lasts")]
)
def test_the_nearest_marker_counts(tmp_path: Path, place: str, name: str) -> None:
    (tmp_path / "test_story.py").write_text(TESTS)
    found = collected(tmp_path, "--collect-only", "--place", place)
    assert [line for line in found.stdout.splitlines() if "::" in line] == [f"test_story.py::{name}"], found.stdout


@in_campaign
@pytest.mark.parametrize("arguments", [[], ["-p", "xdist.plugin", "-n", "1"]], ids=["one process", "a worker"])
def test_a_test_without_a_place_is_an_error(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "test_story.py").write_text(TESTS)
    (tmp_path / "test_nowhere.py").write_text("def test_nowhere():\n    pass\n")
    found = collected(tmp_path, *arguments)
    assert found.returncode not in (0, 5), found.stdout
    assert "test_nowhere.py::test_nowhere: no marker says where it runs: unit, " in found.stdout + found.stderr


def marks(*given: pytest.MarkDecorator) -> list[pytest.Mark]:
    return [decorator.mark for decorator in given]


def test_a_part_that_there_is_not_is_an_error() -> None:
    assert place_of(marks(pytest.mark.timeout(1), pytest.mark.campaign(PARTS[0]))) == f"campaign:{PARTS[0]}"
    for mark in (pytest.mark.campaign("nights"), pytest.mark.campaign):
        with pytest.raises(NoPlace, match="names none of its parts: soak, "):
            place_of(marks(mark))
    assert len(set(PLACES)) == len(PLACES)
