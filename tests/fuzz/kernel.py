"""Fuzzes the kernel under ASan and UBSan beside its twins: python -m tests.fuzz.kernel --minutes 30; `make fuzz` does too.

libFuzzer (clang) looks for inputs that reach new branches; it and every mutation of ours are then answered by the kernel
and by its twins. Prints the numbers of inputs, crashes and different answers; exit status 1 if there is one of either.
What it finds stays in .cache/fuzz and is the beginning of the next run; a crash is a file crash-… there.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from testing.processes import REPOSITORY
from tests.fuzz.kernel_cases import SANITIZED, build, differences, mutated, seeds

DIRECTORY = REPOSITORY / ".cache" / "fuzz"
COVERAGE_SHARE = 0.6
"""Of the time is libFuzzer's; the rest compares."""
MEMORY_MB_MAX = 300
QUARANTINE = "quarantine_size_mb=32"
"""ASan keeps freed memory, by default almost as much as the limit."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    seed = time.time_ns() % 2**31 if given.seed is None else given.seed
    until_s = time.monotonic() + given.minutes * 60
    corpus = DIRECTORY / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(data)
    fuzzer = build("clang", "kernel_fuzzer", DIRECTORY / "fuzzer", *SANITIZED, "-fsanitize=fuzzer")
    runs, crashes = fuzz(fuzzer, corpus, int(given.minutes * 60 * COVERAGE_SHARE), seed)
    driver = build("clang", "kernel_driver", DIRECTORY / "driver", *SANITIZED)
    inputs = [path.read_bytes() for path in sorted(corpus.iterdir())]
    found = list(differences(driver, inputs))
    compared, dice = len(inputs), Random(seed)
    while time.monotonic() < until_s and len(found) < 20:
        more = list(mutated(inputs, dice, 20_000))
        found += differences(driver, more)
        compared += len(more)
    for data, ours, theirs in found[:20]:
        print(f"{data.hex()}\n  kernel {ours}\n  twin   {theirs}")
    print(
        f"seed {seed}: libFuzzer ran {runs} inputs, {crashes} crashes; {compared} inputs compared, {len(found)} differ"
    )
    return 1 if crashes or found else 0


def fuzz(fuzzer: Path, corpus: Path, seconds: int, seed: int) -> tuple[int, int]:
    """(inputs run, crashes) of libFuzzer."""
    run = subprocess.run(
        [
            fuzzer,
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            "-max_len=4096",
            "-print_final_stats=1",
            f"-rss_limit_mb={MEMORY_MB_MAX}",
            f"-artifact_prefix={DIRECTORY}/",
            corpus,
        ],
        env={**os.environ, "ASAN_OPTIONS": QUARANTINE},
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    count = re.search(r"number_of_executed_units:\s*(\d+)", run.stderr)
    if run.returncode:
        print(run.stderr[-8000:])
    return int(count[1]) if count else 0, 1 if run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
