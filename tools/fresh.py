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

from tests.simulation.seeds import HISTORIES

SEEDS = 20
FIRST_MIN, FIRST_MAX = 1_000_000, 2_000_000_000
HOSTILE = (
    "tests/unit/protocol",
    "tests/unit/coordinator/test_group_history.py",
    "tests/unit/broker/test_tail_cache.py",
)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=SEEDS)
    options.add_argument("--first", type=int, default=random.SystemRandom().randrange(FIRST_MIN, FIRST_MAX))
    given = options.parse_args()
    again = f"the same again: python -m tools.fresh --seeds {given.seeds} --first {given.first}"
    print(again, flush=True)
    histories = [argument for name in sorted(HISTORIES) for argument in ("--history", name)]
    simulation = ["tests.simulation", "--seeds", f"{given.seeds}", "--first", f"{given.first}", *histories]
    # What must have happened in many known seeds may be missing in a few that nobody knows.
    simulation.append("--however-little")
    examples = ["pytest", "-q", "-p", "tests.support.running_test", "-m", "unit", f"--hypothesis-seed={given.first}"]
    commands = (simulation, [*examples, "-p", "no:randomly", *HOSTILE])
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "fresh"}
    codes = [subprocess.run([sys.executable, "-m", *command], env=environment).returncode for command in commands]
    print(f"{'nothing found' if codes == [0, 0] else 'FOUND something'}; {again}")
    return int(codes != [0, 0])


if __name__ == "__main__":
    sys.exit(main())
