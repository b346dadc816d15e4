"""A clock that jumps at certain reads, and the plugin that lets it jump in tests."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jumping_clock import JUMP_S, JUMPS, JUMPS_PER_TEST, READS, SHORT_S, JumpingClock, jump_reads

pytestmark = pytest.mark.campaign("unit")

REPOSITORY = Path(__file__).parents[3]
TEST = """
import asyncio, time
from time import monotonic

async def test_a_limit_that_is_too_short():
    async with asyncio.timeout(0.25):
        for _ in range(2_000):
            await asyncio.sleep(0)

async def test_a_limit_that_is_long_enough():
    async with asyncio.timeout(5):
        for _ in range(2_000):
            await asyncio.sleep(0)

def test_clocks_agree():
    began = monotonic(), time.perf_counter(), time.time(), time.monotonic_ns()
    while monotonic() < began[0] + 0.9:  # it is there by jumps
        pass
    assert time.monotonic_ns() >= began[3] + 900_000_000
"""


def test_reads_and_lengths_come_from_the_dice() -> None:
    jumps = jump_reads(random.Random("1 a"))
    assert jumps == jump_reads(random.Random("1 a")) != jump_reads(random.Random("1 b"))
    assert len(jumps) == JUMPS_PER_TEST
    assert sorted(jumps) == jumps
    assert all(JUMP_S[0] <= length_s <= JUMP_S[1] for _, length_s in jumps)


def test_a_limit_of_some_seconds_outlives_all_jumps_of_a_test() -> None:
    assert JUMPS_PER_TEST * JUMP_S[1] < SHORT_S


def test_it_jumps_before_the_named_reads_and_never_back() -> None:
    clock = JumpingClock()
    clock.begin([(2, 1.0), (4, 0.5)])
    assert [clock.offset_s() for _ in range(5)] == [0.0, 1.0, 1.0, 1.5, 1.5]
    clock.begin([(1, 0.25)])
    assert (clock.wall_offset_s(), clock.offset_s(), clock.reads) == (0.25, 1.75, 2)


def test_the_plugin_lets_clocks_jump_in_tests_and_notes_timers(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"),
            *("-p", "tests.support.jumping_clock", "-o", "asyncio_mode=auto", "--rootdir", str(tmp_path)),
            str(tmp_path / "test_it.py"),
        ],
        env={**os.environ, JUMPS: "1", READS: str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 failed, 2 passed" in done.stdout
    assert "FAILED test_it.py::test_a_limit_that_is_too_short" in done.stdout
    (noted,) = tmp_path.glob("*.jsonl")
    lines = {line["name"].partition("::")[2]: line for line in map(json.loads, noted.read_text().splitlines())}
    assert lines["test_a_limit_that_is_too_short"]["timers"] == pytest.approx({"test_it.py:6": 0.25}, abs=0.01)
    assert lines["test_clocks_agree"]["reads"] > 2
