"""The closing line of a stage names what hung, and its verdict is that of its command."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, eventually
from tests.support.running_test import VARIABLE, NotedTest, overdue_tests, running_tests
from tools import stages
from tools.quarantine import Entry
from tools.stages import BY_FILE, INVALID, Outcome, Stage, judged, limit_line, report, run
from tools.stall_meter import Stall

pytestmark = pytest.mark.campaign("unit")

STORY = """
import time

def test_quick():
    pass

def test_hangs():
    print("hanging", flush=True)
    time.sleep(1_000)
"""


@pytest.mark.parametrize("arguments", [[], ["-p", "xdist.plugin", "-n", "1"]], ids=["one process", "a worker"])
def test_the_test_that_runs_is_known_after_a_kill(tmp_path: Path, arguments: list[str]) -> None:
    story, notes = tmp_path / "test_story.py", tmp_path / "notes"
    story.write_text(STORY)
    notes.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.running_test"]
    environment = {**os.environ, VARIABLE: str(notes), "PYTHONPATH": str(REPOSITORY)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # some take seconds to import
    with subprocess.Popen(
        [*command, *arguments, "--rootdir", str(tmp_path), str(story)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as tests:
        try:
            eventually(lambda: running_tests(notes) == ["test_story.py::test_hangs"], 40, "the second test runs")
        finally:
            os.killpg(tests.pid, 9)
    assert running_tests(notes) == ["test_story.py::test_hangs"]


KEEPS_THE_INTERPRETER = """
import ctypes
import pytest

@pytest.mark.timeout(1)
def test_hangs():
    mutex = ctypes.create_string_buffer(64)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)
"""


HANGS_AFTER_ITS_FAILURE = """
import time
import pytest

@pytest.fixture
def server():
    yield
    time.sleep(1_000)

@pytest.mark.timeout(2)
def test_hangs(server):
    assert False
"""


# Limits are far longer than their tests take to come to where they hang, on a machine that gives them a tenth of a processor.
WATCHED = ("-p", "pytest_timeout", "-p", "tests.support.running_test", "-p", "soon")
SOON = "from tests.support import running_test\nrunning_test.GRACE_S = 0.1\n"


def run_tests(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Pytest with these plugins alone, which may lie in `directory`. Raises TimeoutExpired when it hangs."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments, "--rootdir", str(directory), str(directory)],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{directory}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=Patience(40).limit_s,
        check=False,
    )


@pytest.mark.parametrize(
    ("test", "where"),
    [(KEEPS_THE_INTERPRETER, "in test_hangs"), (HANGS_AFTER_ITS_FAILURE, "in server")],
    ids=["interpreter", "teardown"],
)
def test_a_test_that_outlives_its_limit_is_ended(tmp_path: Path, test: str, where: str) -> None:
    """As a client library does that deadlocks in C: no Python runs any more, so no time limit of pytest-timeout. That ends
    with a failure, too: the fixtures have none."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "test_story.py").write_text(test)
    (tmp_path / "soon.py").write_text(SOON)
    ended = run_tests(tmp_path, *WATCHED, **{VARIABLE: str(notes)})
    assert ended.returncode == 1, ended.stdout
    assert where in ended.stderr
    assert running_tests(notes) == ["test_story.py::test_hangs"]


STOPS = """
import os, signal
import pytest

@pytest.mark.timeout(1)
def test_stops():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_test_whose_process_stands_still_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stopped, it runs no watchdog of its own."""
    story, plugin = tmp_path / "test_story.py", tmp_path / "soon.py"
    story.write_text(STOPS)
    plugin.write_text(SOON)
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}{os.pathsep}{tmp_path}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(stages, "WATCH_INTERVAL_S", 0.1)
    outcome = run(
        Stage("stops", (sys.executable, "-m", "pytest", "-q", *WATCHED, "--rootdir", str(tmp_path), str(story)), 40)
    )
    assert not outcome.passed
    assert outcome.seconds < 40
    assert "test_story.py::test_stops stands still; its process" in capfd.readouterr().out


CRASHES = """
import os
import pathlib

def test_crashes():
    once = pathlib.Path("crashed")
    if not once.exists():
        once.touch()
        os._exit(1)
"""
PASSES = """
import pytest

@pytest.mark.parametrize("number", range(10))
def test_passes(number):
    pass
"""


def test_tests_shared_out_by_file_end_when_a_worker_does(tmp_path: Path) -> None:
    """Fails by its time limit if the others wait for a test that nobody runs."""
    for name, story in {"a": CRASHES, "b": PASSES, "c": PASSES}.items():
        (tmp_path / f"test_{name}.py").write_text(story)
    ended = run_tests(tmp_path, "-p", "xdist.plugin", *BY_FILE, "-n", "2")
    assert ended.returncode == 1, ended.stdout
    assert "crashed while running 'test_a.py::test_crashes'" in ended.stdout


def test_nothing_runs_after_the_last_test(tmp_path: Path) -> None:
    (tmp_path / "71").write_text("")
    assert running_tests(tmp_path) == []
    assert overdue_tests(tmp_path, 1e9) == []


def test_a_test_is_overdue_from_its_deadline_on(tmp_path: Path) -> None:
    (tmp_path / "71").write_text("12.5 a.py::test_a[x y]")
    (tmp_path / "72").write_text("inf a.py::test_b")
    assert overdue_tests(tmp_path, 12.5) == []
    assert overdue_tests(tmp_path, 12.6) == [NotedTest("a.py::test_a[x y]", 71, 12.5)]
    assert running_tests(tmp_path) == ["a.py::test_a[x y]", "a.py::test_b"]


def test_the_closing_line_of_a_hang() -> None:
    assert limit_line(60, ["a.py::test_a"], "..") == "ended after its limit of 60 s, in a.py::test_a; last line: .."
    assert limit_line(60, [], "..") == "ended after its limit of 60 s, outside any test; last line: .."


def test_a_stage_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(stages, "measured_slowness", lambda: 1.0)
    outcome = run(Stage("hang", (sys.executable, "-c", "import time; time.sleep(1_000)"), 1))
    assert (outcome.passed, outcome.closing_line) == (
        False,
        "ended after its limit of 1 s, outside any test; last line: ",
    )
    shown = capfd.readouterr().out
    assert "=== hang" in shown
    assert "FAILED hang " in shown


FAILS_AND_IS_KILLED = """
import os
import pytest

pytestmark = pytest.mark.campaign("unit")

def test_fails():
    assert 3 == 4, "another number"

def test_is_killed():
    os.kill(os.getpid(), 9)
"""


def test_a_stage_that_is_ended_tells_what_had_failed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages, "measured_slowness", lambda: 1.0)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    story = tmp_path / "test_story.py"
    story.write_text(FAILS_AND_IS_KILLED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.measured_tests", "--rootdir", str(tmp_path)]
    outcomes, _ = stages.run_measured([Stage("short", [*command, str(story)], 600)])
    assert [outcome.passed for outcome in outcomes] == [False]
    shown = capfd.readouterr().out
    assert "failed before: test_story.py::test_fails: AssertionError: another number\n" in shown


@pytest.mark.parametrize(("code", "passed"), [(0, True), (3, False), (-9, False)])
def test_the_verdict_of_a_stage(code: int, passed: bool) -> None:
    story = (
        f"import os; print('some'); print('last', flush=True); {f'os._exit({code})' if code >= 0 else 'os.kill(0, 9)'}"
    )
    outcome = run(Stage("short", (sys.executable, "-c", story), 60))
    assert (outcome.passed, outcome.closing_line) == (passed, "last")


RUNS_A_STAGE = """
import sys
from tools import stages

hang = "import os, time; print(os.getpid(), flush=True); time.sleep(1_000)"
stages.STAGES = {"check": [stages.Stage("hang", (sys.executable, "-c", hang), 1_000)]}
sys.argv = ["stages", "check"]
sys.exit(stages.main())
"""


def test_who_is_told_to_end_ends_its_stage() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUNS_A_STAGE], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as stages_process:
        try:
            assert stages_process.stdout is not None
            assert stages_process.stdout.readline() == "=== hang\n"
            stage = psutil.Process(int(stages_process.stdout.readline()))
            stages_process.terminate()
            assert stages_process.wait(Patience(20).limit_s) == 143
            assert not stage.is_running()
        finally:
            stages_process.kill()


ENTRY = Entry("tests/e2e/test_a.py::test_a", datetime.date(2026, 1, 31), "looks once", "assert 3 == 4")


@pytest.mark.parametrize(
    ("failed", "safety", "code", "is_excused"),
    [
        (["test_a"], [], 1, True),
        (["test_a"], ["test_a"], 1, False),
        (["test_a", "test_b"], [], 1, False),
        (["test_a"], [], 2, False),
        ([], [], 1, False),
    ],
    ids=["known", "safety", "another too", "pytest was ended", "nothing known"],
)
def test_a_stage_is_not_red_for_tests_in_quarantine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: list[str], safety: list[str], code: int, is_excused: bool
) -> None:
    monkeypatch.setattr(stages, "read_quarantine", lambda path: [ENTRY])
    lines = [
        {
            "name": f"tests/e2e/test_a.py::{name}",
            "outcome": "failed",
            "error": "assert 3 == 4",
            "is_safety": name in safety,
            "began_s": 5.0,
            "seconds": 1.0,
        }
        for name in failed
    ]
    (tmp_path / "7.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outcome = judged(Outcome(Stage("clients", (), 60), False, 1.0, "1 failed", code), tmp_path)
    assert outcome.passed is is_excused
    assert outcome.closing_line == ("in quarantine: 1; 1 failed" if is_excused else "1 failed")


STALL = Stall(end_s=20.0, length_s=8.0)
"""From 12 to 20 s."""


def ran(name: str, began_s: float, seconds: float, outcome: str = "failed", is_safety: bool = False) -> str:
    line = {
        "name": name,
        "outcome": outcome,
        "error": "",
        "is_safety": is_safety,
        "began_s": began_s,
        "seconds": seconds,
    }
    return f"{json.dumps(line)}\n"


@pytest.mark.parametrize(
    ("lines", "code", "is_invalid"),
    [
        ([ran("a", 10, 3), ran("b", 19, 5), ran("c", 0, 1, "passed")], 1, True),
        ([ran("a", 5, 7)], 1, False),
        ([ran("a", 20, 3)], 1, False),
        ([ran("a", 10, 3), ran("b", 30, 5)], 1, False),
        ([ran("a", 10, 3, is_safety=True)], 1, False),
        ([ran("a", 10, 3), ran("b", 10, 3, is_safety=True)], 1, False),
        ([ran("a", 10, 3)], 2, False),
        ([ran("a", 10, 3, "passed")], 1, False),
        ([ran("a", 10, 3), ran(ENTRY.name, 30, 5)], 1, True),
    ],
    ids=[
        "in it",
        "before",
        "behind",
        "one outside",
        "safety",
        "safety too",
        "not the tests",
        "none",
        "and a known one",
    ],
)
def test_a_failure_while_the_machine_stood_still_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], code: int, is_invalid: bool
) -> None:
    monkeypatch.setattr(stages, "read_quarantine", lambda path: [ENTRY])
    (tmp_path / "7.jsonl").write_text("".join(lines))
    outcome = judged(Outcome(Stage("clients", (), 60), False, 30.0, "2 failed", code, (STALL,)), tmp_path)
    assert (outcome.passed, outcome.is_invalid) == (False, is_invalid)
    assert report("test", [outcome]) == (INVALID if is_invalid else 1)


def test_a_failure_without_a_stall_is_red(tmp_path: Path) -> None:
    (tmp_path / "7.jsonl").write_text(ran("a", 10, 3))
    assert not judged(Outcome(Stage("clients", (), 60), False, 30.0, "1 failed", 1), tmp_path).is_invalid


def test_a_run_is_red_if_any_stage_is_though_another_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage("clients", (), 60)
    passed, failed = Outcome(stage, True, 1.0, "1 passed"), Outcome(stage, False, 1.0, "1 failed", 1)
    invalid = Outcome(stage, False, 1.0, "1 failed", 1, (STALL,), is_invalid=True)
    assert [report("test", run) for run in ([passed], [passed, invalid], [invalid, failed])] == [0, INVALID, 1]
    assert "INVALID, neither passed nor failed" in capsys.readouterr().out


def test_a_stage_knows_when_the_machine_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meter(stages.StallMeter):  # type: ignore[misc,name-defined]
        def __enter__(self) -> stages.StallMeter:  # type: ignore[name-defined]
            self.note(12.0, 20.1)
            return super().__enter__()

    monkeypatch.setattr(stages, "StallMeter", Meter)
    (stall,) = run(Stage("short", (sys.executable, "-c", ""), 60)).stalls
    assert stall == Stall(20.1, pytest.approx(8.0))  # type: ignore[arg-type]
