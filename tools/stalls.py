"""Would a machine that stands still for a second turn a test red? Run tests while time jumps, or while they are stopped.

    python -m tools.stalls [--seed N] [--rounds N] [--stop | --stop-one] [PYTEST ARGUMENT …]

Without --stop the clocks of Python jump in the middle of each test (tests/support/jumping_clock.py). That costs no time, and
the seed repeats it: each round has the next seed, and a failed round prints its own.
With --stop all processes of the run are stopped together, for 0.3 to 1.5 s after each 0.2 to 2 s, by SIGSTOP and SIGCONT. That
reaches system calls, threads and other processes; the seed repeats lengths and pauses, and not what was running then.
With --stop-one one process of them, drawn each time, stands still while the others go on, as where a processor is short: a
child that is late for its parent, a server for its test.
Without pytest arguments all unit tests and simulations run. Exit code 1 when a round failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import psutil

from tests.support.jumping_clock import JUMP_S, JUMPS

TESTS: Final = ("-n", "logical", "tests/unit", "tests/simulation")
PAUSE_S: Final = (0.2, 2.0)
END_WAIT_S: Final = 10.0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1, help="of the first round; default: 1")
    options.add_argument("--rounds", type=int, default=1)
    stops = options.add_mutually_exclusive_group()
    stops.add_argument("--stop", action="store_true", help="stop processes in place of letting clocks jump")
    stops.add_argument("--stop-one", action="store_true", help="stop one process at a time")
    given, arguments = options.parse_known_args()
    failed = []
    for seed in range(given.seed, given.seed + given.rounds):
        print(f"=== seed {seed}", flush=True)
        if run(arguments or TESTS, seed, stops=given.stop or given.stop_one, one=given.stop_one):
            failed.append(seed)
    print(f"=== stalls: {given.rounds} rounds, failed with seeds {failed}" if failed else "=== stalls: nothing failed")
    return int(bool(failed))


def run(arguments: Sequence[str], seed: int, *, stops: bool, one: bool = False) -> int:
    """The exit code of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly"]
    environment = dict(os.environ)
    if not stops:
        command += ["-p", "tests.support.jumping_clock"]
        environment[JUMPS] = str(seed)
    process = subprocess.Popen([*command, *arguments], env=environment, stdin=subprocess.DEVNULL)
    try:
        return stop_often(process, random.Random(seed), one=one) if stops else process.wait()
    finally:
        end(process)


def stop_often(
    process: subprocess.Popen[bytes],
    dice: random.Random,
    sleep: Callable[[float], None] = time.sleep,
    *,
    one: bool = False,
) -> int:
    """Stop it and its children, or one of them all, again and again until it has ended; its exit code."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(dice.uniform(*PAUSE_S))
        with stopped(process.pid, dice if one else None):
            sleep(dice.uniform(*JUMP_S))


@contextlib.contextmanager
def stopped(process_id: int, dice: random.Random | None = None) -> Iterator[None]:
    """A process and all below it stand still, or the one that `dice` choose; one that ended is left out.

    A child started meanwhile runs on.
    """
    standing: list[psutil.Process] = []
    try:
        # Parents first: they start no more children then.
        tree = _tree(process_id)
        for process in dice.sample(tree, min(1, len(tree))) if dice else tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
                standing.append(process)
        yield
    finally:
        for process in reversed(standing):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


def end(process: subprocess.Popen[bytes]) -> None:
    """Of a run that was interrupted: it ends itself on SIGTERM, or is killed with its children."""
    if process.poll() is not None:
        return
    left = _tree(process.pid)
    process.terminate()
    try:
        process.wait(END_WAIT_S)
    except subprocess.TimeoutExpired:
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def _tree(process_id: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(process_id)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


if __name__ == "__main__":
    sys.exit(main())
