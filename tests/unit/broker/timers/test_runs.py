"""Delayed records in runs: written, named, merged, delivered from, dropped; and what the next owner makes of each step."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.broker.timers.run_file_writer import RunFileWriter
from bmq.broker.timers.run_lifecycle import RunLifecycle
from bmq.broker.timers.timer_replay import replay_timers
from bmq.log.damage import accept, file_damage
from bmq.log.names import partition_directory
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import AppendResult
from bmq.log.partition_view import view_partition
from bmq.log.store import StorageUnavailable
from bmq.log.timers.announcements import START, Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.timers.replay import Replay
from bmq.log.timers.run_reference import RunReference
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.spark.jobs.run_check import check_run
from bmq.spark.jobs.segment_check import SegmentCheck
from bmq.spark.jobs.stored_segments import runs_of as stored_runs
from tests.unit.broker.timers.test_timers import DELAY, cancelling, delayed, hold, pass_time, values
from tests.unit.broker.world import CONFIG, Owner, World, append, produce, virtual

pytestmark = pytest.mark.unit

KEPT = replace(DELAY, segment_bytes=2000, file_delete_delay_ms=1000)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of three records, blocks of two, and a merge of three that overlap."""
    monkeypatch.setattr("bmq.broker.timers.run_lifecycle.WINDOW_PRESSED", 6)
    monkeypatch.setattr("bmq.broker.timers.run_builder.SORTED_COUNT_MAX", 3)
    monkeypatch.setattr("bmq.log.timers.run_tiers.RUNS_OVERLAPPING_MAX", 2)
    monkeypatch.setattr("bmq.log.timers.run_tiers.FILE_BYTES", 400)
    monkeypatch.setattr("bmq.log.timers.run_file.BLOCK_BYTES", 100)
    monkeypatch.setattr("bmq.log.timers.run_draft.BLOCK_BYTES", 100)
    monkeypatch.setattr("bmq.log.timers.row_merging.BLOCK_BYTES", 100)
    monkeypatch.setattr("bmq.log.timers.run_merging.BLOCK_BYTES", 100)


def lifecycle_of(log: PartitionRuntime) -> RunLifecycle:
    assert log.timers.lifecycle is not None
    return log.timers.lifecycle


def runs_of(log: PartitionRuntime) -> tuple[RunReference, ...]:
    return lifecycle_of(log).runs.references


def run_files(world: World) -> set[str]:
    return {path.rpartition("/")[2] for path in world.store.files() if "/timers." in path}


async def hold_many(log: PartitionRuntime, world: World, count: int, first: int = 0) -> list[bytes]:
    """Records that are due 10 s, 11 s, 12 s, … from now on, held in another order; in the order of due times."""
    order = sorted(range(first, first + count), key=lambda number: (number * 7 % 5, number))
    for number in order:
        await hold(log, world, (b"r%d" % number, 10_000 + number * 1000))
    return [b"r%d" % number for number in range(first, first + count)]


async def in_runs(log: PartitionRuntime) -> None:
    """All that is pending is in runs, named by a manifest, and merged."""
    await lifecycle_of(log).make_room(log.high_watermark)
    await asyncio.sleep(5)
    assert log.timers.order is not None and len(log.timers.order) == 0


async def due_values(log: PartitionRuntime, world: World) -> list[bytes | None]:
    await pass_time(world, 1_000_000)
    await asyncio.sleep(5)
    return await values(log)


def test_many_pending_leave_memory_and_come_back_in_order() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(KEPT).log()
        expected = await hold_many(log, world, 40)
        await asyncio.sleep(5)
        order = log.timers.order
        assert order is not None and order.window_count < 6
        runs = runs_of(log)
        assert sum(run.count for run in runs) + order.window_count == 40
        assert max(run.tier for run in runs) >= 1, "some were merged"
        for seconds in range(1, 60):
            await pass_time(world, 1000)
            assert await values(log) == expected[: max(0, min(40, seconds - 9))], "each at its time"
        assert runs_of(log) == ()
        await asyncio.sleep(10)
        assert run_files(world) == set(), "files of what was delivered are deleted"

    virtual(main)


def test_log_and_retention_are_not_held_by_what_is_in_runs() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(KEPT, retention_bytes=0))
        log = await owner.log()
        expected = await hold_many(log, world, 4)
        for _ in range(6):
            await produce(log, bytes(1500))
        await asyncio.sleep(5)
        await owner.manager.apply_retention()
        assert log.log_start_offset > 8, "behind all holds"
        assert len(runs_of(log)) == 2
        assert await log.delete_records(-1) == log.high_watermark
        owner.kill()

        log = await world.owner(KEPT).log()
        assert log.log_start_offset == log.high_watermark, "nothing is left to replay"
        assert await due_values(log, world) == expected

    virtual(main)


def test_the_next_owner_delivers_from_runs_and_log_in_one_order() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(KEPT)
        log = await first.log()
        await hold_many(log, world, 5)
        await in_runs(log)
        await hold_many(log, world, 5, first=5)
        await pass_time(world, 12_000)
        assert await values(log) == [b"r0", b"r1", b"r2"]
        await first.manager.close()

        log = await world.owner(KEPT).log()
        assert await values(log) == [b"r0", b"r1", b"r2"]
        await asyncio.sleep(5)  # what is left behind is deleted
        assert await due_values(log, world) == [b"r%d" % number for number in range(10)]

    virtual(main)


def test_owners_that_end_soon_leave_no_growing_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr("bmq.broker.timers.run_lifecycle.WINDOW_PRESSED", 1_000_000)
        monkeypatch.setattr("bmq.broker.timers.run_lifecycle.LOG_BYTES", 3_000)
        replayed_bytes: list[int] = []

        async def replay(*arguments: Any) -> Replay:
            found = await replay_timers(*arguments)
            replayed_bytes.append(found.size_bytes)
            return found

        monkeypatch.setattr("bmq.broker.timers.partition_timers.replay_timers", replay)
        world, held = World(), list[bytes]()
        for number in range(20):
            owner = world.owner(KEPT)
            held += await hold_many(await owner.log(), world, 3, first=3 * number)
            await asyncio.sleep(5)
            owner.kill()
        log = await world.owner(KEPT).log()
        assert max(replayed_bytes) < 6_000 + 1_000, f"twice LOG_BYTES, and what one owner appends: {replayed_bytes}"
        log_bytes = sum(len(data) for path, data in world.store.files().items() if path.endswith(".log"))
        assert log_bytes > 10_000, "there would be more to replay"
        assert await due_values(log, world) == held

    virtual(main)


async def one_press(world: World, owner: Owner) -> tuple[PartitionRuntime, list[bytes]]:
    log = await owner.log()
    expected = await hold_many(log, world, 5)
    await lifecycle_of(log).make_room(log.high_watermark)
    return log, expected


@pytest.mark.parametrize("step", ["created", "written", "named"])
def test_an_owner_that_ends_while_it_writes_runs(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of crashes: a run is written and not named; it is named, and the log start is not moved."""

    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)

        def die_behind(kind: type, name: str, number: int) -> None:
            original, calls = getattr(kind, name), 0

            async def dying(*args: Any, **options: Any) -> Any:
                nonlocal calls
                result = await original(*args, **options)
                calls += 1
                if calls == number:
                    owner.kill()
                    await asyncio.get_running_loop().create_future()
                return result

            monkeypatch.setattr(kind, name, dying)

        log = await owner.log()
        expected = await hold_many(log, world, 5)
        match step:
            case "created":
                die_behind(RunFileWriter, "create", 2)
            case "written":
                die_behind(RunFileWriter, "finish", 2)
            case _:
                die_behind(PartitionFiles, "write_manifest", 1)
        room = asyncio.create_task(lifecycle_of(log).make_room(log.high_watermark))
        await asyncio.sleep(30)
        monkeypatch.undo()
        small_again(monkeypatch)
        assert len(run_files(world)) == 2
        room.cancel()

        log = await world.owner(KEPT).log()
        named = runs_of(log)
        assert len(named) == (2 if step == "named" else 0)
        assert log.timers.order is not None
        assert len(log.timers.order) == (0 if step == "named" else 5), "replay begins behind what runs have"
        await asyncio.sleep(5)
        assert len(run_files(world)) == len(named), "files that no manifest names are deleted"
        assert await due_values(log, world) == expected

    virtual(main)


def small_again(monkeypatch: pytest.MonkeyPatch) -> None:
    small.__wrapped__(monkeypatch)  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", ["written", "named"])
def test_an_owner_that_ends_while_it_merges_runs(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        expected = await hold_many(log, world, 5)
        await in_runs(log)
        before = runs_of(log)
        await hold(log, world, (b"x", 10_500), (b"y", 13_900))
        expected[4:] = [b"y", expected[4]]
        expected.insert(1, b"x")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        taken = RunLifecycle._take

        def take(self: RunLifecycle, made: Any) -> None:
            if made.replaced:
                if step == "written":
                    owner.kill()
                    ended.set_result(None)
                    return
                asyncio.get_running_loop().call_later(1, owner.kill)
                asyncio.get_running_loop().call_later(2, ended.set_result, None)
            taken(self, made)

        monkeypatch.setattr(RunLifecycle, "_take", take)
        await lifecycle_of(log).make_room(log.high_watermark)
        await ended
        monkeypatch.setattr(RunLifecycle, "_take", taken)

        log = await world.owner(KEPT).log()
        named = runs_of(log)
        assert {run.tier for run in named} == ({0} if step == "written" else {1})
        assert (set(before) <= set(named)) == (step == "written")
        assert await due_values(log, world) == expected

    virtual(main)


def test_a_manifest_whose_answer_was_lost_keeps_the_runs_that_it_may_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be durable: what it names is not deleted before a newer one is, and no hold counts twice."""

    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        expected = await hold_many(log, world, 5)
        write, lost = PartitionFiles.write_manifest, 0

        async def write_manifest(files: PartitionFiles) -> None:
            nonlocal lost
            await write(files)
            lost += 1
            raise StorageUnavailable("the answer was lost")

        monkeypatch.setattr(PartitionFiles, "write_manifest", write_manifest)
        await lifecycle_of(log).make_room(log.high_watermark)
        await pass_time(world, 60_000)
        await asyncio.sleep(5)
        assert await values(log) == expected
        assert lost > 1
        monkeypatch.setattr(PartitionFiles, "write_manifest", write)
        owner.kill()
        log = await world.owner(KEPT).log()
        assert await due_values(log, world) == expected

    virtual(main)


def test_runs_that_cannot_be_written_are_tried_again_and_producers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.broker.timers.holds.WINDOW_MAX", 8)
    create, is_away = RunFileWriter.create, True

    async def no_run(*args: Any) -> RunFileWriter:
        if is_away:
            raise StorageUnavailable("no run is written")
        return await create(*args)

    monkeypatch.setattr(RunFileWriter, "create", no_run)

    async def main() -> None:
        nonlocal is_away
        world = World()
        log = await world.owner(KEPT).log()
        expected = await hold_many(log, world, 8)
        refused = await append(log, delayed(world, (b"r8", 18_000)))
        assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert "wait to be written to runs" in (refused.message or "")
        is_away = False
        await asyncio.sleep(10)
        await hold(log, world, (b"r8", 18_000))
        assert await due_values(log, world) == [*expected, b"r8"]

    virtual(main)


def test_producers_wait_for_runs_that_do_not_keep_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next owner would have much to replay."""
    monkeypatch.setattr("bmq.broker.timers.run_lifecycle.PINNED_BYTES_MAX", 3000)

    async def main() -> None:
        world = World()
        log = await world.owner(KEPT).log()
        expected = await hold_many(log, world, 5)
        create = RunFileWriter.create

        async def slowly(*args: Any) -> RunFileWriter:
            await asyncio.sleep(5)
            return await create(*args)

        monkeypatch.setattr(RunFileWriter, "create", slowly)
        room = asyncio.create_task(lifecycle_of(log).make_room(log.high_watermark))
        await asyncio.sleep(0.1)
        for _ in range(3):
            await produce(log, bytes(1000))
        refused = await append(log, delayed(world, (b"r5", 15_000)))
        assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
        await produce(log, b"plain")
        await room
        await hold(log, world, (b"r5", 15_000))
        found = await due_values(log, world)
        assert [one for one in found if one is not None and one.startswith(b"r")] == [*expected, b"r5"]

    virtual(main)


def test_a_hold_that_comes_while_runs_are_written_is_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        await hold_many(log, world, 5)
        finish = RunFileWriter.finish

        async def slowly(*args: Any) -> RunReference:
            await asyncio.sleep(1)
            return await finish(*args)

        monkeypatch.setattr(RunFileWriter, "finish", slowly)
        room = asyncio.create_task(lifecycle_of(log).make_room(log.high_watermark))
        await asyncio.sleep(0.5)
        await hold(log, world, (b"early", 100), (b"late", 90_000))
        await pass_time(world, 10_000)  # r0 is delivered from memory, while it is in a run that is not finished
        await room
        await asyncio.sleep(1)
        assert await values(log) == [b"early", b"r0"]
        assert log.timers.order is not None and log.timers.order.window_count == 1
        owner.kill()
        log = await world.owner(KEPT).log()
        assert await due_values(log, world) == [b"early", *(b"r%d" % number for number in range(5)), b"late"]

    virtual(main)


def test_a_manifest_that_is_written_while_runs_are_does_not_count_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        expected = await hold_many(log, world, 5)
        create = RunFileWriter.create

        async def slowly(*args: Any) -> RunFileWriter:
            await asyncio.sleep(1)
            return await create(*args)

        monkeypatch.setattr(RunFileWriter, "create", slowly)
        room = asyncio.create_task(lifecycle_of(log).make_room(log.high_watermark))
        await asyncio.sleep(0.5)
        await log.inspect().changes.write()
        owner.kill()
        room.cancel()
        log = await world.owner(KEPT).log()
        assert await due_values(log, world) == expected

    virtual(main)


def test_an_owner_that_is_replaced_does_not_leave_a_deletion_waiting() -> None:
    """Its runs are written, and wait for a delivery that never ends."""

    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        await hold_many(log, world, 5)
        assert log.timers.order is not None
        taken = log.timers.order.take(world.clock.now_ms() + 60_000, 1)
        deletion = asyncio.create_task(log.delete_records(-1))
        await asyncio.sleep(5)
        assert not deletion.done()
        log.timers.order.give_back(taken)
        log.timers.order.take(world.clock.now_ms() + 60_000, 1)
        log.give_up()
        with pytest.raises(KafkaError):
            await deletion

    virtual(main)


def test_a_damaged_run_stops_deliveries_and_nothing_else_until_its_loss_is_accepted() -> None:
    """Of this owner and of the next one. What the log has is whole, so it is served."""

    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        await hold_many(log, world, 3)
        await in_runs(log)
        (run,) = runs_of(log)
        await hold(log, world, (b"behind", 12_500))
        path = next(path for path in world.store.files() if "/timers." in path)
        world.store.flip_bit(path, run.length // 3)
        await pass_time(world, 60_000)
        await asyncio.sleep(20)
        before = await values(log)
        assert set(before) < {b"r0", b"r1"}, "nothing is passed over in silence"

        for _ in range(2):
            await hold(log, world, (b"plain", 0))
            held = await hold(log, world, (b"held", 500))
            await pass_time(world, 5_000)
            await asyncio.sleep(20)
            assert (await values(log))[-1] == b"plain" and log.high_watermark > held
            assert log.timers.order is not None and log.timers.order.first_due_ms is not None, "what is overdue is told"
            assert log.timers.order.first_due_ms <= world.clock.now_ms() - 50_000
            owner.kill()
            owner = world.owner(KEPT)
            log = await owner.log()
        assert await values(log) == [*before, b"plain", b"plain"]

        damage = file_damage(
            path.rpartition("/")[0].rpartition("/")[0], run.leader_epoch, f"timers.{run.number:08d}", ""
        )
        await accept(owner.client, damage, holder="operator", now_ms=0)
        await asyncio.sleep(20)
        assert (await values(log))[-3:] == [b"behind", b"held", b"held"]

    virtual(main)


def test_names_that_the_log_has_lost_do_not_count() -> None:
    """A run is on disks; a log without hsync may lose its end, and gives the names of lost records to others."""

    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        await hold_many(log, world, 5)
        await in_runs(log)
        lost = await hold(log, world, (b"lost", 20_000))
        await in_runs(log)
        owner.kill()
        segment = max(path for path in world.store.files() if path.endswith(".log") and world.store.files()[path])
        world.store.truncate_file(segment, world.store.files()[segment].rindex(b"lost") - 100)
        log = await world.owner(KEPT).log()
        assert log.log_end_offset <= lost
        assert await hold(log, world, (b"found", 20_000)) == lost, "its name is that of the other one"
        assert await due_values(log, world) == [*(b"r%d" % number for number in range(5)), b"found"]

    virtual(main)


async def cancel(log: PartitionRuntime, *targets: tuple[int, int]) -> AppendResult:
    """Sent again while it is looked up, as producers do."""
    result = await append(log, cancelling(*targets))
    for _ in range(20):
        if result.error_code is not ErrorCode.NOT_ENOUGH_REPLICAS:
            break
        await asyncio.sleep(0.1)
        result = await append(log, cancelling(*targets))
    return result


def test_a_cancellation_of_a_record_that_is_in_no_run_is_refused() -> None:
    """Also if its due time lies between those of a run."""

    async def main() -> None:
        world = World()
        log = await world.owner(KEPT).log()
        now_ms = world.clock.now_ms()
        name = await hold(log, world, (b"a", 10_000), (b"b", 11_000), (b"c", 12_000))
        await in_runs(log)
        there, early, foreign = (name + 1, now_ms + 11_000), (name + 1, now_ms + 10_500), (name, now_ms + 11_000)
        result = await append(log, cancelling(there, early, foreign))
        assert result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert "being looked up" in (result.message or "")
        result = await cancel(log, there, early, foreign)
        assert result.error_code is ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in result.record_errors] == [1, 2]
        assert all("no delayed record of this partition" in (one.message or "") for one in result.record_errors)
        assert await due_values(log, world) == [b"a", b"b", b"c"], "nothing of it was applied"

    virtual(main)


def test_a_record_that_was_looked_for_in_vain_can_be_cancelled_later() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(KEPT).log()
        now_ms = world.clock.now_ms()
        name = await hold(log, world, (b"a", 10_000), (b"c", 12_000))
        await in_runs(log)
        later = (name + 4, now_ms + 11_000)
        assert (await cancel(log, later)).error_code is ErrorCode.INVALID_RECORD, "its offset was not given yet"
        assert await hold(log, world, (b"b", 11_000)) == later[0] - 1
        assert await hold(log, world, (b"b", 11_000)) == later[0] + 1
        await in_runs(log)
        assert (await cancel(log, (later[0] + 1, later[1]))).error_code is ErrorCode.NONE
        assert await due_values(log, world) == [b"a", b"b", b"c"]

    virtual(main)


@pytest.mark.parametrize("place", ["run", "two_runs", "merged", "next_owner", "replayed"])
def test_a_record_in_a_run_is_cancelled(place: str) -> None:
    """The cancellation waits in memory, or in another run, and meets the record when it is due or in a merge."""

    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        now_ms = world.clock.now_ms()
        name = await hold(log, world, (b"a", 10_000), (b"b", 11_000), (b"c", 12_000))
        await in_runs(log)
        for _ in range(2):
            assert (await cancel(log, (name + 1, now_ms + 11_000))).error_code is ErrorCode.NONE
        if place in ("two_runs", "merged", "next_owner"):
            await in_runs(log)
            assert sum(run.count for run in runs_of(log)) == 4
        if place == "merged":
            await hold(log, world, (b"d", 10_500), (b"e", 13_000))
            await in_runs(log)
            assert [(run.tier, run.count) for run in runs_of(log)] == [(1, 4)], (
                "neither the record nor its cancellation"
            )
        if place in ("next_owner", "replayed"):
            owner.kill()
            log = await world.owner(KEPT).log()
        assert name + 1 not in [one.offset for one in (await log.delayed_records(START, 10)).records]
        expected = [b"a", b"d", b"c", b"e"] if place == "merged" else [b"a", b"c"]
        assert await due_values(log, world) == expected
        await in_runs(log)
        assert runs_of(log) == ()
        assert log.timers.order is not None and log.timers.order.cancels_count == 0

    virtual(main)


def test_the_last_record_of_a_run_does_not_wait_once_it_was_cancelled() -> None:
    """Nor does its cancellation, when it comes into a run of its own."""

    async def main() -> None:
        world = World()
        log = await world.owner(KEPT).log()
        now_ms = world.clock.now_ms()
        name = await hold(log, world, (b"a", 10_000), (b"b", 11_000))
        await in_runs(log)
        assert (await cancel(log, (name + 1, now_ms + 11_000))).error_code is ErrorCode.NONE
        assert await due_values(log, world) == [b"a"]
        assert await log.delayed_records(START, 10) == DelayedPage(0, None, ())
        await in_runs(log)
        await asyncio.sleep(5)
        assert await log.delayed_records(START, 10) == DelayedPage(0, None, ())

    virtual(main)


def test_a_record_is_cancelled_while_it_is_written_to_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        now_ms = world.clock.now_ms()
        name = await hold(log, world, (b"a", 10_000), (b"b", 11_000), (b"c", 12_000), (b"d", 13_000))
        assert (await append(log, cancelling((name + 2, now_ms + 12_000)))).error_code is ErrorCode.NONE
        finish = RunFileWriter.finish

        async def slowly(*args: Any) -> RunReference:
            await asyncio.sleep(1)
            return await finish(*args)

        monkeypatch.setattr(RunFileWriter, "finish", slowly)
        room = asyncio.create_task(lifecycle_of(log).make_room(log.high_watermark))
        await asyncio.sleep(0.5)
        assert (await append(log, cancelling((name + 1, now_ms + 11_000)))).error_code is ErrorCode.NONE
        await room
        owner.kill()
        log = await world.owner(KEPT).log()
        assert await due_values(log, world) == [b"a", b"d"]

    virtual(main)


def test_what_waits_is_listed_from_memory_and_runs() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(KEPT).log()
        now_ms = world.clock.now_ms()
        await hold_many(log, world, 12)
        await in_runs(log)
        await hold_many(log, world, 3, first=12)
        dues = [now_ms + 10_000 + number * 1000 for number in range(15)]
        page = await log.delayed_records(START, 100)
        assert [one.due_ms for one in page.records] == dues
        assert (page.pending, page.next_due_ms) == (15, dues[0])
        found: list[Position] = []
        after = START
        while records := (await log.delayed_records(after, 2)).records:
            found += records
            after = records[-1]
        assert tuple(found) == page.records
        await pass_time(world, 13_000)
        page = await log.delayed_records(START, 100)
        assert ([one.due_ms for one in page.records], page.pending) == (dues[4:], 11)

    virtual(main)


def test_a_topic_without_delay_any_more_delivers_from_runs() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        expected = await hold_many(log, world, 5)
        await in_runs(log)
        await owner.manager.close()
        log = await world.owner(replace(CONFIG, segment_bytes=2000)).log()
        assert await due_values(log, world) == expected

    virtual(main)


async def verified(owner: Owner, log: PartitionRuntime) -> list[str]:
    """What `bmq verify` finds in the runs that the manifest names."""
    found: list[str] = []
    tasks = stored_runs(await view_partition(owner.client, partition_directory(log.topic_partition)), "topic", 0)
    assert {task.run for task in tasks} == set(runs_of(log))
    for task in tasks:
        check = SegmentCheck(task.origin, None, is_compacted=False)
        assert task.run is not None
        await check_run(owner.client, task.path, task.run, check)
        found += [finding.reason for finding in check.findings]
    return found


def test_verify_takes_runs_of_owners_for_sound_and_finds_a_flipped_bit() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(KEPT)
        log = await owner.log()
        await hold_many(log, world, 40)
        await in_runs(log)
        assert max(run.tier for run in runs_of(log)) >= 1, "some were merged"
        assert await verified(owner, log) == []
        await owner.manager.close()
        owner = world.owner(KEPT)
        log = await owner.log()
        assert await verified(owner, log) == [], "in a directory that was sealed"
        world.store.flip_bit(next(path for path in world.store.files() if "/timers." in path), 60)
        assert await verified(owner, log) == ["the checksum of a block does not match"]

    virtual(main)
