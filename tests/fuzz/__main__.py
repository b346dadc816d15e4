"""Fuzzes all that reads bytes from a network: `make fuzz MINUTES=30`, or python -m tests.fuzz --minutes 30.

Each target (tests/fuzz/targets) has a process of its own, as many at once as there are processors, and its share of the
time; the C kernel has a larger one (tests/fuzz/kernel.py). Prints the inputs and the peak memory of each. Exit status 1
if one crashed, took too long or too much memory: the input is kept in tests/fuzz/corpus, every later run begins with it.

    python -m tests.fuzz --target requests --target rest --minutes 2
    python -m tests.fuzz.guided requests --input tests/fuzz/corpus/requests/crash-…
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from testing.processes import REPOSITORY
from tests.fuzz.target import CORPUS, NAMES, kept_inputs

DIRECTORY: Final = REPOSITORY / ".cache" / "fuzz"
KERNEL: Final = "kernel"
KERNEL_SHARES: Final = 3
"""Of the time, where a target has one."""
STOPPING_S: Final = 120
"""Beyond its time a process may take so long, to start and to end its last input."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`memory_mb`: the peak; 0 if it is not known. `trouble`: what to read and how to repeat it; empty: there is none."""

    name: str
    inputs: int
    memory_mb: int
    trouble: str


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--target", action="append", choices=[*NAMES, KERNEL], help="these alone")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    given = options.parse_args()
    seed = time.time_ns() % 2**31 if given.seed is None else given.seed
    names = given.target or [KERNEL, *NAMES]
    shares = {name: KERNEL_SHARES if name == KERNEL else 1 for name in names}
    share_s = given.minutes * 60 * min(given.jobs, len(names)) / sum(shares.values())
    print(f"seed {seed}: {len(names)} targets, {given.jobs} at once, {share_s:.0f} s each", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        running = [pool.submit(fuzzed, name, max(1, round(share_s * shares[name])), seed) for name in names]
        outcomes = [told(each.result()) for each in running]
    crashes = sum(bool(outcome.trouble) for outcome in outcomes)
    print(f"fuzz_inputs {sum(outcome.inputs for outcome in outcomes):,}")
    print(f"fuzz_memory_mb {max(outcome.memory_mb for outcome in outcomes)}")
    print(f"fuzz_crashes {crashes}")
    return 1 if crashes else 0


def told(outcome: Outcome) -> Outcome:
    print(f"{outcome.name:20} {outcome.inputs:>12,} inputs  {outcome.memory_mb:>4} MiB", flush=True)
    if outcome.trouble:
        print(outcome.trouble, flush=True)
    return outcome


def fuzzed(name: str, seconds: int, seed: int) -> Outcome:
    return _kernel(seconds, seed) if name == KERNEL else _target(name, seconds, seed)


def _kernel(seconds: int, seed: int) -> Outcome:
    command = [sys.executable, "-m", "tests.fuzz.kernel", "--minutes", f"{seconds / 60:.3f}", "--seed", str(seed)]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, errors="replace")
    ran, compared = (
        re.search(r"libFuzzer ran (\d+) inputs", run.stdout),
        re.search(r"(\d+) inputs compared", run.stdout),
    )
    inputs = sum(int(found[1]) for found in (ran, compared) if found)
    trouble = f"{run.stdout[-4000:]}{run.stderr[-4000:]}\nrepeat: {' '.join(command[1:])}" if run.returncode else ""
    return Outcome(KERNEL, inputs, 0, trouble)


def _target(name: str, seconds: int, seed: int) -> Outcome:
    corpus, found = DIRECTORY / name / "corpus", DIRECTORY / name / "found"
    shutil.rmtree(found, ignore_errors=True)
    for directory in (corpus, found):
        directory.mkdir(parents=True, exist_ok=True)
    seeding = [sys.executable, "-m", "tests.fuzz.seeding", name, str(corpus)]
    subprocess.run(seeding, cwd=REPOSITORY, check=True)
    for data in kept_inputs(name):
        (corpus / f"kept-{sha256(data).hexdigest()[:16]}").write_bytes(data)
    command = [
        *(sys.executable, "-m", "tests.fuzz.guided", name),
        *(f"-max_total_time={seconds}", f"-seed={seed}", f"-artifact_prefix={found}/", str(corpus)),
    ]
    try:
        run = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, errors="replace", timeout=seconds + STOPPING_S
        )
    except subprocess.TimeoutExpired:
        return Outcome(name, 0, 0, f"{name} did not end {STOPPING_S} s after its time\nrepeat: {' '.join(command[1:])}")
    said = run.stderr + run.stdout
    inputs, memory = (
        int(match[1]) if (match := re.search(rf"{stat}:\s*(\d+)", said)) else 0
        for stat in ("number_of_executed_units", "peak_rss_mb")
    )
    trouble = ""
    if run.returncode or any(found.iterdir()):
        trouble = "\n".join([said[-4000:], *_kept(name, found)]) or f"exit status {run.returncode}"
    return Outcome(name, inputs, memory, trouble)


def _kept(name: str, found: Path) -> list[str]:
    """Keep what was found in the tree; how to repeat it."""
    lines = []
    for path in sorted(found.iterdir()):
        kept = CORPUS / name / path.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kept)
        lines.append(f"repeat: python -m tests.fuzz.guided {name} --input {kept.relative_to(REPOSITORY)}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
