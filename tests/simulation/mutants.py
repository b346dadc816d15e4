"""Takes each rule of docs/FENCING.md out and sees that a test finds it: `python -m tests.simulation.mutants [NAME ...]`.

A mutant is a patch in mutants/ with a heading that names its rule. The simulation has to find it, unless a second line
names the test that does, because only real HDFS, or one particular moment, shows the difference:

    # rule 10: the file's length is believed before complete() has succeeded
    # found-by: tests/integration/hdfs/test_takeover_hazards.py::test_a_length_is_believed_after_complete_only

The simulation judges by what clients see alone (`--outside`). Two more lines of a heading say where it is found soonest:
the kind of history, and rates of the rarer faults that it takes:

    # history: cluster
    # faults: long_pauses=0.7 late_calls=0

A last one, `# judged: inside`, is for mutants that no client can notice because other rules make good what they break.

Those found by an integration test run with `--hdfs` alone. A mutant fails the run when it no longer applies, or when it
lives through all seeds or through its test. In the end the unchanged code has to pass some seeds, the very seeds that
found mutants, and those tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "mutants"
_COPIED = ("bmq", "tests")
UNCHANGED_SEEDS = 20
TEST_TIMEOUT_S = 600
_FAILED = re.compile(r"^FAILED tests/", re.MULTILINE)  # pytest's summary has no such line for an error of a fixture
_REASON = re.compile(r"^E +(\S.*)$", re.MULTILINE)
_FOUND_BY = re.compile(r"^# found-by: (tests/\S+\.py::\S+)$", re.MULTILINE)
_TESTS_FAILED = 1  # pytest's exit code; any other one but 0 says that they did not run


@dataclass(frozen=True, slots=True)
class Verdict:
    """`found`: by which seed, or "test"; None: not found. `sentence`: what was violated, or what went wrong.

    `replay`: the simulation's options for the seed that found it.
    """

    name: str
    rule: str
    found: str | None
    seconds: float
    sentence: str
    replay: tuple[str, ...] = ()

    def line(self) -> str:
        found = self.found or "SURVIVED"
        return f"{self.name:38} {self.rule:9} {found:10} {self.seconds:5.1f} s  {self.sentence[:150]}"


def copy_tree(target: Path) -> None:
    ignored = shutil.ignore_patterns("*.pyc")
    for part in _COPIED:
        shutil.copytree(ROOT / part, target / part, ignore=ignored)
    for entry in ROOT.iterdir():  # settings, and the jars a cluster runs from
        if entry.name not in (*_COPIED, ".git"):
            (target / entry.name).symlink_to(entry)


def simulate(tree: Path, seeds: int, options: Sequence[str] = ()) -> tuple[int, str]:
    """(exit code, output) of a run in `tree` that ends with the first violation."""
    command = [sys.executable, "-m", "tests.simulation", "--seeds", str(seeds), "--stop-at-first", "--processes", "2"]
    command += options
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run_tests(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """(exit code, output) of pytest in `tree`."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=TEST_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return _TESTS_FAILED, f"FAILED {tests[0]}: not done in {TEST_TIMEOUT_S} s"
    return done.returncode, done.stdout + done.stderr


def found_by(patch: Path) -> str | None:
    """The test that has to find it; None: the simulation."""
    named = _FOUND_BY.search(patch.read_text())
    return named[1] if named else None


def options_of(patch: Path, histories: Sequence[str] = ()) -> list[str]:
    """What the simulation is told: as the heading says, but for `histories` if there are any."""
    heading = patch.read_text().partition("\n--- ")[0]

    def named(line: str) -> Sequence[str]:
        found = re.search(rf"^# {line}: (.+)$", heading, re.MULTILINE)
        return found[1].split() if found else ()

    options = [part for name in histories or named("history") for part in ("--history", name)]
    options += [part for rate in named("faults") for part in ("--fault", rate)]
    return options if re.search("^# judged: inside$", heading, re.MULTILINE) else [*options, "--outside"]


_BUILD = "import setuptools; setuptools.setup = lambda **_: None; import setup; print(setup.build_kernel())"


def build_kernel(tree: Path) -> bool:
    """Compile the kernel of a copied tree, as an installation does. Whether it is there now."""
    done = subprocess.run([sys.executable, "-c", _BUILD], cwd=tree, capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


def changes_kernel(patch: Path) -> bool:
    return re.search(r"^--- a/bmq/records/native/\S+\.[ch]$", patch.read_text(), re.MULTILINE) is not None


def needs_hdfs(patch: Path) -> bool:
    return (found_by(patch) or "").startswith("tests/integration/")


def is_applying(patch: Path, tree: Path) -> bool:
    """Whether the code still has what the mutant takes out."""
    return _patch(patch, tree, is_check=True)


def _patch(patch: Path, tree: Path, *, is_check: bool = False) -> bool:
    """By git where `patch` is not installed; either may be missing on a small machine."""
    if shutil.which("patch"):
        command = ["patch", "--strip=1", "--fuzz=2", "--forward", "--batch"] + ["--dry-run"] * is_check
    else:
        command = ["git", "apply", "-p1", "-C1"] + ["--check"] * is_check
    with patch.open("rb") as text:
        return subprocess.run(command, cwd=tree, stdin=text, capture_output=True, check=False).returncode == 0


def try_mutant(patch: Path, seeds: int, histories: Sequence[str]) -> Verdict:
    name = patch.stem
    heading = re.match(r"# (rule \d+):", patch.read_text())
    rule = heading[1] if heading else "no rule"
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bmq-mutant-") as directory:
        tree = Path(directory)
        copy_tree(tree)
        if not heading or not is_applying(patch, tree):
            return Verdict(name, rule, None, 0.0, "the patch has no heading or does not apply any more")
        _patch(patch, tree)
        if changes_kernel(patch) and not build_kernel(tree):
            return Verdict(name, rule, None, 0.0, "the kernel cannot be compiled with it")
        test = found_by(patch)
        if test is not None:
            code, output = run_tests(tree, [test])
            has_failed = code == _TESTS_FAILED and _FAILED.search(output) is not None
            reason = _REASON.search(output)
            sentence = reason[1] if reason else output.strip().rpartition("\n")[2]
            return Verdict(name, rule, "test" if has_failed else None, time.monotonic() - started, sentence)
        options = options_of(patch, histories)
        _, output = simulate(tree, seeds, options)
    seconds = time.monotonic() - started
    found = re.search(r"^seed (\d+): .*VIOLATION (.*)$", output, re.MULTILINE)
    if found:
        return Verdict(name, rule, f"seed {found[1]}", seconds, found[2], ("--first", found[1], *options))
    return Verdict(name, rule, None, seconds, output.strip().rpartition("\n")[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--seeds", type=int, default=200, help="seeds a mutant has to live through to survive")
    parser.add_argument("--history", action="append", default=[], help="only this kind of history; default: each")
    parser.add_argument("--hdfs", action="store_true", help="also those that only tests with a real HDFS find")
    arguments = parser.parse_args()
    patches = {path.stem: path for path in sorted(PATCHES.glob("*.patch"))}
    if unknown := set(arguments.names) - set(patches):
        parser.error(f"no mutant named {', '.join(sorted(unknown))}; there are {', '.join(patches)}")
    names = arguments.names or [name for name, patch in patches.items() if arguments.hdfs or not needs_hdfs(patch)]
    survivors, replays, started = [], set(), time.monotonic()
    for name in names:
        verdict = try_mutant(patches[name], arguments.seeds, arguments.history)
        print(verdict.line(), flush=True)
        if verdict.found is None:
            survivors.append(name)
        elif verdict.replay:
            replays.add(verdict.replay)
    code, output = simulate(ROOT, UNCHANGED_SEEDS)
    for replay in sorted(replays):
        if code == 0:
            code, output = simulate(ROOT, 1, replay)
    tests = sorted({test for name in names if (test := found_by(patches[name])) is not None})
    if code == 0 and tests:
        code, output = run_tests(ROOT, tests)
    print(f"unchanged code: {'passes' if code == 0 else output.strip()}", flush=True)
    if survivors:
        print(f"not found: {', '.join(survivors)}")
    print(f"({len(names)} mutants in {time.monotonic() - started:.0f} s)")
    return 1 if survivors or code else 0


if __name__ == "__main__":
    sys.exit(main())
