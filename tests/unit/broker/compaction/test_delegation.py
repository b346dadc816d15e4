"""A job outside of the servers cleans a partition: its owner swaps in what can be proven, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.log.delegated_compaction import CleanedFile, DelegatedPlan, DelegationRefused, description_name
from bmq.log.names import CLEANED_ROLL_MIN
from bmq.log.store import StorageUnavailable
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL
from tests.support import delegated_job
from tests.unit.broker.compaction.test_compaction import (
    COMPACT,
    Interrupted,
    at_once,
    cleaning_of,
    compact,
    filled,
    newest,
    put,
    read,
    settled,
    unnamed,
)
from tests.unit.broker.world import Owner, World, append, virtual

pytestmark = pytest.mark.unit

JOB, LIMIT_MS = "job", 3_600_000


async def clean(owner: Owner, plan: DelegatedPlan, *, attempt: str = "a") -> list[CleanedFile]:
    return await delegated_job.clean(owner.client, plan, attempt=attempt)


async def planned(log: PartitionRuntime, limit_ms: int = LIMIT_MS) -> DelegatedPlan:
    plan = await log.compaction.delegation.plan(JOB, limit_ms)
    assert plan is not None
    return plan


async def swap(log: PartitionRuntime, plan: DelegatedPlan) -> Any:
    return await log.compaction.delegation.swap(plan.reservation, plan.leader_epoch, at_once)


def extents_of(log: PartitionRuntime) -> list[tuple[int, int]]:
    files = log.inspect().files
    assert files is not None
    return [(extent.leader_epoch, extent.roll) for extent in files.extents]


def with_transactions(key: int, *, is_aborted: bool, producer_id: int, producer_epoch: int) -> tuple[bytes, bytes]:
    value = b"aborted" if is_aborted else b"committed"
    data = encode_batch(
        [Record(b"%d" % key, value + b"x" * 50)],
        attributes=TRANSACTIONAL,
        base_sequence=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    kind = ControlType.ABORT if is_aborted else ControlType.COMMIT
    marker = encode_end_transaction_marker(
        EndTransactionMarker(kind, 1), timestamp_ms=1, producer_id=producer_id, producer_epoch=producer_epoch
    )
    return bytes(data), bytes(marker)


async def mixed(owner: Owner) -> PartitionRuntime:
    """Keys of several kinds over many segments, with tombstones and transactions that overlap segments."""
    log = await owner.log()
    for number in range(120):
        await put(log, b"%d" % (number % 7), None if number % 31 == 5 else b"x" * 60 + b"%d" % number)
        if number % 9 == 0:
            data, marker = with_transactions(
                number % 5, is_aborted=number % 2 == 0, producer_id=70 + number % 3, producer_epoch=number
            )
            await append(log, data, is_internal=True)
            for other in range(8):
                await put(log, b"between-%d" % (number + other), b"y" * 40)
            await append(log, marker, is_internal=True)
    for number in range(20):
        await put(log, b"end", b"z" * 80 + b"%d" % number)
    await settled(log)
    return log


@pytest.mark.parametrize("fill", [filled, mixed])
def test_a_job_leaves_what_the_broker_leaves(fill: Callable[[Owner], Any]) -> None:
    async def main() -> None:
        results = []
        for is_job in (False, True):
            world = World()
            owner = world.owner(COMPACT)
            log = await fill(owner)
            for _ in range(3):
                if is_job:
                    plan = await planned(log, 1_000)
                    assert len(plan.cleaning.groups) > 1
                    await clean(owner, plan)
                    await swap(log, plan)
                else:
                    await compact(owner, log)
                files = log.inspect().files
                assert files is not None
                results.append(
                    (
                        await read(log),
                        files.first_dirty_offset,
                        [tuple(entry) for entry in log.aborted],
                        len(files.extents),
                    )
                )
                world.clock.advance(100_000)
                for number in range(30):
                    await put(log, b"more-%d" % (number % 3), b"x" * 60)
                await settled(log)
            assert {extent[1] >= CLEANED_ROLL_MIN for extent in extents_of(log)} == {True, False}
            await owner.manager.close()
        assert results[:3] == results[3:]

    virtual(main)


def test_one_manifest_swaps_in_all_groups() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        before = newest(await read(log))
        plan = await planned(log)
        await clean(owner, plan)
        manifests = [name for name in owner.client._store.files() if "manifest." in name]
        end = await swap(log, plan)
        newer = {name for name in owner.client._store.files() if "manifest." in name} - set(manifests)
        assert len(newer) == 1
        assert newest(await read(log)) == before
        assert end == await swap(log, plan), "whoever lost the answer asks again"
        assert end.records_kept == 10 and end.first_dirty_offset == plan.cleaning.groups[-1][-1].end_offset
        await owner.manager.close()

    virtual(main)


@pytest.mark.parametrize("fails_at", ["manifest", "index"])
def test_files_of_a_failed_swap_go_with_a_newer_manifest(fails_at: str) -> None:
    """A manifest of unknown outcome may name them; an index that was not written leaves them to nobody."""

    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        before = newest(await read(log))
        plan = await planned(log)
        await clean(owner, plan)
        write_file, fails = owner.client.write_file, True

        async def write(path: str, data: bytes, **more: Any) -> Any:
            if fails and fails_at in path:
                raise StorageUnavailable("no answer")
            return await write_file(path, data, **more)

        owner.client.write_file = write  # type: ignore[method-assign,assignment]
        with pytest.raises(KafkaError):
            await swap(log, plan)
        fails = False
        await asyncio.sleep(5)
        assert bool(await unnamed(owner, log)) == (fails_at == "manifest")
        assert newest(await read(log)) == before
        await compact(owner, log)
        await asyncio.sleep(2)
        assert not await unnamed(owner, log)
        assert newest(await read(log)) == before
        await owner.manager.close()

    virtual(main)


def test_a_reserved_partition_is_left_alone_until_the_time_is_over() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner)
        plan = await planned(log)
        assert await planned(log) == plan, "the same job gets the same plan"
        with pytest.raises(DelegationRefused, match="the job 'job' has"):
            await log.compaction.delegation.plan("another", LIMIT_MS)
        assert await log.compaction.run(cleaning_of(owner), world.clock.now_ms(), at_once) is None
        await clean(owner, plan)
        world.clock.advance(LIMIT_MS + 1)
        with pytest.raises(DelegationRefused, match="ended 1 ms ago"):
            await swap(log, plan)
        log.compaction.delegation.expire(world.clock.now_ms())
        await compact(owner, log)
        await settled_trash(owner, plan)
        with pytest.raises(DelegationRefused, match="not any more"):
            await swap(log, plan)
        await owner.manager.close()

    virtual(main)


def test_a_reservation_that_ends_while_its_files_are_checked_is_refused() -> None:
    """Only so long are the files that the job read sure to be there: afterwards others may have replaced them."""

    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner)
        before, extents = await read(log), extents_of(log)
        plan = await planned(log)
        await clean(owner, plan)

        async def slow(_: int) -> None:
            world.clock.advance(LIMIT_MS + 1)

        with pytest.raises(DelegationRefused, match="ended while its files were checked"):
            await log.compaction.delegation.swap(plan.reservation, plan.leader_epoch, slow)
        assert (await read(log), extents_of(log)) == (before, extents)
        assert not log.compaction.delegation.is_reserved
        await owner.manager.close()

    virtual(main)


async def settled_trash(owner: Owner, plan: DelegatedPlan) -> None:
    for _ in range(100):
        if await owner.client.status(plan.directory) is None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the job's files are still there")


def test_a_released_reservation_is_forgotten() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        plan = await planned(log)
        log.compaction.delegation.release("0" * 16)
        assert log.compaction.delegation.is_reserved
        log.compaction.delegation.release(plan.reservation)
        assert not log.compaction.delegation.is_reserved
        await settled_trash(owner, plan)
        with pytest.raises(DelegationRefused):
            await swap(log, plan)
        await owner.manager.close()

    virtual(main)


def test_a_dry_run_reserves_nothing() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        plan = await log.compaction.delegation.plan(JOB, LIMIT_MS, is_dry_run=True)
        assert plan is not None and not plan.directory and not log.compaction.delegation.is_reserved
        await owner.manager.close()

    virtual(main)


async def _another_extent(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await log.delete_records(150)


async def _missing(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await owner.client.delete(f"{plan.directory}/{files[1].name}")


async def _undescribed(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await owner.client.delete(f"{plan.directory}/{description_name(1, 'a')}")


async def _short(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    owner.client._store.truncate_file(f"{plan.directory}/{files[1].name}", files[1].length_bytes - 1)


async def _damaged(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    owner.client._store.flip_bit(f"{plan.directory}/{files[1].name}", files[1].length_bytes - 3)


async def _wrong_offset(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    # A batch's own offset is not in its checksum; the file's is.
    owner.client._store.flip_bit(f"{plan.directory}/{files[1].name}", 7)


async def _redescribed(owner: Owner, plan: DelegatedPlan, file: CleanedFile) -> None:
    """A description that is found before the first one."""
    path = f"{plan.directory}/{description_name(file.group, '0')}"
    await owner.client.write_file(path, file.encode(), holder="job")


async def _other_crc(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await _redescribed(owner, plan, replace(files[1], crc=files[1].crc ^ 1))


async def _overlapping(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await _redescribed(owner, plan, replace(files[1], base_offset=files[0].base_offset))


async def _of_another_group(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    wanted = files[1]
    await _redescribed(
        owner, plan, replace(files[0], group=1, base_offset=wanted.base_offset, end_offset=wanted.end_offset)
    )


async def _told_of_an_abort(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await _redescribed(owner, plan, replace(files[1], dropped_aborts=(files[1].base_offset,)))


async def _not_json(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await owner.client.write_file(f"{plan.directory}/{description_name(1, '0')}", b"{}", holder="job")


async def _elsewhere(log: PartitionRuntime, owner: Owner, plan: DelegatedPlan, files: list[CleanedFile]) -> None:
    await _redescribed(owner, plan, replace(files[1], name="../00000000.log"))


@pytest.mark.parametrize(
    "harm",
    [
        _another_extent,
        _missing,
        _undescribed,
        _short,
        _damaged,
        _wrong_offset,
        _other_crc,
        _overlapping,
        _of_another_group,
        _told_of_an_abort,
        _not_json,
        _elsewhere,
    ],
)
def test_what_cannot_be_proven_is_refused_and_the_log_is_as_it_was(harm: Callable[..., Any]) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner)
        plan = await planned(log)
        files = await clean(owner, plan)
        assert len(files) > 2
        await harm(log, owner, plan, files)
        before, extents = await read(log), extents_of(log)
        with pytest.raises(DelegationRefused):
            await swap(log, plan)
        assert extents_of(log) == extents
        assert await read(log) == before
        assert not log.compaction.delegation.is_reserved, "the broker compacts it again"
        await settled_trash(owner, plan)
        paths = log.inspect().paths
        names = {entry.name for entry in await owner.client.list_directory(paths.own)}
        assert not any(name.startswith("10000000") and name.endswith(".log") for name in names), (
            "nothing is left behind"
        )
        owner.kill()
        second = world.owner(COMPACT)
        assert await read(await second.log()) == before
        await second.manager.close()

    virtual(main)


def test_files_on_fewer_nodes_than_acks_all_was_told_of_are_refused() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(COMPACT, min_insync_replicas=2))
        log = await filled(owner)
        plan = await planned(log)
        world.lose_nodes(2)
        await clean(owner, plan)
        before = await read(log)
        with pytest.raises(DelegationRefused, match=r"is on 1 nodes, and min\.insync\.replicas is 2"):
            await swap(log, plan)
        assert await read(log) == before
        await owner.manager.close()

    virtual(main)


def test_a_marker_that_is_gone_has_to_be_told() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await mixed(owner)
        for _ in range(4):  # until a marker's own time is over
            plan = await planned(log, 1_000)
            files = await clean(owner, plan)
            dropping = [file for file in files if file.dropped_aborts]
            if dropping:
                await _redescribed(owner, plan, replace(dropping[0], dropped_aborts=dropping[0].dropped_aborts[1:]))
                with pytest.raises(DelegationRefused, match="markers of aborted transactions"):
                    await swap(log, plan)
                break
            await swap(log, plan)
            world.clock.advance(100_000)
            for number in range(30):
                await put(log, b"more-%d" % (number % 3), b"x" * 60)
            await settled(log)
        else:
            raise AssertionError("no marker has gone")
        await owner.manager.close()

    virtual(main)


def test_a_plan_of_a_former_owner_is_refused_and_its_files_go() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(COMPACT)
        log = await filled(first)
        before = await read(log)
        plan = await planned(log)
        await clean(first, plan)
        second = world.owner(COMPACT)
        again = await second.log()
        with pytest.raises(DelegationRefused, match="leader epoch 1"):
            await swap(again, plan)
        with pytest.raises(BmqError):
            await swap(log, plan)
        with pytest.raises(BmqError):
            await clean(second, plan, attempt="b")
        assert await read(again) == before
        sealed = replace(plan, directory=plan.directory.replace(".open/", "/"))
        await settled_trash(second, sealed)
        newer = await planned(again)
        await clean(second, newer)
        await swap(again, newer)
        assert newest(await read(again)) == newest(before)
        await second.manager.close()
        first.kill()

    virtual(main)


@pytest.mark.parametrize("reads", range(1, 12, 2))
def test_an_owner_fenced_in_the_middle_of_a_swap_swaps_nothing(reads: int) -> None:
    async def main() -> None:
        world = World()
        first = world.owner(COMPACT)
        log = await filled(first)
        before = await read(log)
        plan = await planned(log)
        await clean(first, plan)
        count = 0
        successors: list[Owner] = []

        async def taken_over(_: int) -> None:
            nonlocal count
            count += 1
            if count == reads:
                successors.append(world.owner(COMPACT))
                await successors[0].log()

        with pytest.raises(BmqError):
            await log.compaction.delegation.swap(plan.reservation, plan.leader_epoch, taken_over)
        second = await successors[0].log()
        assert await read(second) == before
        assert all(roll < CLEANED_ROLL_MIN for _, roll in extents_of(second))
        await successors[0].manager.close()
        first.kill()

    virtual(main)


def test_a_log_that_is_being_compacted_is_not_given_away() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)

        async def ask() -> None:
            with pytest.raises(DelegationRefused, match="right now"):
                await planned(log)

        await compact(owner, log, Interrupted(cleaning_of(owner), 1, None, ask))  # type: ignore[arg-type]
        assert await log.compaction.delegation.plan(JOB, LIMIT_MS) is None, "nothing is dirty"
        await owner.manager.close()
        with pytest.raises(KafkaError):
            await log.compaction.delegation.plan(JOB, LIMIT_MS)

    virtual(main)
