"""Half messages beside delayed records that go into runs: no run has them, and nothing passes their holds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.broker.timers.run_file_writer import RunFileWriter
from bmq.log.manifest import TimersReference
from bmq.log.store import StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from tests.unit.broker.half.fake_checker import FakeChecker
from tests.unit.broker.half.test_half_messages import checked, decision, half, pass_time, sent, waiting
from tests.unit.broker.timers.test_runs import due_values, hold_many, in_runs, lifecycle_of, run_files, runs_of
from tests.unit.broker.timers.test_timers import DELAY, cancelling, values
from tests.unit.broker.world import World, append, produce, virtual

pytestmark = pytest.mark.unit

BOTH = replace(DELAY, is_half_enabled=True, segment_bytes=2000, file_delete_delay_ms=1000)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of three records, made early."""
    monkeypatch.setattr("bmq.broker.timers.run_lifecycle.WINDOW_PRESSED", 6)
    monkeypatch.setattr("bmq.broker.timers.run_builder.SORTED_COUNT_MAX", 3)


def named(log: PartitionRuntime) -> TimersReference:
    """What a manifest that is written now says."""
    files = log._partition.files
    assert files is not None
    timers = files.timers()
    assert timers is not None
    return timers


async def both_pending(log: PartitionRuntime, world: World) -> tuple[int, list[bytes]]:
    """An undecided half message, and behind it four delayed records in runs."""
    name = await sent(log, half(b"order"))
    return name, await hold_many(log, world, 4)


def test_checks_write_nothing() -> None:
    """Also none that nobody answers, unlike those of RocketMQ, which write the message again."""

    async def main() -> None:
        world, checker = World(), FakeChecker()
        log = await checked(world, checker).log()
        await sent(log, half(b"a", "one"))
        end_offset = log.log_end_offset
        await pass_time(world, 40_000)
        assert checker.numbers == [("one", 1), ("one", 2)]
        assert log.log_end_offset == end_offset

    virtual(main)


def test_the_replay_offset_passes_runs_and_the_half_offset_stays() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(BOTH).log()
        name, _ = await both_pending(log, world)
        assert (named(log).half_from, named(log).needed_from) == (name - 1, name - 1)
        await in_runs(log)
        timers = named(log)
        assert (timers.half_from, timers.needed_from) == (name - 1, name - 1)
        assert timers.replay_from == log.high_watermark and len(timers.runs) == 2
        await sent(log, decision("rollback", name))
        assert named(log).half_from is None, "nothing waits"

    virtual(main)


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_one_held_below_the_replay_offset_is_decided_by_the_next_owner(outcome: str) -> None:
    async def main() -> None:
        world = World()
        first = world.owner(BOTH)
        log = await first.log()
        name, delayed = await both_pending(log, world)
        await in_runs(log)
        first.kill()
        log = await world.owner(BOTH).log()
        assert waiting(log.half) == [name]
        order = log.timers.order
        assert order is not None and order.window_waiting_count == 0, "what is in runs was not replayed"
        await sent(log, decision(outcome, name))
        await asyncio.sleep(1)
        expected = [b"order"] if outcome == "commit" else []
        assert await values(log) == expected
        assert await due_values(log, world) == expected + delayed, "each once"

    virtual(main)


def test_no_log_start_passes_a_half_message_while_runs_are_named() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(BOTH, retention_bytes=0))
        log = await owner.log()
        name, delayed = await both_pending(log, world)
        for _ in range(6):
            await produce(log, bytes(1500))
        await asyncio.sleep(5)
        await owner.manager.apply_retention()
        assert len(runs_of(log)) == 2, "the delayed ones are out of the way"
        await log.delete_records(-1)
        assert log.log_start_offset <= name - 1
        owner.kill()

        owner = world.owner(replace(BOTH, retention_bytes=0))
        log = await owner.log()
        assert waiting(log.half) == [name]
        await sent(log, decision("commit", name))
        await asyncio.sleep(1)
        assert (await values(log))[-1] == b"order"
        assert await log.delete_records(-1) == log.log_start_offset == log.high_watermark
        owner.kill()
        log = await world.owner(BOTH).log()
        assert await due_values(log, world) == delayed

    virtual(main)


@pytest.mark.parametrize("end", ["written", "settled", "named", "log_start_moved"])
def test_an_owner_that_ends_between_the_steps_of_a_run_loses_and_doubles_nothing(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(BOTH)
        log = await owner.log()
        early = await sent(log, half(b"early"))
        name, delayed = await both_pending(log, world)
        late = await sent(log, half(b"late"))
        held = asyncio.Event()

        async def never(*_: object) -> None:
            held.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            if end == "written":
                patch.setattr(lifecycle_of(log), "_settled", never)
            if end == "settled":
                patch.setattr(log._changes, "write", never)
            room = asyncio.create_task(lifecycle_of(log).make_room(log.high_watermark))
            if end in ("written", "settled"):
                await held.wait()
            else:
                await room
                await asyncio.sleep(5)
                assert run_files(world)
            if end == "log_start_moved":
                await log.delete_records(-1)
            owner.kill()
            room.cancel()
            await asyncio.gather(room, return_exceptions=True)

        log = await world.owner(BOTH).log()
        assert waiting(log.half) == [early, name, late]
        await sent(log, decision("commit", late), decision("rollback", early))
        await sent(log, decision("commit", name))
        await asyncio.sleep(1)
        assert await values(log) == [b"late", b"order"]
        assert await due_values(log, world) == [b"late", b"order", *delayed]

    virtual(main)


def test_a_committed_message_that_waits_is_in_no_run_and_keeps_its_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(BOTH)
        log = await owner.log()
        name, delayed = await both_pending(log, world)
        with monkeypatch.context() as patch:
            patch.setattr(log.timers, "_deliver", lambda: None)
            await sent(log, decision("commit", name))
            await in_runs_but(log, 1)
            assert sum(run.count for run in runs_of(log)) == 4
            assert (named(log).half_from, named(log).replay_from) == (name - 1, log.high_watermark)
            await log.delete_records(-1)
            assert log.log_start_offset <= name - 1
            assert await values(log) == []
            owner.kill()
        log = await world.owner(BOTH).log()
        await asyncio.sleep(1)
        assert await values(log) == [b"order"], "the decision is below the replay offset, and above the half offset"
        assert await due_values(log, world) == [b"order", *delayed]

    virtual(main)


async def in_runs_but(log: PartitionRuntime, count: int) -> None:
    await lifecycle_of(log).make_room(log.high_watermark)
    await asyncio.sleep(5)
    assert log.timers.order is not None and len(log.timers.order) == count


def test_a_run_that_cannot_be_written_leaves_half_messages_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(BOTH).log()
        name, delayed = await both_pending(log, world)
        with monkeypatch.context() as patch:

            async def fails(*_: object, **__: object) -> RunFileWriter:
                raise StorageUnavailable("no room")

            patch.setattr(RunFileWriter, "create", fails)
            await lifecycle_of(log).make_room(log.high_watermark)
        assert runs_of(log) == () and waiting(log.half) == [name]
        await sent(log, decision("commit", name))
        await asyncio.sleep(1)
        assert await due_values(log, world) == [b"order", *delayed]

    virtual(main)


def test_a_committed_message_that_waits_cannot_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(BOTH).log()
        name = await sent(log, half(b"order"))
        monkeypatch.setattr(log.timers, "_deliver", lambda: None)
        where = await sent(log, decision("commit", name))
        order = log.timers.order
        assert order is not None and order.first_due_ms is not None
        result = await append(log, cancelling((where, order.first_due_ms)))
        assert result.error_code is ErrorCode.INVALID_RECORD
        monkeypatch.undo()
        log.timers.schedule_wake_up()
        await pass_time(world, 2_000)
        assert await values(log) == [b"order"]

    virtual(main)
