"""Run the parts of `make campaign`: long stories, dice, many of a kind, Apache Kafka side by side, Spark, benchmarks' smokes.

    python -m tools.campaign [--seed SEED] [--resume] [PART …]      # default: all parts
    python -m tools.campaign --due                                  # list those that are due, and run nothing

The seed decides the order of tests, hashes and fresh histories. It is drawn from the day and the revision, and printed first;
given again it does the same again. Each part ends within a quarter of an hour on a machine with two processors, and is written
into tests/campaign.json at its end, so that `--resume` goes on behind the last one that passed at this revision.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.campaign_record import RECORD, PartRecord, described_record, due_parts, read_record, write_record
from tools.machine_lock import machine_lock
from tools.machine_state import described, machine_state
from tools.stages import BY_FILE, COMPUTING, REAL, REPOSITORY, Outcome, Stage, pytest, report, run_all

LIMIT_S: Final = 1_800
"""Ends a part that hangs. TARGET_S is what it may take on a machine that has nothing else to do."""
TARGET_S: Final = 900
SEED_MAX: Final = 2**31
# What a part that starts whole servers depends on. Not on documents, nor on other parts' tests.
PRODUCT: Final = ("bmq", "setup.py", "pyproject.toml", "testing", "tests/support")
SPARK: Final = (
    "bmq/spark",
    "bmq/records",
    "bmq/table_definitions",
    "bmq/protocol",
    "bmq/log",
    "bmq/routing",
    "tests/e2e",
)


@dataclass(frozen=True, slots=True)
class Part:
    """`depends`: paths of the repository; a commit that touches one of them makes the part due. `tests`: where its tests lie."""

    name: str
    depends: Sequence[str]
    tests: Sequence[str] = REAL
    commands: Sequence[Sequence[str]] = ()

    def stages(self, seed: int) -> list[Stage]:
        workers = BY_FILE if self.tests == REAL else COMPUTING
        place, limits = f"campaign:{self.name}", (LIMIT_S, 600)
        tests = [pytest(place, *limits, *workers, *self.tests, name=self.name, dice=seed)] if self.tests else []
        return [*tests, *(module_stage([word.format(seed=seed) for word in words]) for words in self.commands)]


def module_stage(words: Sequence[str]) -> Stage:
    """`words`: a module of ours and its arguments."""
    return Stage(" ".join(words[:2]), (sys.executable, "-m", *words), LIMIT_S)


def smokes(*benches: str) -> tuple[tuple[str, ...], ...]:
    return tuple(("tools.bench_smoke", bench) for bench in benches)


PARTS: Final = (
    Part("soak", (*PRODUCT, "tests/soak")),
    Part("hdfs-faults", (*PRODUCT, "tests/integration/hdfs")),
    Part("hdfs-secure", (*PRODUCT, "tests/integration/hdfs", "tests/e2e")),
    Part("zookeeper", ("bmq/election", "bmq/dev", "tests/integration")),
    Part("workers", ("bmq/cli", "bmq/membership", "tests/integration")),
    Part("kills", (*PRODUCT, "tests/e2e")),
    Part("cluster", (*PRODUCT, "tests/e2e/cluster")),
    Part("kafka", (*PRODUCT, "tests/conformance", "tests/tools_table", "tests/e2e")),
    Part("browser", (*PRODUCT, "tests/e2e")),
    Part(
        "kubernetes", ("bmq/admin/drivers", "deploy/helm", "deploy/dev/kubernetes", "testing", "tests/e2e/kubernetes")
    ),
    Part("spark-tables", SPARK),
    Part("spark-jobs", SPARK),
    Part("spark-cluster", SPARK),
    Part("bench", ("bench", "bmq", "testing"), commands=smokes("standalone", "hdfs", "cluster", "topics")),
    # What the gate has a share of, and the tests of benches, soaks and tools.
    Part("unit", ("bmq", "bench", "testing", "tests", "tools", "docs"), ("tests/unit",)),
    Part(
        "seeds",
        ("bmq", "tests/simulation"),
        ("tests/simulation",),
        # A kind of history that takes turns of eight is asked for by name: enough of it for its floors.
        (
            ("tests.simulation", "--seeds", "100"),
            ("tests.simulation", "--history", "share", "--seeds", "40"),
            ("tests.simulation", "--history", "delay", "--seeds", "40"),
            ("tests.simulation", "--history", "half", "--seeds", "40"),
            ("tests.simulation", "--history", "views", "--seeds", "20"),
        ),
    ),
    Part(
        "packages",
        (
            "deploy",
            "pyproject.toml",
            "setup.py",
            "tools/bare.py",
            "tools/debian_package.py",
            "tools/container_image.py",
            "tools/wheel_package.py",
            "docs",
            "mkdocs.yml",
        ),
        (),
        (
            ("tools.debian_package", "--check"),
            ("tools.container_image", "--check"),
            ("tools.wheel_package", "--check"),
            ("tools.site",),
        ),
    ),
    Part(
        "fresh",
        ("bmq", "tests/simulation", "tests/unit"),
        (),
        (("tools.fresh", "--seeds", "20", "--first", "{seed}"),),
    ),
)


def revision() -> str:
    """The commit, with `+` behind it when files differ from it."""
    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit}+" if git("status", "--porcelain", "--untracked-files=no", "--", f":!{RECORD}") else commit


def git(*arguments: str) -> str:
    """What it printed; empty when it could not."""
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def drawn_seed(day: str, at: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{day} {at}".encode()).digest()[:8], "big") % SEED_MAX


def is_within(commit: str, at: str) -> bool:
    """Whether the revision `at` has this commit. False when either is not known here."""
    if not commit or not at:
        return False
    done = subprocess.run(["git", "merge-base", "--is-ancestor", commit, at], cwd=REPOSITORY, capture_output=True)
    return done.returncode == 0


def last_changes() -> dict[str, str]:
    """By part: the last commit that it depends on."""
    return {part.name: git("log", "-1", "--format=%H", "--", *part.depends) for part in PARTS}


def run_part(part: Part, seed: int, at: str) -> tuple[PartRecord, list[Outcome]]:
    load, began = os.getloadavg()[0], time.time()
    outcomes = run_all(part.stages(seed))
    seconds = sum(outcome.seconds for outcome in outcomes)
    if seconds > TARGET_S:
        print(f"warning: part {part.name} took {seconds:.0f} s, more than {TARGET_S}", flush=True)
    return (
        PartRecord(
            revision=at,
            seed=seed,
            day=time.strftime("%Y-%m-%d", time.gmtime(began)),
            processors=os.cpu_count() or 1,
            loop_s=round(loop_s(), 2),
            load=round(load, 1),
            seconds=round(seconds),
            outcome=outcome_word(outcomes),
            closing=tuple(outcome.closing_line[:200] for outcome in outcomes),
        ),
        outcomes,
    )


def outcome_word(outcomes: Sequence[Outcome]) -> str:
    """`passed`, `failed`, or `invalid` where nothing failed but tests in which the machine stood still."""
    if any(not outcome.passed and not outcome.is_invalid for outcome in outcomes):
        return "failed"
    return "passed" if all(outcome.passed for outcome in outcomes) else "invalid"


def loop_s() -> float:
    """How fast this machine is: seconds for five million additions in Python."""
    began, total = time.perf_counter(), 0
    for number in range(5_000_000):
        total += number
    return time.perf_counter() - began


def main() -> int:
    parts: Mapping[str, Part] = {part.name: part for part in PARTS}
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}")
    options.add_argument("--seed", type=int, help=f"0 to {SEED_MAX - 1}; default: drawn from the day and the revision")
    options.add_argument("--resume", action="store_true", help="leave out what passed at this revision")
    options.add_argument("--due", action="store_true", help="list what is due and why, and run nothing")
    given = options.parse_args()
    unknown = [name for name in given.parts if name not in parts]
    if unknown:
        options.error(f"there is no part {', '.join(unknown)}; there are {', '.join(parts)}")
    if given.seed is not None and not 0 <= given.seed < SEED_MAX:
        options.error(f"the seed {given.seed} is not within 0 to {SEED_MAX - 1}")
    path = REPOSITORY / RECORD
    record = read_record(path)
    if given.due:
        for name, reason in due_parts(record, last_changes(), is_within).items():
            print(f"{name:14} {reason}")
        return 0
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    at = revision()
    seed = drawn_seed(time.strftime("%Y-%m-%d", time.gmtime()), at) if given.seed is None else given.seed
    chosen = [part for part in PARTS if not given.parts or part.name in given.parts]
    if given.resume:
        chosen = [part for part in chosen if not record.get(part.name, PartRecord()).has_passed_at(at)]
    print(
        f'seed {seed}, revision {at}; the same again: make campaign SEED={seed} PARTS="{" ".join(p.name for p in chosen)}"'
    )
    outcomes: list[Outcome] = []
    with machine_lock("make campaign"):
        print("\n".join(described(machine_state())), flush=True)
        for part in chosen:
            record[part.name], of_part = run_part(part, seed, at)
            outcomes += of_part
            # At once: the next part may be ended from outside.
            write_record(path, record)
    print("\n".join(described_record({part.name: record[part.name] for part in chosen})))
    return report("campaign", outcomes)


if __name__ == "__main__":
    sys.exit(main())
