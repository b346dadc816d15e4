"""Search where no run has searched before: histories and examples from a first seed that is drawn, and printed.

    python -m tools.fresh [--seeds N] [--first SEED]

--first does the same again. Exit code 1 says that something was found; the output says how to repeat it.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.seeds import HISTORIES, TURNS

SEEDS = 20
RARE_FROM = 20  # kinds of history that only every so many known seeds have: a quarter of the seeds here
FIRST_MIN, FIRST_MAX = 1_000_000, 2_000_000_000
UNIT = Path(__file__).resolve().parents[1] / "tests" / "unit"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=SEEDS)
    options.add_argument("--first", type=int, default=random.SystemRandom().randrange(FIRST_MIN, FIRST_MAX))
    given = options.parse_args()
    again = f"the same again: python -m tools.fresh --seeds {given.seeds} --first {given.first}"
    print(again, flush=True)
    rare = [name for name, (every, _) in TURNS.items() if every >= RARE_FROM]
    simulation = simulated(given.first, given.seeds, sorted(HISTORIES.keys() - set(rare)))
    rarely = simulated(given.first, max(given.seeds // 4, 1), rare)
    examples = ["pytest", "-q", "-p", "tests.support.running_test", f"--hypothesis-seed={given.first}"]
    workers = ["-n", "logical", "--dist", "worksteal", "-p", "no:randomly"]
    commands = (simulation, rarely, [*examples, *workers, *property_tests()])
    # Workers must agree on the order of tests.
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "fresh", "PYTHONHASHSEED": f"{given.first % 2**32}"}
    codes = [subprocess.run([sys.executable, "-m", *command], env=environment).returncode for command in commands]
    print(f"{'nothing found' if not any(codes) else 'FOUND something'}; {again}")
    return int(any(codes))


def property_tests() -> list[str]:
    """The files of unit tests that draw: of each property the gate checks a few known examples alone."""
    return [f"{path}" for path in sorted(UNIT.rglob("test_*.py")) if "hypothesis" in path.read_text().lower()]


def simulated(first: int, seeds: int, histories: Sequence[str]) -> list[str]:
    names = [argument for name in histories for argument in ("--history", name)]
    # What must have happened in many known seeds may be missing in a few that nobody knows.
    return ["tests.simulation", "--seeds", f"{seeds}", "--first", f"{first}", *names, "--however-little"]


if __name__ == "__main__":
    sys.exit(main())
