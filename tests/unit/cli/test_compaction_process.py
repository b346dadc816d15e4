"""A process that cleans gives way to others, as long as it gets on at all."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from bmq.cli.compaction_command import Options, arguments, parse
from bmq.cli.compaction_process import CompactionProcess
from bmq.cli.processor_turns import Turns, is_starved, turns_of
from bmq.cli.settings import Settings
from bmq.log.compaction import CleaningInterrupted, CleaningPlan

pytestmark = pytest.mark.unit

PLAN = CleaningPlan("topic", 0, (), (), 0, 0, 0, 0, (), (), 100, 4_096)
# Says how it was begun; one that gives way to others then does nothing until its input ends.
WORKER = "import sys; print(*sys.argv[2:], file=open(sys.argv[1], 'a')); sys.argv[4:] or sys.stdin.buffer.read()"
ENDING = "import sys; print(*sys.argv[2:], file=open(sys.argv[1], 'a'))"
# Looks at its share with each plan, which comes to nothing.
LOOKING = """
import struct, sys
from bmq.cli.shared_share import SharedShare
share = SharedShare(int(sys.argv[3]))
said, plans = open(sys.argv[1], "a"), 0
while head := sys.stdin.buffer.read(5):
    sys.stdin.buffer.read(struct.unpack("<BI", head)[1])
    plans += 1
    if plans > 1:  # the first are the settings
        print(share.look(), file=said, flush=True)
        sys.stdout.buffer.write(struct.pack("<BI", 4, 4) + b"away")
        sys.stdout.buffer.flush()
"""


def test_who_runs_or_waits_for_something_else_is_not_starved() -> None:
    began = Turns(5_000_000_000, 1_000_000_000)
    assert is_starved(began, Turns(5_100_000_000, 60_000_000_000), 60.0)
    assert not is_starved(began, Turns(15_000_000_000, 50_000_000_000), 60.0)
    assert not is_starved(began, Turns(5_100_000_000, 20_000_000_000), 60.0)


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    assert turns_of(2**22 + 1) is None


def cleaning_by(program: str, directory: Path, **more: Any) -> CompactionProcess:
    """Begins a Python `program`, whose first argument is the file `said` of the directory."""
    return CompactionProcess(
        Settings.model_validate({"data": directory}),
        command=(sys.executable, "-c", program, str(directory / "said")),
        **more,
    )


async def begun(cleaning: CompactionProcess) -> None:
    with pytest.raises(CleaningInterrupted):
        async for _ in cleaning.clean(PLAN):
            raise AssertionError("it said something")


async def test_after_one_that_starved_the_next_takes_part(tmp_path: Path) -> None:
    counts = (Turns(0, number * 10**12) for number in range(1_000))
    cleaning = cleaning_by(WORKER, tmp_path, watch_s=0.1, turns=lambda _: next(counts))
    await begun(cleaning)
    await begun(cleaning)
    assert [options.take_part for options in began(tmp_path)] == [False, True]


async def test_after_one_that_ended_by_itself_the_next_gives_way_again(tmp_path: Path) -> None:
    cleaning = cleaning_by(ENDING, tmp_path, turns=lambda _: None)
    await begun(cleaning)
    await begun(cleaning)
    assert [options.take_part for options in began(tmp_path)] == [False, False]


async def test_a_share_is_seen_by_the_process_that_runs_and_by_each_new_one(tmp_path: Path) -> None:
    cleaning = cleaning_by(LOOKING, tmp_path, turns=lambda _: None)
    for shares in ((0.5, 0.25), (0.125, 0.001, 1.0)):
        for share in shares:
            cleaning.use_share(share)
            await begun(cleaning)
        await cleaning.close()
    assert looked_at(tmp_path) == [0.5, 0.25, 0.12, 0.01, 1.0]
    cleaning.use_share(0.5)  # and nobody looks


async def test_a_process_that_is_begun_while_the_one_before_ends_sees_later_shares(tmp_path: Path) -> None:
    cleaning = cleaning_by(LOOKING, tmp_path, turns=lambda _: None)
    cleaning.use_share(0.5)
    await begun(cleaning)
    ending = asyncio.ensure_future(cleaning.close())
    await asyncio.sleep(0)  # it was told to end, and is waited for
    await begun(cleaning)
    await ending
    cleaning.use_share(0.25)
    await begun(cleaning)
    await cleaning.close()
    assert looked_at(tmp_path) == [0.5, 0.5, 0.25]


@pytest.mark.parametrize("options", [Options(7, False), Options(12, True)])
def test_a_command_line_is_understood_as_it_was_meant(options: Options) -> None:
    assert parse(arguments(options)) == options


def began(directory: Path) -> list[Options]:
    return [parse(line.split()) for line in (directory / "said").read_text().splitlines()]


def looked_at(directory: Path) -> list[float]:
    return [float(line) for line in (directory / "said").read_text().splitlines()]
