"""Is the gate ever red by chance? Run its stages that start processes many times, every second time beside busy loops.

    python -m tools.steady [--rounds N] [STAGE …]

Exit code 1 when any test failed in any round, or a wait used more than half of its patience. 0 failures in 20 rounds prove only
that a round fails in less than 14 of 100 (rule of three): the headroom of the waits says more.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from tools.durations import impatient
from tools.machine_lock import machine_lock
from tools.stages import STAGES, run_measured

ROUNDS: Final = 20
PATIENCE_SHARE_MAX: Final = 0.5
BUSY: Final = "while True: pass"


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes in sessions of their own, so that they get shares of the processors as another run would."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    names = [stage.name for stage in STAGES["test"] if stage.shares]
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(names)}; default: all")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    given = options.parse_args()
    unknown = set(given.stages) - set(names)
    if unknown:
        options.error(f"there is no stage {', '.join(sorted(unknown))} that starts processes")
    chosen = [stage for stage in STAGES["test"] if stage.name in (given.stages or names)]
    problems = []
    with machine_lock("make steady"):
        for number in range(given.rounds):
            is_busy = number % 2 == 1
            print(f"=== round {number + 1} of {given.rounds}{', beside busy loops' if is_busy else ''}", flush=True)
            with busy_loops(os.cpu_count() or 1) if is_busy else contextlib.nullcontext():
                outcomes, costs = run_measured(chosen)
            found = [
                f"{each.stage.name} {'was invalid' if each.is_invalid else 'failed'}: {each.closing_line}"
                for each in outcomes
                if not each.passed
            ]
            found += impatient(costs, PATIENCE_SHARE_MAX)
            problems += [f"round {number + 1}: {problem}" for problem in found]
    print("\n".join([f"=== steady: {given.rounds} rounds, {len(problems)} problems", *problems]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
