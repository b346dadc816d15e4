"""Takes each rule of docs/FENCING.md out and sees that the simulation finds it: `python -m tests.simulation.mutants [NAME ...]`.

A mutant is a patch in mutants/ with a heading that names its rule. It fails the run when it no longer applies, or when it
lives through all seeds. At the end the unchanged code has to pass some seeds.
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
UNCHANGED_SEEDS = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """`seed` -1: not found. `sentence`: what was violated, or what went wrong."""

    name: str
    rule: str
    seed: int
    seconds: float
    sentence: str

    def line(self) -> str:
        found = f"seed {self.seed}" if self.seed >= 0 else "SURVIVED"
        return f"{self.name:34} {self.rule:9} {found:10} {self.seconds:5.1f} s  {self.sentence[:150]}"


def copy_tree(target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for part in ("bmq", "tests"):
        shutil.copytree(ROOT / part, target / part, ignore=ignored)


def simulate(tree: Path, seeds: int, histories: Sequence[str] = ()) -> tuple[int, str]:
    """(exit code, output) of a run in `tree` that ends with the first violation."""
    command = [sys.executable, "-m", "tests.simulation", "--seeds", str(seeds), "--stop-at-first", "--processes", "2"]
    command += [option for name in histories for option in ("--history", name)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


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
            return Verdict(name, rule, -1, 0.0, "the patch has no heading or does not apply any more")
        _patch(patch, tree)
        _, output = simulate(tree, seeds, histories)
    seconds = time.monotonic() - started
    found = re.search(r"^seed (\d+): .*VIOLATION (.*)$", output, re.MULTILINE)
    if found:
        return Verdict(name, rule, int(found[1]), seconds, found[2])
    return Verdict(name, rule, -1, seconds, output.strip().rpartition("\n")[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--seeds", type=int, default=200, help="seeds a mutant has to live through to survive")
    parser.add_argument("--history", action="append", default=[], help="only this kind of history; default: each")
    arguments = parser.parse_args()
    patches = {path.stem: path for path in sorted(PATCHES.glob("*.patch"))}
    if unknown := set(arguments.names) - set(patches):
        parser.error(f"no mutant named {', '.join(sorted(unknown))}; there are {', '.join(patches)}")
    survivors = []
    for name in arguments.names or patches:
        verdict = try_mutant(patches[name], arguments.seeds, arguments.history)
        print(verdict.line(), flush=True)
        if verdict.seed < 0:
            survivors.append(name)
    code, output = simulate(ROOT, UNCHANGED_SEEDS)
    print(f"unchanged code: {'passes' if code == 0 else output.strip()}", flush=True)
    if survivors:
        print(f"not found: {', '.join(survivors)}")
    return 1 if survivors or code else 0


if __name__ == "__main__":
    sys.exit(main())
