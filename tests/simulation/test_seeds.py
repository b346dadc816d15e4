"""A handful of seeds with every test run, and that a seed is the same history each time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testing.patience import Patience
from tests.simulation.mutants import PATCHES, ROOT, copy_tree, found_by, is_applying
from tests.simulation.seeds import HISTORIES, usual_names
from tests.support.gate_share import few_in_gate
from tools.stages import SEEDS

pytestmark = pytest.mark.simulation
in_campaign = pytest.mark.campaign("seeds")


def run(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """A process of its own: the order of sets of strings, and whatever a killed server leaves behind, stay in there."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=Patience(300).limit_s,
    )


def test_the_seeds_of_the_gate_have_each_kind_of_history() -> None:
    assert {name for seed in range(1, SEEDS + 1) for name in usual_names(seed)} == HISTORIES.keys()


@in_campaign
def test_some_seeds() -> None:
    done = run("--first", "1000", "--seeds", "6", "--processes", "2")
    assert done.returncode == 0, done.stdout
    assert "6 passed, 0 failed" in done.stdout


@few_in_gate(
    "history",
    [
        "owners",
        "servers",
        "cluster",
        "transactions",
        "consumers",
        "compaction",
        "delegated",
        "share",
        "delay",
        "lanes",
        "half",
        "views",
        "merging",
    ],
    every=4,
    others=in_campaign,
)
def test_a_seed_is_the_same_history_each_time(history: str) -> None:
    """Whether it is replayed alone or found by a search, and however sets of strings would be ordered otherwise."""
    replayed = run("--seed", "4", "--history", history, hash_seed="1")
    assert replayed.returncode == 0, replayed.stdout
    assert " callbacks, " in replayed.stdout
    found = run("--first", "4", "--seeds", "1", "--history", history, hash_seed="2")
    assert found.stdout.startswith(replayed.stdout)


def test_every_mutant_still_applies(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    broken = [patch.stem for patch in sorted(PATCHES.glob("*.patch")) if not is_applying(patch, tmp_path)]
    assert not broken


def test_the_tests_that_find_mutants_exist() -> None:
    for patch in sorted(PATCHES.glob("*.patch")):
        test = found_by(patch)
        if test is not None:
            path, name, *_ = test.split("::")  # what follows a class may be inherited
            text = (ROOT / path).read_text()
            name = name.partition("[")[0]
            assert re.search(rf"^((async )?(def|class) {name}\b|{name} = )", text, re.M), test
            assert re.match(r"# rule \d+: .+\n# found-by: ", patch.read_text()), patch.name
