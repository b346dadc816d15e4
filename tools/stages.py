"""Run the stages of `make check` and `make test` one after the other and end with the closing line of each.

A stage that fails does not keep the next from running: one run shows everything that is wrong. A stage has a time limit
of its own, so that a hang ends, is named, and the whole stays within its bound.

    python tools/stages.py check|test
"""

from __future__ import annotations

import collections
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    name: str
    command: Sequence[str]
    limit_s: int


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    stage: Stage
    passed: bool
    seconds: float
    closing_line: str


def tool(name: str) -> str:
    return str(BIN / name)


def pytest(marker: str, limit_s: int, test_limit_s: int, *arguments: str, name: str = "") -> Stage:
    command = (sys.executable, "-m", "pytest", "-q", "-m", marker, f"--timeout={test_limit_s}", "--durations=3")
    return Stage(name or marker, (*command, *arguments), limit_s)


CLUSTER = "tests/e2e/cluster"
LINT = (
    Stage("lint", (tool("ruff"), "check"), 30),
    Stage("format", (tool("ruff"), "format", "--check"), 30),
    Stage("types", (tool("mypy"),), 120),
    Stage("imports", (tool("lint-imports"),), 60),
    pytest("unit", 400, test_limit_s=60),
)
STAGES = {
    "check": LINT,
    # Twice what a quiet machine needs, so that only a hang meets them; less than 70 minutes together.
    "test": (
        *LINT,
        pytest("simulation", 200, test_limit_s=150),
        Stage("seeds", (sys.executable, "-m", "tests.simulation", "--seeds", "200"), 420),
        pytest("integration", 1300, test_limit_s=240),
        pytest("e2e", 700, 300, f"--ignore={CLUSTER}"),
        pytest("e2e", 800, 240, CLUSTER, name="cluster"),
    ),
}


def run(stage: Stage) -> Outcome:
    """Run one stage, its output shown as it comes."""
    print(f"=== {stage.name}", flush=True)
    began = time.monotonic()
    process = subprocess.Popen(
        stage.command,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}", "COLUMNS": "120"},
    )

    def out_of_time(*_: object) -> None:
        os.killpg(process.pid, signal.SIGKILL)

    last_lines: collections.deque[str] = collections.deque(maxlen=1)
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(stage.limit_s)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if line.strip():
                last_lines.append(line.strip())
        code = process.wait()
    finally:
        signal.alarm(0)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - began
    closing = last_lines[0] if last_lines else ""
    if code == -signal.SIGKILL:
        closing = f"ended after its limit of {stage.limit_s} s; last line: {closing}"
    return Outcome(stage, code == 0, seconds, closing)


def main() -> int:
    outcomes = [run(stage) for stage in STAGES[sys.argv[1]]]
    total = sum(outcome.seconds for outcome in outcomes)
    print(f"=== {sys.argv[1]}: {total:.0f} s")
    for outcome in outcomes:
        mark = "ok    " if outcome.passed else "FAILED"
        print(f"{mark} {outcome.stage.name:12} {outcome.closing_line}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
