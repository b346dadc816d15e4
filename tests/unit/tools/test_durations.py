"""What tests cost, and which ones cost too much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY
from tests.support import long_files_first
from tests.support.measured_tests import VARIABLE
from tools.durations import (
    Cost,
    dearest_files,
    described,
    impatient,
    median_costs,
    over_budget,
    read_costs,
    write_costs,
)

pytestmark = pytest.mark.campaign("unit")

STORY = """
import subprocess, time
import pytest
from testing.patience import Patience

@pytest.mark.contract
def test_waits():
    patience = Patience(10, now=iter([0.0, 4.0]).__next__, slowness=lambda: 1.0)
    patience.note()
    subprocess.run(["/bin/echo", "java"], stdout=subprocess.DEVNULL)
    subprocess.run(["/bin/echo", "hello"], stdout=subprocess.DEVNULL)

@pytest.mark.contract
def test_fails():
    assert False
"""
COST = Cost("contract", 2.0, 1.0, 0, 0.1)


@pytest.mark.parametrize("arguments", [[], ["-p", "xdist.plugin", "-n", "1"]], ids=["one process", "a worker"])
def test_each_test_is_written_down(tmp_path: Path, arguments: list[str]) -> None:
    costs = tmp_path / "costs"
    costs.mkdir()
    (tmp_path / "test_story.py").write_text(STORY)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = contract\n")
    plugins = ["-p", "tests.support.measured_tests", *arguments]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env={
            **os.environ,
            VARIABLE: str(costs),
            "PYTHONPATH": str(REPOSITORY),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        timeout=Patience(40).limit_s,
        check=False,
    )
    (file,) = costs.glob("*.jsonl")
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    assert [(line["name"], line["outcome"]) for line in lines] == [
        ("test_story.py::test_waits", "passed"),
        ("test_story.py::test_fails", "failed"),
    ]
    with file.open("a") as cut:
        cut.write('{"name": "test_story.py::te')
    waits = read_costs(costs)["test_story.py::test_waits"]
    assert (waits.place, waits.java_starts, waits.patience) == ("contract", 1, 0.4)
    assert waits.seconds > 0


def test_medians_and_the_largest_share_of_patience() -> None:
    rounds = [{"a": replace(COST, seconds=s, patience=p)} for s, p in ((1.0, 0.1), (9.0, 0.5), (2.0, 0.2))]
    assert median_costs([*rounds, {"b": COST}]) == {"a": replace(COST, seconds=2.0, patience=0.5), "b": COST}


def test_what_is_over_its_budget_is_named_worst_first() -> None:
    costs = {
        "a": COST,
        "b": replace(COST, cpu_s=3.2),
        "c": replace(COST, cpu_s=7.0),
        "d": replace(COST, place="campaign:soak", cpu_s=900.0),
    }
    assert over_budget(costs) == [
        "c: 7.0 s of a processor; contract has 3",
        "b: 3.2 s of a processor; contract has 3",
    ]


def test_waits_that_came_close_to_their_end_are_warned_of() -> None:
    costs = {"a": COST, "b": replace(COST, patience=0.3), "c": replace(COST, patience=0.6, java_starts=2)}
    assert impatient(costs) == ["c: a wait used 60% of its patience", "b: a wait used 30% of its patience"]
    assert described(costs)[0] == (
        "tests: 3 s of a processor, 2 starts of Java; no wait used more than 60% of its patience"
    )
    (nothing,) = described({})
    assert nothing.startswith("tests: 0 s")


def test_the_dearest_files_are_named() -> None:
    costs = {
        "a.py::x": COST,
        "a.py::y": replace(COST, cpu_s=1.5),
        "b.py::x": replace(COST, cpu_s=9.0),
        "c.py::x": COST,
    }
    assert dearest_files(costs) == ["9 of 2 s b.py", "2 of 4 s a.py", "1 of 2 s c.py"]
    assert described(costs)[1] == "dearest: 9 of 2 s b.py, 2 of 4 s a.py, 1 of 2 s c.py"


def test_the_record_gives_the_seconds_of_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_files_first, "DURATIONS", tmp_path / "durations.json")
    assert long_files_first.recorded_seconds() == {}
    write_costs(tmp_path / "durations.json", {"a.py::x": COST, "a.py::y": COST, "b.py::x": COST})
    assert long_files_first.recorded_seconds() == {"a.py": 4.0, "b.py": 2.0}
