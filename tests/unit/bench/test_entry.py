"""`python -m bench NAME` finds every benchmark, and says so when there is none."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from bench.__main__ import DIRECTORY, benchmarks, main, module_of, subject
from testing.processes import REPOSITORY

pytestmark = pytest.mark.campaign("unit")


def test_every_campaign_and_every_micro_benchmark_has_a_name_of_its_own() -> None:
    files = {*DIRECTORY.glob("*/__main__.py"), *DIRECTORY.glob("micro_*.py")} - {DIRECTORY / "micro_cluster.py"}
    assert set(benchmarks().values()) == files, "micro_cluster.py is what some of them share"
    assert {"cluster", "standalone", "append", "proxy"} <= set(benchmarks())


def test_names_stand_for_modules_that_can_be_run() -> None:
    for name, path in benchmarks().items():
        module = module_of(name)
        assert module is not None
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin == str(path)
    assert module_of("core.revisions") == "bench.core.revisions"
    assert module_of("micro_append") == "bench.micro_append"


@pytest.mark.parametrize("name", ["", "none", "../tests", "core.none", "__main__", "core/revisions"])
def test_a_name_of_no_benchmark_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"there is no benchmark {name}: ") and said.err.count("\n") == 1


def test_without_a_name_each_benchmark_is_listed_with_its_subject(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, path in benchmarks().items():
        assert f"{name:<18}{subject(path)}" in lines and subject(path)


def test_options_reach_the_benchmark() -> None:
    command = [sys.executable, "-m", "bench", "append", "--help"]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert "--batches" in ran.stdout
