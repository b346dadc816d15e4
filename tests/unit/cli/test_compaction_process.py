"""A process that cleans gives way to others, as long as it gets on at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bmq.cli.compaction_process import TAKE_PART, CompactionProcess
from bmq.cli.processor_turns import Turns, is_starved, turns_of
from bmq.cli.settings import Settings
from bmq.log.compaction import CleaningInterrupted, CleaningPlan

pytestmark = pytest.mark.unit

PLAN = CleaningPlan("topic", 0, (), (), 0, 0, 0, 0, (), (), 100, 4_096)
# Says how it was begun; one that gives way to others then does nothing until its input ends.
WORKER = "import sys; open(sys.argv[1], 'a').write(repr(sys.argv[2:])); sys.argv[2:] or sys.stdin.buffer.read()"
ENDING = "import sys; open(sys.argv[1], 'a').write(repr(sys.argv[2:]))"


def test_who_runs_or_waits_for_something_else_is_not_starved() -> None:
    began = Turns(5_000_000_000, 1_000_000_000)
    assert is_starved(began, Turns(5_100_000_000, 60_000_000_000), 60.0)
    assert not is_starved(began, Turns(15_000_000_000, 50_000_000_000), 60.0)
    assert not is_starved(began, Turns(5_100_000_000, 20_000_000_000), 60.0)


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    assert turns_of(2**22 + 1) is None


async def begun(cleaning: CompactionProcess) -> None:
    with pytest.raises(CleaningInterrupted):
        async for _ in cleaning.clean(PLAN):
            raise AssertionError("it said something")


async def test_after_one_that_starved_the_next_takes_part(tmp_path: Path) -> None:
    said = tmp_path / "said"
    counts = (Turns(0, number * 10**12) for number in range(1_000))
    cleaning = CompactionProcess(
        Settings.model_validate({"data": tmp_path}),
        watch_s=0.1,
        turns=lambda _: next(counts),
        command=(sys.executable, "-c", WORKER, str(said)),
    )
    await begun(cleaning)
    await begun(cleaning)
    assert said.read_text().endswith(f"['{TAKE_PART}']")


async def test_after_one_that_ended_by_itself_the_next_gives_way_again(tmp_path: Path) -> None:
    said = tmp_path / "said"
    cleaning = CompactionProcess(
        Settings.model_validate({"data": tmp_path}),
        turns=lambda _: None,
        command=(sys.executable, "-c", ENDING, str(said)),
    )
    await begun(cleaning)
    await begun(cleaning)
    assert said.read_text() == "[][]"
