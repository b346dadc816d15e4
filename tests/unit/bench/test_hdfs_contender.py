"""A contender that fails, falls silent, talks nonsense or dies is reported in a sentence, and is gone afterwards."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.hdfs.contender import Contender, ContenderFailed

pytestmark = pytest.mark.campaign("unit")

SCRIPT = """
import json, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "die":
        sys.exit("it was told to die")
    if words[0] == "sleep":
        time.sleep(60)
    if words[0] == "nonsense":
        print("what?", flush=True)
    elif words[0] == "fail":
        print(json.dumps({"error": "no room"}), flush=True)
    else:
        print(json.dumps({"words": words}), flush=True)
"""


@pytest.fixture
async def contender(tmp_path: Path) -> AsyncIterator[Contender]:
    started = await Contender.start("child", [sys.executable, "-c", SCRIPT], tmp_path / "child.log")
    yield started
    await started.kill()


async def test_commands_are_answered_in_order(contender: Contender) -> None:
    assert await contender.ask("append", 5, "x") == {"words": ["append", "5", "x"]}
    with pytest.raises(ContenderFailed, match=r"child: 'fail' failed: no room"):
        await contender.ask("fail")
    assert await contender.ask("again") == {"words": ["again"]}
    await contender.stop()


async def test_a_dead_one_shows_the_end_of_its_log(contender: Contender) -> None:
    with pytest.raises(ContenderFailed, match=r"ended during 'die'; the end of its log:\nit was told to die"):
        await contender.ask("die")
    with pytest.raises(ContenderFailed, match="ended"):
        await contender.ask("again")


async def test_a_silent_one_is_killed(contender: Contender) -> None:
    with pytest.raises(ContenderFailed, match=r"did not answer 'sleep' within 0\.2 s"):
        await contender.ask("sleep", timeout_s=0.2)
    with pytest.raises(ContenderFailed, match="ended"):
        await contender.ask("again")


async def test_nonsense_is_no_answer(contender: Contender) -> None:
    with pytest.raises(ContenderFailed, match="answered 'nonsense' with"):
        await contender.ask("nonsense")


async def test_one_that_does_not_start_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ContenderFailed, match=r"ended during 'its start'(.|\n)*no such luck"):
        await Contender.start("child", [sys.executable, "-c", "import sys; sys.exit('no such luck')"], tmp_path / "log")
