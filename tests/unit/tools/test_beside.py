"""Stages that compute run beside those that wait, at a lower priority, and end with the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, eventually
from tools.beside import NICE, Beside, lower_session
from tools.stages import STAGES, Stage, run_measured

pytestmark = pytest.mark.campaign("unit")

MEETS = """
import pathlib, sys, time

own, other, line = sys.argv[1:]
print(line, flush=True)
pathlib.Path(own).touch()
end_s = time.monotonic() + 40
while not pathlib.Path(other).exists():
    if time.monotonic() > end_s:
        sys.exit("the other one does not run")
    time.sleep(0.01)
print(line, flush=True)
"""


def stage(name: str, program: str, *arguments: str, computes: bool = False) -> Stage:
    return Stage(name, (sys.executable, "-c", program, *arguments), 60, computes=computes)


def test_what_computes_runs_beside_what_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    stages = [
        stage("one", MEETS, first, second, "of one", computes=True),
        stage("two", MEETS, second, first, "of two"),
        stage("three", "print('last')", computes=True),
    ]
    outcomes, _ = run_measured(stages)
    assert [(outcome.stage.name, outcome.passed) for outcome in outcomes] == [
        ("one", True),
        ("two", True),
        ("three", True),
    ]
    assert outcomes[2].closing_line == "last"
    # The lines of a stage stand together.
    assert "=== one\nof one\nof one\n" in capsys.readouterr().out


PRIORITY = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"


def test_it_has_a_lower_priority_then_and_only_then() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    computing, waiting = stage("computing", PRIORITY, computes=True), stage("waiting", PRIORITY)
    (beside, alone), _ = run_measured([computing, waiting])
    assert (beside.closing_line, alone.closing_line) == (f"{min(own + NICE, 19)}", f"{own}")
    ((outcome,), _) = run_measured([computing])
    assert outcome.closing_line == f"{own}"


def test_the_session_has_a_lower_priority_where_the_system_has_that(tmp_path: Path) -> None:
    (tmp_path / "71").mkdir()
    lower_session(71, tmp_path)
    assert (tmp_path / "71" / "autogroup").read_text() == f"{NICE}"
    lower_session(72, tmp_path)


def test_a_failure_beside_is_a_failure() -> None:
    outcomes, _ = run_measured([stage("one", "raise SystemExit(3)", computes=True), stage("two", "")])
    assert [(outcome.passed, outcome.code) for outcome in outcomes] == [(False, 3), (True, 0)]


def test_an_error_of_the_runner_is_not_swallowed() -> None:
    def fail(one: Stage, beside: Beside) -> None:
        raise OSError(one.name)

    with pytest.raises(OSError, match="one"), Beside([stage("one", "")], fail):
        pass


RUNS_TWO = """
import sys
from tools import stages

hang = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(1_000)"
stages.STAGES = {
    "check": [
        stages.Stage(name, (sys.executable, "-c", hang, f"{sys.argv[1]}/{name}"), 1_000, computes=name == "computes")
        for name in ("computes", "waits")
    ]
}
sys.argv = ["stages", "check"]
sys.exit(stages.main())
"""


def test_who_is_told_to_end_ends_both_and_begins_no_other(tmp_path: Path) -> None:
    files = [tmp_path / "computes", tmp_path / "waits"]
    with subprocess.Popen(
        [sys.executable, "-c", RUNS_TWO, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.DEVNULL
    ) as both:
        try:
            eventually(lambda: all(file.exists() and file.read_text() for file in files), 20, "both stages run")
            processes = [psutil.Process(int(file.read_text())) for file in files]
            both.terminate()
            assert both.wait(Patience(20).limit_s) == 143
            assert [process.is_running() for process in processes] == [False, False]
        finally:
            both.kill()


def test_the_gate_has_both_kinds() -> None:
    computing = {one.name for one in STAGES["test"] if one.computes}
    assert computing == {"lint", "format", "types", "imports", "unit", "simulation", "seeds"}
    assert all(one.shares is not one.computes for one in STAGES["test"])
