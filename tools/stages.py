"""Run the stages of `make check` and `make test` and end with the closing line of each.

A stage that fails does not keep the next from running: one run shows everything that is wrong. A stage has a time limit
of its own, so that a hang ends, is named with the test that hung, and the whole stays within its bound.

Stages that start servers mostly wait. In `test` those that only compute run beside them, one after the other, at a lower
priority (tools/beside.py).

`test` waits until no other run has the machine (tools/machine_lock.py). Each stage says how long the machine stood still
meanwhile, and how long processes waited for a processor or a disk. Nothing is drawn: order, examples and seeds are fixed.

    python tools/stages.py check|test [STAGE …]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

import psutil

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
sys.path.insert(0, str(REPOSITORY))

from testing.patience import SLOWNESS, STALLS, measured_slowness  # noqa: E402
from tests.support.measured_tests import VARIABLE as MEASURED  # noqa: E402
from tests.support.running_test import VARIABLE, overdue_tests, running_tests  # noqa: E402  # found by the line above
from tools.beside import SHARE, Beside, lowered  # noqa: E402
from tools.campaign_record import RECORD, described_record, read_record  # noqa: E402
from tools.durations import Cost, errors_of_tests, failed_tests, read_costs, tests_in_stalls  # noqa: E402
from tools.durations import described as described_costs  # noqa: E402
from tools.machine_lock import machine_lock  # noqa: E402
from tools.machine_state import MARK, described, left_behind, machine_state, mark_of, pressure  # noqa: E402
from tools.quarantine import FILE as QUARANTINE  # noqa: E402
from tools.quarantine import is_excused, read_quarantine  # noqa: E402
from tools.quarantine import problems as quarantine_problems  # noqa: E402
from tools.shared_daemons import SharedDaemons  # noqa: E402
from tools.stall_meter import Stall, StallMeter  # noqa: E402

DICE: Final = 1
"""Dice are for the campaign and `make fresh`: an unlucky draw says nothing about the change that is tested."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """`dice`: the seed of its processes' hashes. `shares`: whether its tests use the run's HDFS and ZooKeeper.
    `computes`: it uses a processor all the time and waits for nothing, so that it can run beside stages that wait.
    """

    name: str
    command: Sequence[str]
    limit_s: int
    dice: int = DICE
    shares: bool = False
    computes: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """`stalls`: when the machine stood still meanwhile. `is_invalid`: it failed, and each test that failed ran in a stall."""

    stage: Stage
    passed: bool
    seconds: float
    closing_line: str
    code: int = 0
    stalls: Sequence[Stall] = ()
    is_invalid: bool = False


def tool(name: str) -> str:
    return str(BIN / name)


PLUGINS: Final = ("-p", "tests.support.running_test", "-p", "tests.support.measured_tests")
REAL: Final = ("tests/integration", "tests/e2e")
"""Where the tests lie that start processes: to collect all others as well takes half a minute of a processor."""


def pytest(place: str, limit_s: int, test_limit_s: int, *arguments: str, name: str = "", dice: int = DICE) -> Stage:
    """The tests of a place (tests/support/places.py), in an order that `dice` decides."""
    command = (sys.executable, "-m", "pytest", "-q", *PLUGINS, "--place", place)
    limits = (f"--randomly-seed={dice}", f"--timeout={test_limit_s}", "--durations=3")
    is_real = arguments[-2:] == REAL
    return Stage(name or place, (*command, *limits, *arguments), limit_s, dice, shares=is_real, computes=not is_real)


WATCH_INTERVAL_S = 5.0
SHARED_OUT: Final = ("-p", "tests.support.telling_reports")


def by_file(workers: str = "logical") -> tuple[str, ...]:
    """Arguments of pytest: tests that mostly wait share the processors; those of one file share their servers."""
    return (
        *("-n", workers, "--dist", "loadfile", "--no-loadscope-reorder", "-p", "tests.support.long_files_first"),
        *SHARED_OUT,
        # pytest-xdist 3.8 does not hand a file out again of which one test is left, and waits for it for ever.
        "--max-worker-restart=0",
    )


BY_FILE: Final = by_file()
MORE: Final = by_file(f"{max(3 * (os.cpu_count() or 1) // 2, 2)}")
"""For stages that hurt nothing, and whose tests use half of the processors when there is a worker for each."""
COMPUTING: Final = ("-n", "logical", "--dist", "worksteal", *SHARED_OUT)
LANE_TEST_LIMIT_S: Final = round(60 / SHARE)
"""Of a test that computes: one of 16 s of a processor took 88 s beside stages that wait, where a limit of 60 s was the machine's 1.5 times."""
LINT: Final = (
    Stage("lint", (tool("ruff"), "check"), 30, computes=True),
    Stage("format", (tool("ruff"), "format", "--check"), 30, computes=True),
    Stage("types", (tool("mypy"),), 120, computes=True),
    Stage("imports", (tool("lint-imports"),), 60, computes=True),
    pytest("unit", 800, LANE_TEST_LIMIT_S, *COMPUTING, "tests/unit"),
)
SEEDS: Final = 16
"""The fewest that have every kind of history: tests/simulation/seeds.py lets them take turns."""
STAGES = {
    "check": LINT,
    # In the order of what they tell in a second. Only a hang should meet the limits.
    "test": (
        *LINT,
        pytest("simulation", 300, 2 * LANE_TEST_LIMIT_S, *COMPUTING, "tests/simulation"),
        # All kinds of history are among them. How much must have happened is asked of many more: `make campaign PARTS=seeds`.
        Stage(
            "seeds",
            (sys.executable, "-m", "tests.simulation", "--seeds", f"{SEEDS}", "--however-little"),
            400,
            computes=True,
        ),
        pytest("contract", 600, 240, *MORE, *REAL),
        pytest("clients", 600, 300, *MORE, *REAL),
        pytest("hurt", 600, 240, *BY_FILE, *REAL),
        pytest("faults", 600, 300, *BY_FILE, *REAL),
        pytest("spark", 400, 300, *REAL),
    ),
}


def run_all(stages: Sequence[Stage]) -> list[Outcome]:
    return run_measured(stages)[0]


def run_measured(stages: Sequence[Stage]) -> tuple[list[Outcome], dict[str, Cost]]:
    """Verdicts in the order of the stages, and what each test cost. A stage that fails does not keep the next from running.

    Stages that compute run beside the others when there are both.
    """
    outcomes, costs = dict[str, Outcome](), dict[str, Cost]()

    def run_one(stage: Stage, environment: Mapping[str, str], beside: Beside | None = None) -> None:
        with tempfile.TemporaryDirectory(prefix="bmq-measured-") as directory:
            outcome = run(stage, {MEASURED: directory, **environment}, beside)
            outcomes[stage.name] = judged(outcome, Path(directory))
            costs.update(read_costs(Path(directory)))

    waiting = [stage for stage in stages if not stage.computes]
    computing = [stage for stage in stages if stage.computes]
    if not waiting:
        waiting, computing = computing, []
    with SharedDaemons(REPOSITORY) as daemons, Beside(computing, lambda stage, beside: run_one(stage, {}, beside)):
        for stage in waiting:
            run_one(stage, daemons.environment() if stage.shares else {})
    return [outcomes[stage.name] for stage in stages], costs


TESTS_FAILED: Final = 1
"""Pytest's exit code; any other one but 0 says that something else went wrong."""


INVALID: Final = 75
"""Exit code of a run that says nothing, since the machine stood still in the tests that failed. Of sysexits.h: EX_TEMPFAIL."""


def judged(outcome: Outcome, measured: Path) -> Outcome:
    """The verdict, if nothing but tests failed; what excuses them is printed.

    Failures of tests in quarantine alone leave a stage green. A test that failed while the machine stood still makes it
    invalid, which is neither green nor red; one that judges safety, or any other that failed, makes it red.
    """
    if not outcome.passed and outcome.code != TESTS_FAILED:
        # Pytest was ended, so it could not say which of its tests had failed until then.
        print("\n".join(f"failed before: {name}: {error}" for name, error in errors_of_tests(measured).items()))
    if outcome.passed or outcome.code != TESTS_FAILED:
        return outcome
    failed, safety = failed_tests(measured)
    entries = read_quarantine(REPOSITORY / QUARANTINE)
    if is_excused(failed, entries, safety):
        print("\n".join(f"quarantine: {name} failed" for name in sorted(failed)), flush=True)
        return dataclasses.replace(
            outcome, passed=True, closing_line=f"in quarantine: {len(failed)}; {outcome.closing_line}"
        )
    stalled = {name for name in failed & tests_in_stalls(measured, outcome.stalls) if name not in safety}
    others = failed - stalled
    if not stalled or (others and not is_excused(others, entries, safety)):
        return outcome
    print("\n".join(f"invalid: {name} failed while the machine stood still" for name in sorted(stalled)), flush=True)
    return dataclasses.replace(
        outcome, is_invalid=True, closing_line=f"invalid: {len(stalled)}; {outcome.closing_line}"
    )


def run(stage: Stage, environment: Mapping[str, str] | None = None, beside: Beside | None = None) -> Outcome:
    """Run one stage, its output shown as it comes and its verdict at its end: whoever ends the whole run sees no later one.

    With `beside` it runs at that lane's priority, and its output is shown at its end.
    """
    with tempfile.TemporaryDirectory(prefix="bmq-stage-") as directory:
        running = Path(directory, "running")
        running.mkdir()
        said = io.StringIO() if beside else sys.stdout
        try:
            outcome = run_noting(stage, running, environment or {}, said, beside)
            print(verdict(outcome), file=said, flush=True)
        finally:
            if isinstance(said, io.StringIO):
                sys.stdout.write(said.getvalue())
                sys.stdout.flush()
    return outcome


def verdict(outcome: Outcome) -> str:
    mark = "ok    " if outcome.passed else "INVALID" if outcome.is_invalid else "FAILED"
    return f"{mark} {outcome.stage.name:16} {outcome.seconds:5.0f} s  {outcome.closing_line}"


def run_noting(
    stage: Stage, running: Path, environment: Mapping[str, str], said: TextIO, beside: Beside | None = None
) -> Outcome:
    """`running`: where its tests say that they run. `said`: where its output goes."""
    print(f"=== {stage.name}", file=said, flush=True)
    # Of this stage alone: the daemons that stages share have another.
    mark = f"{mark_of(psutil.Process())}-{stage.name}"
    slower, stalls = measured_slowness(), running.with_name(f"{running.name}-stalls")
    began, waited = time.monotonic(), pressure()
    meter = StallMeter(noted=lambda stall: append_stall(stalls, stall))
    process = subprocess.Popen(
        lowered(stage.command) if beside else stage.command,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        env={
            # Compiled files are kept, whatever is set outside: without them every process of a test compiles its modules.
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
            "COLUMNS": "120",
            "PYTHONHASHSEED": str(stage.dice),
            MARK: mark,
            VARIABLE: str(running),
            SLOWNESS: f"{slower:.2f}",
            STALLS: str(stalls),
            **environment,
        },
    )
    is_out_of_time = threading.Event()

    def out_of_time() -> None:
        is_out_of_time.set()
        os.killpg(process.pid, signal.SIGKILL)

    last_lines: collections.deque[str] = collections.deque(maxlen=1)
    limit_s = stage.limit_s * slower * (1 / SHARE if beside else 1)
    limit = threading.Timer(limit_s, out_of_time)
    limit.start()
    is_over = threading.Event()
    threading.Thread(target=end_overdue_tests, args=(running, is_over), daemon=True).start()
    try:
        assert process.stdout is not None
        with meter, beside.holding(process) if beside else contextlib.nullcontext():
            for line in process.stdout:
                said.write(line)
                said.flush()
                if line.strip():
                    last_lines.append(line.strip())
            code = process.wait()
    finally:
        limit.cancel()
        is_over.set()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    seconds = time.monotonic() - began
    for left in left_behind(mark):
        print(f"warning: the stage left behind: {left}", file=said, flush=True)
    shares = pressure().since(waited).over(seconds, os.cpu_count() or 1)
    if costs := read_costs(Path(environment[MEASURED])) if MEASURED in environment else {}:
        print("\n".join(described_costs(costs)), file=said, flush=True)
    machine = f"machine: {slower:.1f} times slower, {meter.described()}; time waited for: {shares}"
    print(machine, file=said, flush=True)
    closing = last_lines[0] if last_lines else ""
    if is_out_of_time.is_set():
        closing = limit_line(limit_s, running_tests(running), closing)
    return Outcome(stage, code == 0, seconds, closing, code, tuple(meter.stalls))


def end_overdue_tests(running: Path, is_over: threading.Event) -> None:
    """Kill each process that keeps a test which neither its own limit nor faulthandler has ended, until `is_over`."""
    while not is_over.wait(WATCH_INTERVAL_S):
        for test in overdue_tests(running, time.monotonic()):
            print(f"\n{test.name} stands still; its process {test.process_id} is killed", flush=True)
            with contextlib.suppress(ProcessLookupError):
                os.kill(test.process_id, signal.SIGKILL)
            (running / str(test.process_id)).unlink(missing_ok=True)


def append_stall(path: Path, stall: Stall) -> None:
    """For waits of the stage's tests: testing/patience.py."""
    with path.open("a") as file:
        file.write(f"{stall.end_s} {stall.length_s}\n")


def limit_line(limit_s: float, running: Sequence[str], last_line: str) -> str:
    """The closing line of a stage that ran into its limit."""
    where = f"in {' and '.join(running)}" if running else "outside any test"
    return f"ended after its limit of {limit_s:.0f} s, {where}; last line: {last_line}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=sorted(STAGES))
    options.add_argument("stages", nargs="*", metavar="STAGE", help="these alone; default: all")
    given = options.parse_args()
    unknown = set(given.stages) - {stage.name for stage in STAGES[given.what]}
    if unknown:
        options.error(f"there is no stage {', '.join(sorted(unknown))}")
    # A stage has a session of its own: whoever ends this process means its stage as well.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    chosen = [stage for stage in STAGES[given.what] if not given.stages or stage.name in given.stages]
    # `check` runs while one works, beside anything.
    is_whole = given.what == "test"
    with machine_lock("make test") if is_whole else contextlib.nullcontext():
        if is_whole:
            print("\n".join(described(machine_state())), flush=True)
        began = time.monotonic()
        outcomes = run_all(chosen)
        seconds = time.monotonic() - began
    if is_whole:
        entries = read_quarantine(REPOSITORY / QUARANTINE)
        wrong = quarantine_problems(entries, (), datetime.datetime.now(datetime.UTC).date())
        print("\n".join([f"=== quarantine: {len(entries)} tests", *[entry.name for entry in entries], *wrong]))
        if wrong:
            outcomes.append(Outcome(Stage("quarantine", (), 0), False, 0.0, wrong[0]))
        print("\n".join(["=== last campaign", *described_record(read_record(REPOSITORY / RECORD))]))
    return report(given.what, outcomes, seconds)


def report(what: str, outcomes: Sequence[Outcome], seconds: float | None = None) -> int:
    """Print the verdicts together; the exit code: 0, 1 if any stage is red, else INVALID if any says nothing.

    `seconds`: of the whole run; by default the sum of the stages'.
    """
    total = sum(outcome.seconds for outcome in outcomes) if seconds is None else seconds
    print(f"=== {what}: {total:.0f} s")
    for outcome in outcomes:
        print(verdict(outcome))
    if any(not outcome.passed and not outcome.is_invalid for outcome in outcomes):
        return 1
    if all(outcome.passed for outcome in outcomes):
        return 0
    print(f"=== {what}: INVALID, neither passed nor failed: the machine stood still in tests that failed")
    return INVALID


if __name__ == "__main__":
    sys.exit(main())
