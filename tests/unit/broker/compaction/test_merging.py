"""Small closed segments of a partition become one with the very same batches, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from itertools import pairwise

import pytest

from bmq.broker.runtime import PartitionRuntime
from bmq.compaction.cleaning import CleaningHere
from bmq.compaction.frames import decode_plan, encode_plan
from bmq.log.compaction import CleaningEnd, CleaningEvent, CleaningPlan, LogCleaning, Uncleanable
from bmq.log.manifest import Extent
from bmq.log.names import MERGED_ROLL_MIN, parse_cleaned
from bmq.log.segment_reader import SegmentReader
from bmq.log.store import Durability
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import HEADER_BYTES, TRANSACTIONAL
from tests.fakes.namespace import files_below
from tests.unit.broker.world import CONFIG, Owner, World, append, produce, read_all, sequenced, virtual

pytestmark = pytest.mark.unit

MERGING = replace(
    CONFIG,
    segment_merge_max_bytes=1 << 20,
    segment_merge_min_count=3,
    segment_merge_lag_ms=0,
    segment_idle_close_ms=1_000,
    file_delete_delay_ms=1_000,
)


async def at_once(_: int) -> None:
    return


def cleaning_of(owner: Owner) -> CleaningHere:
    return CleaningHere(owner.client, lambda: bytes(16), chunk_bytes=700)


async def in_small_segments(log: PartitionRuntime, *values: bytes) -> None:
    """Each value in a segment of its own, which is closed and indexed."""
    for value in values:
        await produce(log, value)
        await closed(log)


async def closed(log: PartitionRuntime) -> None:
    files = log.inspect().files
    assert files is not None
    for _ in range(100):
        if not files.own_segments():
            return
        await asyncio.sleep(0.3)
    raise AssertionError("the segment is not closed")


def extents_of(log: PartitionRuntime) -> list[Extent]:
    files = log.inspect().files
    assert files is not None
    return files.extents


async def merge(owner: Owner, log: PartitionRuntime, cleaning: LogCleaning | None = None) -> CleaningEnd:
    now_ms = owner.manager.context.clock.now_ms()
    group = await log.compaction.mergeable(now_ms)
    assert group is not None
    end = await log.compaction.merge(group, cleaning or cleaning_of(owner), now_ms, at_once)
    assert end is not None
    return end


async def bytes_of(owner: Owner, log: PartitionRuntime) -> bytes:
    """All batches of the closed segments as they are stored."""
    parts, found = log.inspect(), bytearray()
    for extent in extents_of(log):
        reader = SegmentReader(
            owner.client,
            parts.paths.segment(extent.leader_epoch, extent.roll),
            file_id=extent.file_id,
            position=extent.position,
            valid_bytes=extent.valid_bytes,
        )
        while (run := await reader.next_run()) is not None:
            for place, header in run.batches:
                found += run.data[place : place + header.size_bytes]
    return bytes(found)


class During:
    """A cleaning during which something happens, after `count` events."""

    def __init__(self, inner: LogCleaning, count: int, then: object) -> None:
        self._inner, self._count, self._then = inner, count, then

    async def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        number = 0
        async for event in self._inner.clean(plan):
            if number == self._count:
                await self._then()  # type: ignore[operator]
            number += 1
            yield event

    def use_share(self, share: float) -> None:
        self._inner.use_share(share)

    async def close(self) -> None:
        await self._inner.close()


def test_small_segments_become_one_with_the_same_bytes_and_offsets() -> None:
    async def main() -> None:
        owner = World().owner(MERGING)
        log = await owner.log()
        await in_small_segments(log, b"a", b"b", b"c", b"d")
        before, stored = await read_all(log), await bytes_of(owner, log)
        assert len(extents_of(log)) == 4
        end = await merge(owner, log)
        assert (end.bytes_read, end.bytes_kept, end.records_kept) == (len(stored), len(stored), 4)
        (extent,) = extents_of(log)
        assert extent.roll == MERGED_ROLL_MIN and (extent.base_offset, extent.end_offset) == (0, 4)
        assert (await read_all(log), await bytes_of(owner, log)) == (before, stored)
        assert log.compacted_offset == -1, "readers of other nodes may go on as they are"
        assert await log.compaction.mergeable(owner.manager.context.clock.now_ms()) is None
        await produce(log, b"e")
        assert await read_all(log) == [*before, (4, b"e")]
        await owner.manager.close()

    virtual(main)


def test_replaced_files_and_their_directories_go_after_a_while() -> None:
    """Takeovers leave a directory each; a reader has the delay's time to finish what it reads."""

    async def main() -> None:
        world = World()
        for value in (b"a", b"b", b"c"):
            owner = world.owner(MERGING)
            await produce(await owner.log(), value)
            owner.kill()
        owner = world.owner(MERGING)
        log = await owner.log()
        await in_small_segments(log, b"d")
        before = await read_all(log)
        old_location = await log.locate(1)
        await merge(owner, log)
        files = [path for path, _ in files_below(world.store.namespace.root, "")]
        assert old_location.path.replace(".open", "") in [path.replace(".open", "") for path in files]
        await asyncio.sleep(2)
        files = [path for path, _ in files_below(world.store.namespace.root, "")]
        assert len([path for path in files if path.endswith(".log")]) == 1, files
        assert {path.rsplit("/", 2)[1] for path in files} == {"00000004.open"}, files
        assert await read_all(log) == before
        await owner.manager.close()

    virtual(main)


def test_the_next_owner_has_the_merged_log_and_its_producers() -> None:
    """Also without the index of the merged segment: its batches of several epochs are read again."""

    async def main() -> None:
        world = World()
        for number in range(3):
            owner = world.owner(MERGING)
            log = await owner.log()
            assert not (await append(log, sequenced(number, b"%d" % number))).error_code
            owner.kill()
        owner = world.owner(MERGING)
        log = await owner.log()
        await merge(owner, log)
        await in_small_segments(log, b"more")
        before = await read_all(log)
        epochs = [log.epoch_end_offset(epoch) for epoch in range(1, 5)]
        assert epochs == [(1, 1), (2, 2), (3, 3), (4, 4)]
        owner.kill()
        indexes = [
            path for path, _ in files_below(world.store.namespace.root, "") if path.endswith(f"{MERGED_ROLL_MIN}.index")
        ]
        assert len(indexes) == 1
        await world.store.client("hand").delete(indexes[0])
        owner = world.owner(MERGING)
        log = await owner.log()
        assert await read_all(log) == before
        assert [log.epoch_end_offset(epoch) for epoch in range(1, 5)] == epochs
        again = await append(log, sequenced(2, b"2"))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 2), "a duplicate"
        assert not (await append(log, sequenced(3, b"3"))).error_code
        await owner.manager.close()

    virtual(main)


def test_aborted_transactions_are_still_told() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(MERGING)
        log = await owner.log()
        await in_small_segments(log, b"a")
        transactional = encode_batch(
            [Record(b"k", b"aborted", timestamp_ms=world.clock.now_ms())],
            attributes=TRANSACTIONAL,
            base_sequence=0,
            producer_id=7,
            producer_epoch=0,
        )
        await append(log, transactional, is_internal=True)
        await closed(log)
        await in_small_segments(log, b"b", b"c")
        assert await log.compaction.mergeable(world.clock.now_ms()) is None, "nothing past the last stable offset"
        marker = encode_end_transaction_marker(
            EndTransactionMarker(ControlType.ABORT, 1),
            timestamp_ms=world.clock.now_ms(),
            producer_id=7,
            producer_epoch=0,
        )
        await append(log, marker, is_internal=True)
        await closed(log)
        told = log.aborted_transactions(0, 5)
        assert told is not None and [(entry.producer_id, entry.first_offset) for entry in told] == [(7, 1)]
        await merge(owner, log)
        assert len(extents_of(log)) == 1
        assert log.aborted_transactions(0, 5) == told
        owner.kill()
        owner = world.owner(MERGING)
        log = await owner.log()
        assert log.aborted_transactions(0, 5) == told
        await owner.manager.close()

    virtual(main)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_owner_that_dies_in_the_middle_leaves_a_whole_log_and_no_file(count: int) -> None:
    async def main() -> None:
        world = World()
        first = world.owner(MERGING)
        log = await first.log()
        await in_small_segments(log, b"a", b"b", b"c")
        before = await read_all(log)

        async def dies() -> None:
            first.kill()
            await asyncio.Event().wait()

        merging = asyncio.ensure_future(merge(first, log, During(cleaning_of(first), count, dies)))
        await asyncio.sleep(1)
        second = world.owner(MERGING)
        log = await second.log()
        assert await read_all(log) == before
        await asyncio.sleep(3)
        named = {(extent.leader_epoch, extent.roll) for extent in extents_of(log)}
        left = [
            path
            for path, _ in files_below(world.store.namespace.root, "")
            if (roll := parse_cleaned(path.rsplit("/", 1)[1])) is not None
            and (int(path.rsplit("/", 2)[1].removesuffix(".open")), roll) not in named
        ]
        assert not left
        if len(extents_of(log)) > 1:
            await merge(second, log)
        assert await read_all(log) == before and len(extents_of(log)) == 1
        merging.cancel()
        await second.manager.close()

    virtual(main)


def test_what_a_dead_owner_had_replaced_and_not_deleted_yet_is_deleted_by_the_next_one() -> None:
    """Nothing else there is: not what is named, and not what was cut."""

    async def main() -> None:
        world = World()
        config = replace(MERGING, file_delete_delay_ms=60_000)
        first = world.owner(config)
        log = await first.log()
        await in_small_segments(log, b"a", b"b", b"c")
        await merge(first, log)
        await in_small_segments(log, b"d", b"e")
        before = await read_all(log)
        first.kill()
        second = world.owner(MERGING)
        log = await second.log()
        assert len(segments_in(world, "/00000001/")) == 6, "those that were replaced are there still"
        await asyncio.sleep(3)
        named = [f"{extent.roll:08d}" for extent in extents_of(log)]
        assert segments_in(world, "/00000001/") == sorted(named)
        assert await read_all(log) == before
        second.kill()
        third = world.owner(MERGING)
        assert await read_all(await third.log()) == before
        await third.manager.close()

    virtual(main)


def segments_in(world: World, part: str) -> list[str]:
    """Names of the segments, each of which has an index, in directories whose path has this part."""
    paths = [path for path, _ in files_below(world.store.namespace.root, "") if part in path]
    logs, indexes = (
        {path.rsplit("/", 1)[1].removesuffix(suffix) for path in paths if path.endswith(suffix)}
        for suffix in (".log", ".index")
    )
    assert logs == indexes
    return sorted(logs)


def test_a_fenced_owner_swaps_nothing() -> None:
    async def main() -> None:
        world = World()
        first = world.owner(MERGING)
        log = await first.log()
        await in_small_segments(log, b"a", b"b", b"c")
        before = await read_all(log)
        successors: list[Owner] = []

        async def take_over() -> None:
            successors.append(world.owner(MERGING))
            await successors[0].log()

        with pytest.raises(BmqError):
            await merge(first, log, During(cleaning_of(first), 1, take_over))
        second = await successors[0].log()
        assert await read_all(second) == before
        assert all(extent.roll < MERGED_ROLL_MIN for extent in extents_of(second))
        await successors[0].manager.close()
        first.kill()

    virtual(main)


def test_what_is_deleted_meanwhile_is_not_brought_back() -> None:
    async def main() -> None:
        owner = World().owner(MERGING)
        log = await owner.log()
        await in_small_segments(log, b"a", b"b", b"c", b"d")
        with pytest.raises(KafkaError):
            await merge(owner, log, During(cleaning_of(owner), 1, lambda: log.delete_records(2)))
        assert await read_all(log) == [(2, b"c"), (3, b"d")]
        assert len(extents_of(log)) == 2
        await asyncio.sleep(2)
        await produce(log, b"e")
        assert await read_all(log) == [(2, b"c"), (3, b"d"), (4, b"e")]
        await owner.manager.close()

    virtual(main)


@pytest.mark.parametrize("is_header", [False, True])
def test_a_damaged_segment_is_not_merged(is_header: bool) -> None:
    """Whether its records are damaged, or its offset, which no checksum covers."""

    async def main() -> None:
        world = World()
        owner = world.owner(MERGING)
        log = await owner.log()
        await in_small_segments(log, b"a", b"b", b"c")
        extents = list(extents_of(log))
        parts = log.inspect()
        path = parts.paths.segment(extents[1].leader_epoch, extents[1].roll)
        store_read = owner.client.read

        async def read(at: str, **options: int) -> bytes:
            data = bytearray(await store_read(at, **options))
            if at == path and len(data) > HEADER_BYTES:
                data[7 if is_header else -1] ^= 1
            return bytes(data)

        owner.client.read = read  # type: ignore[method-assign,assignment]
        with pytest.raises(Uncleanable):
            await merge(owner, log)
        assert extents_of(log) == extents
        await owner.manager.close()

    virtual(main)


def test_segments_grow_by_merges_of_merged_ones() -> None:
    async def main() -> None:
        owner = World().owner(MERGING)
        log = await owner.log()
        for number in range(9):
            await in_small_segments(log, b"%d" % number)
            if number % 3 == 2:
                await merge(owner, log)
        assert [(one.roll - MERGED_ROLL_MIN, one.end_offset) for one in extents_of(log)] == [(1, 6), (2, 9)]
        assert [value for _, value in await read_all(log)] == [b"%d" % number for number in range(9)]
        await owner.manager.close()

    virtual(main)


def test_a_topic_on_disk_has_its_merged_segments_on_disk() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(MERGING, durability=Durability.HSYNC))
        log = await owner.log()
        await in_small_segments(log, b"a", b"b", b"c")
        await merge(owner, log)
        before = await read_all(log)
        world.store.crash_machine()
        second = world.owner(replace(MERGING, durability=Durability.HSYNC))
        assert await read_all(await second.log()) == before
        await second.manager.close()

    virtual(main)


def test_the_scheduler_merges_until_nothing_is_left_and_counts() -> None:
    async def main() -> None:
        world = World(compaction_check_interval_ms=1_000)
        owner = world.owner(replace(MERGING, segment_merge_max_bytes=0))
        log = await owner.log()
        await in_small_segments(log, *(b"%d" % number for number in range(7)))
        owner.manager.use_cleaning(cleaning_of(owner))
        await asyncio.sleep(5)
        assert len(extents_of(log)) == 7, "it is off"
        bytes_max = sum(extent.length for extent in extents_of(log)[:3])
        log.update_config(replace(MERGING, segment_merge_max_bytes=bytes_max))
        await asyncio.sleep(5)
        assert [extent.end_offset for extent in extents_of(log)] == [3, 6, 7]
        assert all(earlier.end_offset == later.base_offset for earlier, later in pairwise(extents_of(log)))
        counts = owner.manager.counts
        assert (counts.merges, counts.merged_segments, counts.merged_bytes) == (2, 6, 2 * bytes_max)
        assert counts.compactions == 0
        await owner.manager.close()

    virtual(main)


def test_a_merge_plan_travels_to_the_process_that_cleans() -> None:
    """Other plans look as they did: a job of an older release has to read them."""
    extent = Extent(1, 0, 1, 9, 100, 0, 100, 0, 5, 1_700_000_000_000)
    plan = CleaningPlan("topic", 0, ((extent,),), (("path",),), 0, 0, 0, 0, (), (), 100, 4_096, is_merge=True)
    assert decode_plan(encode_plan(plan)) == plan
    usual = replace(plan, is_merge=False)
    assert b"is_merge" not in encode_plan(usual) and decode_plan(encode_plan(usual)) == usual
