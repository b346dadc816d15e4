"""A partition is compacted by its owner: what is left is swapped in, and whatever happens meanwhile the log is whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bmq.broker.context import CompactionPace
from bmq.broker.runtime import PartitionRuntime
from bmq.compaction.cleaning import CleaningHere
from bmq.log.compaction import (
    CleanerUnavailable,
    CleaningEnd,
    CleaningEvent,
    CleaningInterrupted,
    CleaningPlan,
    LogCleaning,
    Uncleanable,
)
from bmq.log.config import LogConfig
from bmq.log.names import CLEANED_ROLL_MIN, parse_cleaned
from bmq.log.segment_reader import read_whole_batches
from bmq.log.store import Durability, FileMissing, FileStatus, StorageUnavailable
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL, batches
from tests.fakes.clock import FakeClock
from tests.support.flagged_batch import flagged_batch
from tests.unit.broker.world import CONFIG, Owner, World, append, virtual

pytestmark = pytest.mark.unit

COMPACT = replace(
    CONFIG,
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1_000,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=1_000,
    file_delete_delay_ms=1_000,
)
SEED = bytes(range(16))


async def at_once(_: int) -> None:
    return


def cleaning_of(owner: Owner) -> CleaningHere:
    return CleaningHere(owner.client, lambda: SEED, chunk_bytes=700)


async def put(log: PartitionRuntime, key: bytes, value: bytes | None, **fields: Any) -> None:
    result = await append(log, flagged_batch([Record(key, value, timestamp_ms=FakeClock().now_ms())], **fields))
    assert not result.error_code, result


async def filled(owner: Owner, rounds: int = 20) -> PartitionRuntime:
    """Ten keys, each written `rounds` times, in several segments."""
    log = await owner.log()
    for number in range(rounds):
        for key in range(10):
            await put(log, b"%d" % key, b"%d of %d" % (number, key))
    await settled(log)
    return log


async def settled(log: PartitionRuntime) -> None:
    """Until every closed segment has its index."""
    files = log.inspect().files
    assert files is not None
    for _ in range(200):
        if len(files.own_segments()) <= 1:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("segments are not indexed")


async def compact(owner: Owner, log: PartitionRuntime, cleaning: LogCleaning | None = None) -> CleaningEnd:
    end = await log.compaction.run(cleaning or cleaning_of(owner), owner.manager.context.clock.now_ms(), at_once)
    assert end is not None
    return end


async def read(log: PartitionRuntime) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every record in the files."""
    files = log.inspect().files
    assert files is not None
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.high_watermark:
        location = await log.locate(offset)
        whole = await read_whole_batches(files.store, location, offset, 2_000, log.high_watermark)
        assert whole is not None, f"nothing at {offset}"
        for position, header in batches(whole[1]):
            assert header.end_offset > offset
            offset = header.end_offset
            if not header.is_control:
                found += [(each.offset, each.key, each.value) for each in decode_records(whole[1], position)]
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    return found


def newest(found: list[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in found}


def test_of_each_key_the_newest_record_is_left() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        before = await read(log)
        end = await compact(owner, log)
        after = await read(log)
        assert newest(after) == newest(before)
        files = log.inspect().files
        assert files is not None and files.first_dirty_offset == end.first_dirty_offset
        below = [offset for offset, _, _ in after if offset < end.first_dirty_offset]
        assert len(below) == 10 == end.records_kept < end.records_read
        assert log.tail_read(0, 10_000, log.high_watermark) is None, "readers find less there now"
        assert {extent.roll >= CLEANED_ROLL_MIN for extent in files.extents} == {True}
        await put(log, b"1", b"again")
        assert newest(await read(log)) == newest(before) | {b"1": (200, b"again")}
        await owner.manager.close()

    virtual(main)


def test_compaction_goes_on_where_it_had_come_to_and_merges_what_is_small() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        files = log.inspect().files
        assert files is not None
        await compact(owner, log)
        count = len(files.extents)
        for number in range(20):
            await put(log, b"%d" % (number % 3), b"x" * 90)
        await settled(log)
        before = await read(log)
        await compact(owner, log)
        assert newest(await read(log)) == newest(before)
        assert len(files.extents) < count
        await owner.manager.close()

    virtual(main)


def test_the_next_owner_has_the_compacted_log() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(COMPACT)
        log = await filled(first)
        await compact(first, log)
        expected = await read(log)
        first.kill()
        second = world.owner(COMPACT)
        again = await second.log()
        assert await read(again) == expected
        files = again.inspect().files
        assert files is not None and files.first_dirty_offset > 0
        found = again.compaction.cleanable(world.clock.now_ms())
        assert found is not None and found.first_dirty_offset == files.first_dirty_offset
        await compact(second, again)
        assert newest(await read(again)) == newest(expected)
        await second.manager.close()

    virtual(main)


def test_replaced_files_are_deleted_after_a_while() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner)
        paths = log.inspect().paths
        before = {entry.name for entry in await owner.client.list_directory(paths.own)}
        await compact(owner, log)
        assert before <= {entry.name for entry in await owner.client.list_directory(paths.own)} | {"manifest.00000000"}
        await asyncio.sleep(2)
        left = {entry.name for entry in await owner.client.list_directory(paths.own) if entry.name.endswith(".log")}
        assert "00000000.log" not in left
        await owner.manager.close()

    virtual(main)


def test_tombstones_go_when_their_time_is_over() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner, rounds=5)
        await put(log, b"3", None)
        for number in range(30):
            await put(log, b"other", b"x" * 60 + b"%d" % number)
        await settled(log)
        await compact(owner, log)
        assert newest(await read(log))[b"3"] == (50, None)
        world.clock.advance(2_000)
        for number in range(30):
            await put(log, b"other", b"x" * 60 + b"%d" % number)
        await settled(log)
        await compact(owner, log)
        assert b"3" not in newest(await read(log))
        await owner.manager.close()

    virtual(main)


def test_the_greatest_timestamp_is_that_of_a_record_that_is_left() -> None:
    async def main() -> None:
        owner = World().owner(replace(COMPACT, message_timestamp_before_max_ms=2**60))
        log = await owner.log()
        now_ms = FakeClock().now_ms()
        for number in range(40):
            # The oldest record has the greatest timestamp, until a newer one of its key comes.
            record = Record(b"k%d" % (number % 20), b"x" * 60, timestamp_ms=now_ms - number)
            assert not (await append(log, encode_batch([record]))).error_code
        await settled(log)
        assert await log.max_timestamp() == (0, now_ms)
        await compact(owner, log)
        left = [offset for offset, _, _ in await read(log)]
        assert await log.max_timestamp() == (left[0], now_ms - left[0])
        files = log.inspect().files
        assert files is not None and all(extent.max_timestamp_ms > 0 for extent in files.extents)
        await owner.manager.close()

    virtual(main)


@pytest.mark.parametrize("least_ms", [0, 60_000])
def test_records_of_aborted_transactions_go_and_their_marker_later(least_ms: int) -> None:
    async def main() -> None:
        world = World(compaction_marker_retention_ms=least_ms)
        owner = world.owner(COMPACT)
        log = await owner.log()
        await put(log, b"k", b"kept")
        transactional = encode_batch(
            [Record(b"k", b"aborted")], attributes=TRANSACTIONAL, base_sequence=0, producer_id=7, producer_epoch=0
        )
        await append(log, transactional, is_internal=True)
        # With an epoch of its own: a producer's last batch of its present epoch would stay, and keep the marker.
        marker = encode_end_transaction_marker(
            EndTransactionMarker(ControlType.ABORT, 1), timestamp_ms=1, producer_id=7, producer_epoch=1
        )
        await append(log, marker, is_internal=True)
        assert [entry.last_offset for entry in log.aborted] == [2]
        for number in range(40):
            await put(log, b"other", b"x" * 60 + b"%d" % number)
        await settled(log)
        await compact(owner, log)
        assert newest(await read(log))[b"k"] == (0, b"kept")
        assert [entry.last_offset for entry in log.aborted] == [2], "its marker is still there"
        for _ in range(2):  # once to set its time, once to let it go
            world.clock.advance(2_000)
            for number in range(40):
                await put(log, b"other", b"x" * 60 + b"%d" % number)
            await settled(log)
            await compact(owner, log)
        assert bool(log.aborted) == (least_ms > 0)
        await owner.manager.close()

    virtual(main)


def test_a_producers_last_sequence_outlives_its_records() -> None:
    """Its batch stays, without records, until it has written a newer one: the walk of the log knows it from there."""

    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await owner.log()
        await put(log, b"k", b"old", producer_id=7, producer_epoch=0, base_sequence=0)
        for _ in range(2):
            for number in range(30):
                await put(log, b"k", b"x" * 60 + b"%d" % number)
            await settled(log)
            await compact(owner, log)
            found = await producers_in(log)
            assert found[7] == [(0, 0)], "no record is left of it"
        await put(log, b"another", b"newer", producer_id=7, producer_epoch=0, base_sequence=1)
        for number in range(30):
            await put(log, b"k", b"x" * 60 + b"%d" % number)
        await settled(log)
        await compact(owner, log)
        assert (await producers_in(log))[7] == [(1, 1)]
        await owner.manager.close()

    virtual(main)


async def producers_in(log: PartitionRuntime) -> dict[int, list[tuple[int, int]]]:
    """(base sequence, records) of the batches of each producer that are in the files."""
    files = log.inspect().files
    assert files is not None
    found: dict[int, list[tuple[int, int]]] = {}
    offset = log.log_start_offset
    while offset < log.high_watermark:
        whole = await read_whole_batches(files.store, await log.locate(offset), offset, 2_000, log.high_watermark)
        assert whole is not None, f"nothing at {offset}"
        for _, header in batches(whole[1]):
            offset = header.end_offset
            if header.has_producer_id:
                found.setdefault(header.producer_id, []).append((header.base_sequence, header.record_count))
    return found


def test_nothing_past_the_last_stable_offset_is_compacted() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await owner.log()
        transactional = encode_batch(
            [Record(b"k", b"open")], attributes=TRANSACTIONAL, base_sequence=0, producer_id=7, producer_epoch=0
        )
        await append(log, transactional, is_internal=True)
        for number in range(40):
            await put(log, b"other", b"x" * 60 + b"%d" % number)
        await settled(log)
        found = log.compaction.cleanable(owner.manager.context.clock.now_ms())
        assert found is not None and not found.dirty_bytes
        assert await log.compaction.run(cleaning_of(owner), 0, at_once) is None
        await owner.manager.close()

    virtual(main)


@pytest.mark.parametrize(
    "config",
    [replace(COMPACT, cleanup_policy=frozenset({"delete"})), replace(COMPACT, is_state_log=True)],
)
def test_other_logs_are_not_compacted(config: LogConfig) -> None:
    async def main() -> None:
        owner = World().owner(config)
        log = await filled(owner, rounds=5)
        assert log.compaction.cleanable(0) is None
        await owner.manager.close()

    virtual(main)


class Interrupted:
    """Gives so many events and then fails; `then` is called before."""

    def __init__(self, inner: LogCleaning, count: int, error: Exception, then: Any = None) -> None:
        self.inner, self.count, self.error, self.then = inner, count, error, then

    async def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        number = 0
        async for event in self.inner.clean(plan):
            if number == self.count:
                if self.then is not None:
                    await self.then()
                if self.error is not None:
                    raise self.error
            yield event
            number += 1

    def use_share(self, share: float) -> None:
        self.inner.use_share(share)

    async def close(self) -> None:
        await self.inner.close()


@pytest.mark.parametrize("count", range(9))
def test_an_interrupted_compaction_leaves_the_log_whole(count: int) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner)
        before = newest(await read(log))
        with pytest.raises(CleaningInterrupted):
            await compact(owner, log, Interrupted(cleaning_of(owner), count, CleaningInterrupted("away")))
        assert newest(await read(log)) == before
        files = log.inspect().files
        assert files is not None
        named = {extent.roll for extent in files.extents}
        for name in cleaned_files(await owner.client.list_directory(log.inspect().paths.own)):
            assert int(name.removesuffix(".log")) in named, "a file that nobody names is removed"
        owner.kill()
        second = world.owner(COMPACT)
        assert newest(await read(await second.log())) == before
        await second.manager.close()

    virtual(main)


async def stopped_in_the_middle(owner: Owner, log: PartitionRuntime, count: int) -> None:
    """A compaction that has given so many events and gives no more."""
    reached = asyncio.Event()

    async def for_ever() -> None:
        reached.set()
        await asyncio.Event().wait()

    cleaning = Interrupted(cleaning_of(owner), count, None, for_ever)  # type: ignore[arg-type]
    owner.compacting = asyncio.create_task(compact(owner, log, cleaning))  # type: ignore[attr-defined]
    await reached.wait()


async def unnamed(owner: Owner, log: PartitionRuntime) -> list[str]:
    """Files of compactions, and indexes of such files, that the log's manifest does not name."""
    parts = log.inspect()
    assert parts.files is not None
    named = {(extent.leader_epoch, extent.roll) for extent in parts.files.extents}
    found: list[str] = []
    for epoch in range(1, parts.paths.leader_epoch + 1):
        try:
            entries = await owner.client.list_directory(parts.paths.epoch(epoch))
        except FileMissing:
            continue
        found += [
            parts.paths.file(epoch, entry.name)
            for entry in entries
            if (roll := parse_cleaned(entry.name)) is not None and (epoch, roll) not in named
        ]
    return found


@pytest.mark.parametrize("is_indexed", [False, True])
def test_what_a_dead_owner_has_not_swapped_in_is_removed_by_the_next_one(is_indexed: bool) -> None:
    async def main() -> None:
        world = World()
        first = world.owner(COMPACT)
        log = await filled(first)
        await compact(first, log)  # its files are named, and lie in the same directory
        for number in range(40):
            await put(log, b"%d" % (number % 3), b"x" * 90)
        await settled(log)
        before = await read(log)
        if is_indexed:
            write_file = first.client.write_file

            async def dies(path: str, *args: Any, **more: Any) -> Any:
                if "manifest" in path:
                    first.kill()
                return await write_file(path, *args, **more)

            first.client.write_file = dies  # type: ignore[method-assign]
            first.compacting = asyncio.create_task(compact(first, log))  # type: ignore[attr-defined]
            await asyncio.sleep(5)
        else:
            await stopped_in_the_middle(first, log, 1)
            first.kill()
        second = world.owner(COMPACT)
        again = await second.log()
        orphans = await unnamed(second, again)
        assert len(orphans) == 1 + is_indexed, orphans
        await asyncio.sleep(0.5)
        assert await unnamed(second, again) == orphans, "somebody may read by an older manifest for a while"
        await asyncio.sleep(2)
        assert not await unnamed(second, again)
        assert await read(again) == before
        await compact(second, again)
        assert newest(await read(again)) == newest(before)
        await second.manager.close()

    virtual(main)


def test_the_walk_of_the_next_owner_passes_compacted_segments_by() -> None:
    """Whether a manifest names them or not: they come behind all others by number, and would be read, and cut as a gap."""

    async def main() -> None:
        world = World()
        first = world.owner(COMPACT)
        log = await filled(first)
        await compact(first, log)
        for number in range(40):
            await put(log, b"%d" % (number % 3), b"x" * 90)
        await settled(log)
        await stopped_in_the_middle(first, log, 1)
        first.kill()
        second = world.owner(COMPACT)
        parts = (await second.log()).inspect()
        recovered = parts.start.recovered
        assert recovered is not None and parts.files is not None
        assert recovered.scanned_segments <= 1, "the one that was open"
        assert not [cut for cut in parts.files.cuts if cut.roll >= CLEANED_ROLL_MIN]
        await second.manager.close()

    virtual(main)


def test_what_is_not_compacted_is_not_searched() -> None:
    """Each start would list directories that it need not look at."""

    async def main() -> None:
        world = World()
        first = world.owner(replace(COMPACT, cleanup_policy=frozenset({"delete"})))
        await filled(first)
        first.kill()
        second = world.owner(replace(COMPACT, cleanup_policy=frozenset({"delete"})))
        listed: list[str] = []
        list_directory = second.client.list_directory

        async def noted(path: str) -> tuple[FileStatus, ...]:
            listed.append(path)
            return await list_directory(path)

        second.client.list_directory = noted  # type: ignore[method-assign]
        log = await second.log()
        count = len(listed)
        await asyncio.sleep(2)
        assert len(listed) == count
        assert (await log.compaction.run(cleaning_of(second), 0, at_once)) is None
        await second.manager.close()

    virtual(main)


def test_a_search_that_failed_is_made_again() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(COMPACT)
        log = await filled(first)
        await stopped_in_the_middle(first, log, 1)
        first.kill()
        second = world.owner(COMPACT)
        again = await second.log()
        search, fails = second.client.list_directory, True

        async def list_directory(path: str) -> tuple[FileStatus, ...]:
            if fails:
                raise StorageUnavailable("away")
            return await search(path)

        second.client.list_directory = list_directory  # type: ignore[method-assign]
        await asyncio.sleep(0.01)
        fails = False
        await compact(second, again)
        await asyncio.sleep(2)
        assert not await unnamed(second, again)
        await second.manager.close()

    virtual(main)


def test_a_file_that_could_not_be_removed_is_removed_with_the_next_change() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        delete, fails = owner.client.delete, True

        async def away(path: str, *, recursive: bool = False) -> bool:
            if fails:
                raise StorageUnavailable("away")
            return await delete(path, recursive=recursive)

        owner.client.delete = away  # type: ignore[method-assign]
        with pytest.raises(CleaningInterrupted):
            await compact(owner, log, Interrupted(cleaning_of(owner), 1, CleaningInterrupted("away")))
        fails = False
        await asyncio.sleep(5)
        assert len(await unnamed(owner, log)) == 1
        await compact(owner, log)
        await asyncio.sleep(2)
        assert not await unnamed(owner, log)
        await owner.manager.close()

    virtual(main)


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("is_next_owner", [False, True])
def test_a_swap_of_unknown_outcome_keeps_the_file_until_a_newer_manifest(is_written: bool, is_next_owner: bool) -> None:
    """Its manifest may be there, or come later. Once a newer one does not name the file, nobody finds it any more."""

    async def main() -> None:
        world = World()
        owner = world.owner(COMPACT)
        log = await filled(owner)
        before = newest(await read(log))
        write_file, fails = owner.client.write_file, True

        async def write(path: str, data: bytes, **more: Any) -> Any:
            if fails and "manifest" in path:
                if is_written:
                    await write_file(path, data, **more)
                raise StorageUnavailable("no answer")
            return await write_file(path, data, **more)

        owner.client.write_file = write  # type: ignore[method-assign,assignment]
        with pytest.raises(KafkaError):
            await compact(owner, log)
        fails = False
        await asyncio.sleep(5)
        assert len(await unnamed(owner, log)) == 2, "it and its index"
        if is_next_owner:
            owner.kill()
            owner = world.owner(COMPACT)
            log = await owner.log()
            assert bool(await unnamed(owner, log)) != is_written
        assert newest(await read(log)) == before
        await compact(owner, log)
        await asyncio.sleep(2)
        assert not await unnamed(owner, log)
        assert newest(await read(log)) == before
        await owner.manager.close()

    virtual(main)


def test_what_is_deleted_meanwhile_is_not_brought_back() -> None:
    async def main() -> None:
        owner = World().owner(COMPACT)
        log = await filled(owner)
        deleting = Interrupted(cleaning_of(owner), 0, None, lambda: log.delete_records(150))  # type: ignore[arg-type]
        with pytest.raises(KafkaError):
            await compact(owner, log, deleting)
        assert log.log_start_offset == 150
        assert [offset for offset, _, _ in await read(log) if offset >= 150] == list(range(150, 200))
        await owner.manager.close()

    virtual(main)


def test_a_fenced_owner_swaps_nothing() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(COMPACT)
        log = await filled(first)
        before = await read(log)
        successors: list[Owner] = []

        async def take_over() -> None:
            successors.append(world.owner(COMPACT))
            await successors[0].log()

        with pytest.raises(BmqError):
            await compact(first, log, Interrupted(cleaning_of(first), 1, None, take_over))  # type: ignore[arg-type]
        second = await successors[0].log()
        assert await read(second) == before
        files = second.inspect().files
        assert files is not None and all(extent.roll < CLEANED_ROLL_MIN for extent in files.extents)
        await successors[0].manager.close()
        first.kill()

    virtual(main)


def test_what_is_swapped_in_lies_on_as_many_nodes_as_acks_all_was_told_of() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(COMPACT, min_insync_replicas=2))
        log = await filled(owner)
        before = await read(log)
        world.lose_nodes(2)
        with pytest.raises(CleaningInterrupted, match=r"is on 1 nodes, and min\.insync\.replicas is 2"):
            await compact(owner, log)
        assert await read(log) == before
        world.return_nodes()
        await compact(owner, log)
        assert len(await read(log)) < len(before)
        await owner.manager.close()

    virtual(main)


def test_a_topic_on_disk_has_its_compacted_segments_on_disk() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(COMPACT, durability=Durability.HSYNC))
        log = await filled(owner)
        await compact(owner, log)
        expected = await read(log)
        world.store.crash_machine()
        second = world.owner(replace(COMPACT, durability=Durability.HSYNC))
        assert await read(await second.log()) == expected
        await second.manager.close()

    virtual(main)


# --- the scheduler


class Counting:
    def __init__(self, inner: LogCleaning) -> None:
        self.inner, self.plans, self.is_closed = inner, 0, False

    def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        self.plans += 1
        return self.inner.clean(plan)

    def use_share(self, share: float) -> None:
        self.inner.use_share(share)

    async def close(self) -> None:
        self.is_closed = True


def test_the_scheduler_compacts_what_is_due_and_then_rests() -> None:
    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(COMPACT)
        log = await filled(owner)
        before = newest(await read(log))
        cleaning = Counting(cleaning_of(owner))
        owner.manager.use_cleaning(cleaning)
        await asyncio.sleep(10)
        assert owner.manager.counts.compactions == 1 == cleaning.plans
        assert newest(await read(log)) == before
        assert not cleaning.is_closed
        await owner.manager.close()
        assert cleaning.is_closed

    virtual(main)


def test_looks_are_as_far_apart_as_their_interval_however_long_a_cleaning_takes() -> None:
    """Kafka rests only after a look that found nothing, so the newest records wait for one interval at most."""

    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(COMPACT)
        await filled(owner)
        looks: list[float] = []
        loop = asyncio.get_running_loop()

        async def slow() -> None:
            looks.append(loop.time())
            await asyncio.sleep(0.75)

        cleaning = Interrupted(cleaning_of(owner), 0, CleaningInterrupted("away"), slow)
        owner.manager.use_cleaning(cleaning)
        await asyncio.sleep(5.5)
        assert [round(after - before, 2) for before, after in pairwise(looks)] == [1.0] * 4
        await owner.manager.close()

    virtual(main)


def test_a_cleaner_that_is_unavailable_is_tried_less_and_less_and_told_of() -> None:
    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(COMPACT)
        log = await filled(owner)
        before = newest(await read(log))
        broken = Interrupted(cleaning_of(owner), 0, CleanerUnavailable("it ended with exit code 1"))
        cleaning = Counting(broken)
        owner.manager.use_cleaning(cleaning)
        await asyncio.sleep(0.5)
        assert owner.manager.problems == ()
        tried_s: list[int] = []
        while len(tried_s) < 9:
            failures = owner.manager.counts.cleaner_failures
            await asyncio.sleep(0.5)
            if owner.manager.counts.cleaner_failures > failures:
                tried_s.append(round(asyncio.get_running_loop().time()))
        assert [after - before for before, after in pairwise(tried_s)] == [2**number for number in range(1, 9)]
        assert cleaning.plans == owner.manager.counts.cleaner_failures == 9
        assert owner.manager.problems == ("no log is compacted: it ended with exit code 1",)
        await asyncio.sleep(1_300)
        assert cleaning.plans == 11, "no rest is longer than ten minutes"
        assert owner.manager.counts.compactions == 0
        broken.error = None  # type: ignore[assignment]  # somebody has mended it
        await asyncio.sleep(601)
        assert owner.manager.counts.compactions == 1
        assert owner.manager.problems == ()
        assert newest(await read(log)) == before
        await owner.manager.close()

    virtual(main)


def test_a_little_dirt_waits_for_the_longest_lag() -> None:
    async def main() -> None:
        world = World(compaction_check_interval_ms=1_000)
        owner = world.owner(replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=60_000))
        log = await filled(owner)
        owner.manager.use_cleaning(cleaning_of(owner))
        await asyncio.sleep(10)
        assert owner.manager.counts.compactions == 0
        world.clock.advance(120_000)
        await asyncio.sleep(10)
        assert owner.manager.counts.compactions == 2, "the open segment is closed for it, and compacted, too"
        assert log.log_end_offset == log.inspect().files.first_dirty_offset  # type: ignore[union-attr]
        await owner.manager.close()

    virtual(main)


def test_a_pace_that_is_altered_takes_effect_at_once() -> None:
    async def main() -> None:
        owner = World(compaction_check_interval_ms=10**9).owner(COMPACT)
        await filled(owner)
        owner.manager.use_cleaning(cleaning_of(owner))
        await asyncio.sleep(1)
        owner.manager.pace_compaction(CompactionPace(1_000, 4_096, 500.0))
        await asyncio.sleep(2)
        assert not owner.manager.counts.compactions, "ten records are left; at 500 bytes a second that takes its time"
        await asyncio.sleep(8)
        assert owner.manager.counts.compactions == 1
        await owner.manager.close()

    virtual(main)


def test_a_log_that_cannot_be_decoded_is_left_alone() -> None:
    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(COMPACT)
        log = await filled(owner)
        before = await read(log)
        cleaning = Counting(Interrupted(cleaning_of(owner), 2, Uncleanable("a damaged batch")))
        owner.manager.use_cleaning(cleaning)
        await asyncio.sleep(10)
        assert (owner.manager.counts.uncleanable, cleaning.plans) == (1, 1)
        assert newest(await read(log)) == newest(before)
        await owner.manager.close()

    virtual(main)


def test_closing_gives_a_compaction_up() -> None:
    async def main() -> None:
        owner = World(compaction_check_interval_ms=1_000).owner(COMPACT)
        log = await filled(owner)

        async def for_ever() -> None:
            await asyncio.Event().wait()

        owner.manager.use_cleaning(Interrupted(cleaning_of(owner), 1, None, for_ever))  # type: ignore[arg-type]
        await asyncio.sleep(5)
        assert cleaned_files(await owner.client.list_directory(log.inspect().paths.own))
        await owner.manager.close()
        assert not cleaned_files(await owner.client.list_directory(log.inspect().paths.own_sealed))

    virtual(main)


def cleaned_files(entries: Sequence[FileStatus]) -> list[str]:
    return [
        entry.name
        for entry in entries
        if entry.name.endswith(".log") and int(entry.name.removesuffix(".log")) >= CLEANED_ROLL_MIN
    ]
