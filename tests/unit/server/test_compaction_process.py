"""A process that cleans gives way to others, as long as it gets on at all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bmq.log.compaction import CleanerUnavailable, CleaningInterrupted, CleaningPlan
from bmq.log.manifest import Extent
from bmq.server.compaction_command import Options, arguments, parse
from bmq.server.compaction_process import BRIEF_BYTES_MAX, CompactionProcess
from bmq.server.compaction_settings import CompactionSettings
from bmq.server.processor_turns import Turns, is_starved, turns_of
from bmq.server.settings import Settings

pytestmark = pytest.mark.unit


def plan_of(size_bytes: int) -> CleaningPlan:
    extent = Extent(0, 0, 0, 0, size_bytes, 0, size_bytes, 0, 1, -1)
    return CleaningPlan("topic", 0, ((extent,),), (("path",),), 0, 0, 0, 0, (), (), 100, 4_096)


PLAN = plan_of(BRIEF_BYTES_MAX + 1)
SMALL = plan_of(BRIEF_BYTES_MAX)
# Says how it was begun; one that gives way to others then does nothing until its input ends.
WORKER = "import sys; print(*sys.argv[2:], file=open(sys.argv[1], 'a')); sys.argv[4:] or sys.stdin.buffer.read()"
ENDING = "import sys; print(*sys.argv[2:], file=open(sys.argv[1], 'a'))"
# Looks at its share with each plan, which comes to nothing.
LOOKING = """
import struct, sys
from bmq.server.shared_cpu_share import SharedCpuShare
share = SharedCpuShare(int(sys.argv[3]))
said, plans = open(sys.argv[1], "a"), 0
while head := sys.stdin.buffer.read(5):
    sys.stdin.buffer.read(struct.unpack("<BI", head)[1])
    plans += 1
    if plans > 1:  # the first are the settings
        print(share.get(), file=said, flush=True)
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


async def begun(cleaning: CompactionProcess, plan: CleaningPlan = PLAN) -> CleaningInterrupted:
    """Why it ended."""
    with pytest.raises(CleaningInterrupted) as caught:
        async for _ in cleaning.clean(plan):
            raise AssertionError("it said something")
    return caught.value


async def test_after_one_that_starved_the_next_takes_part(tmp_path: Path) -> None:
    counts = (Turns(0, number * 10**12) for number in range(1_000))

    def turns(_: int) -> Turns | None:
        # A start may take long here, too; only what has begun is starved, and the second process ends by itself.
        return next(counts) if is_first and (tmp_path / "said").exists() and began(tmp_path) else None

    cleaning, is_first = cleaning_by(WORKER, tmp_path, watch_s=0.1, turns=turns), True
    await begun(cleaning)
    is_first = False
    await begun(cleaning)
    assert [options.take_part for options in began(tmp_path)] == [False, True]


async def test_after_one_that_ended_by_itself_the_next_gives_way_again(tmp_path: Path) -> None:
    cleaning = cleaning_by(ENDING, tmp_path, turns=lambda _: None)
    await begun(cleaning)
    await begun(cleaning)
    assert [options.take_part for options in began(tmp_path)] == [False, False]


async def test_a_small_log_is_cleaned_by_a_process_as_any_other_but_not_one_after_the_other(tmp_path: Path) -> None:
    now_s = [100.0]
    cleaning = cleaning_by(ENDING, tmp_path, turns=lambda _: None, elapsed_s=lambda: now_s[0])
    for passed_s, plan in ((0.0, SMALL), (0.0, PLAN), (0.9, SMALL), (0.2, SMALL), (8.8, SMALL), (0.2, SMALL)):
        now_s[0] += passed_s
        await begun(cleaning, plan)
    assert [options.is_brief for options in began(tmp_path)] == [True, False, True, False, False, True]


async def test_a_merge_always_gives_way(tmp_path: Path) -> None:
    cleaning = cleaning_by(ENDING, tmp_path, turns=lambda _: None)
    await begun(cleaning, replace(SMALL, is_merge=True))
    await begun(cleaning, SMALL)
    assert [options.is_brief for options in began(tmp_path)] == [False, True]


async def test_a_process_of_the_other_kind_is_replaced(tmp_path: Path) -> None:
    cleaning = cleaning_by(LOOKING, tmp_path, turns=lambda _: None)
    for plan in (SMALL, SMALL, PLAN, PLAN):
        await begun(cleaning, plan)
    assert len(looked_at(tmp_path)) == 4
    await cleaning.close()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(3)", "the process that cleans ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "the process that cleans ended by signal 9"),
    ],
)
async def test_one_that_ends_by_itself_is_unavailable(program: str, reason: str, tmp_path: Path) -> None:
    error = await begun(cleaning_by(program, tmp_path, turns=lambda _: None))
    assert isinstance(error, CleanerUnavailable)
    assert str(error) == reason


async def test_one_that_cannot_be_begun_is_unavailable(tmp_path: Path) -> None:
    cleaning = CompactionProcess(Settings.model_validate({"data": tmp_path}), command=(str(tmp_path / "none"),))
    error = await begun(cleaning)
    assert isinstance(error, CleanerUnavailable)
    assert str(error) == "no process can be begun: No such file or directory"


async def test_one_that_was_ended_for_want_of_a_processor_is_not(tmp_path: Path) -> None:
    counts = (Turns(0, number * 10**12) for number in range(1_000))
    error = await begun(cleaning_by(WORKER, tmp_path, watch_s=0.1, turns=lambda _: next(counts)))
    assert not isinstance(error, CleanerUnavailable)


def test_the_process_that_cleans_loads_little() -> None:
    """What it loads takes longer than a small log, and more memory."""
    program = (
        "import sys; from bmq.server.compaction_worker import leave_out; leave_out();"
        "import bmq.server.compaction_service, bmq.local_store.store, bmq.hdfs.store; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "bmq.compaction.log_cleaner" in loaded
    heavy = {"numpy", "pyarrow", "pydantic", "pydantic_core", "rich.console", "prometheus_client", "fastapi", "uvloop"}
    assert not loaded & heavy


def test_settings_are_the_same_on_the_other_side() -> None:
    values = {"store": "hdfs://a:1/b", "hdfs": {"user": "x", "write_mode": "pipeline"}, "log_level": "debug"}
    settings = CompactionSettings.of(Settings.model_validate(values))
    assert CompactionSettings.decode(settings.encode()) == settings
    for damaged in (b"{", b"{}", b'{"hdfs": {}}', b"[]"):
        with pytest.raises(ValueError, match=r"."):
            CompactionSettings.decode(damaged)


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


@pytest.mark.parametrize("options", [Options(7, False, False), Options(12, True, False), Options(3, False, True)])
def test_a_command_line_is_understood_as_it_was_meant(options: Options) -> None:
    assert parse(arguments(options)) == options


def began(directory: Path) -> list[Options]:
    return [parse(line.split()) for line in (directory / "said").read_text().splitlines()]


def looked_at(directory: Path) -> list[float]:
    return [float(line) for line in (directory / "said").read_text().splitlines()]
