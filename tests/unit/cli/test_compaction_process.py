"""A process that cleans gives way to others, as long as it gets on at all."""

from __future__ import annotations

import sys
from pathlib import Path

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
    assert [begun_with.take_part for begun_with in began(said)] == [False, True]


async def test_after_one_that_ended_by_itself_the_next_gives_way_again(tmp_path: Path) -> None:
    said = tmp_path / "said"
    cleaning = CompactionProcess(
        Settings.model_validate({"data": tmp_path}),
        turns=lambda _: None,
        command=(sys.executable, "-c", ENDING, str(said)),
    )
    await begun(cleaning)
    await begun(cleaning)
    assert [begun_with.take_part for begun_with in began(said)] == [False, False]


async def test_a_share_is_seen_by_the_process_that_runs_and_by_each_new_one(tmp_path: Path) -> None:
    said = tmp_path / "said"
    cleaning = CompactionProcess(
        Settings.model_validate({"data": tmp_path}),
        turns=lambda _: None,
        command=(sys.executable, "-c", LOOKING, str(said)),
    )
    for shares in ((0.5, 0.25), (0.125, 0.001, 1.0)):
        for share in shares:
            cleaning.use_share(share)
            await begun(cleaning)
        await cleaning.close()
    assert [float(line) for line in said.read_text().splitlines()] == [0.5, 0.25, 0.12, 0.01, 1.0]
    cleaning.use_share(0.5)  # and nobody looks


@pytest.mark.parametrize("options", [Options(7, False), Options(12, True)])
def test_a_command_line_is_understood_as_it_was_meant(options: Options) -> None:
    assert parse(arguments(options)) == options


def began(said: Path) -> list[Options]:
    return [parse(line.split()) for line in said.read_text().splitlines()]
