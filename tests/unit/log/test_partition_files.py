"""The owner's picture of its files: offsets are found, the past is dropped only behind a durable manifest."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.log import partition_files
from bmq.log.damage import StateDamaged
from bmq.log.index_cache import IndexCache
from bmq.log.partition_log import StateSnapshot
from bmq.log.segment_reader import SegmentReader
from bmq.log.store import CorruptFile, FencedWriter, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.store import FakeStore, Faults
from tests.unit.log.owned_log import PARTITION, CountingStore, Owner, batch_of

pytestmark = pytest.mark.unit


async def written(fake: FakeStore, segments: list[int], epoch: int = 1, **options: IndexCache) -> Owner:
    """An owner with batches of two records in these segments; the last one stays open."""
    owner = await Owner(fake.client(f"c{epoch}"), epoch, **options).start()  # type: ignore[arg-type]
    for number, count in enumerate(segments):
        for _ in range(count):
            await owner.produce(batch_of(2, value_bytes=30))
        if number < len(segments) - 1:
            await owner.roll_segment()
    return owner


async def batches_from(owner: Owner, offset: int) -> AsyncIterator[int]:
    """Base offsets of the batches a reader finds at the location of `offset`."""
    location = await owner.files.locate(offset)
    assert location.base_offset <= offset < location.end_offset
    reader = SegmentReader.at(owner.store, location)
    while (run := await reader.next_run()) is not None:
        for _, header in run.batches:
            yield header.base_offset


@settings(max_examples=25)
@given(segments=st.lists(st.integers(1, 6), min_size=1, max_size=4), is_taken_over=st.booleans(), data=st.data())
async def test_every_offset_is_found(segments: list[int], is_taken_over: bool, data: st.DataObject) -> None:
    fake = FakeStore()
    owner = await written(fake, segments)
    end = owner.files.end_offset
    assert end == 2 * sum(segments)
    if is_taken_over:
        owner = await written(fake, [2], epoch=2)
        end += 4
    offset = data.draw(st.integers(0, end - 1))
    found = [base async for base in batches_from(owner, offset)]
    assert offset // 2 * 2 in found
    assert found[0] >= offset - 2 * 5  # not the whole segment when it is long
    for outside in (-1, end, end + 1):
        with pytest.raises(KafkaError) as caught:
            await owner.files.locate(outside)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_segment_is_readable_while_it_is_closed_and_its_index_is_written() -> None:
    owner = await written(FakeStore(), [3])
    files = owner.files
    assert owner.writer is not None
    files.end_segment(0)
    assert not (await files.locate(1)).is_closed
    index = await files.seal_segment(0, await owner.writer.close())
    assert not (await files.locate(1)).is_closed
    assert files.manifest().extents == ()
    owner.writer = None
    await owner.produce(batch_of(2))
    assert (await files.locate(6)).path.endswith("00000001.log")
    assert (await files.locate(5)).path.endswith("00000000.log")
    await files.save_index(index)
    assert (await files.locate(5)).is_closed
    assert files.manifest().end_offset == 6
    assert files.manifest().next_roll == 1
    assert files.end_offset == 8


async def test_extents_keep_the_order_of_the_log_whichever_index_is_durable_first() -> None:
    owner = await written(FakeStore(), [1])
    files = owner.files
    indexes = []
    for roll in range(2):
        assert owner.writer is not None
        files.end_segment(roll)
        indexes.append(await files.seal_segment(roll, await owner.writer.close()))
        owner.writer = None
        await owner.produce(batch_of(2))
    await files.save_index(indexes[1])
    assert files.extents == []
    await files.save_index(indexes[0])
    assert [extent.roll for extent in files.extents] == [0, 1]
    assert await owner.read_all() == b"".join(owner.acknowledged)


async def test_a_segment_must_have_ended_and_one_without_a_batch_is_forgotten() -> None:
    owner = await written(FakeStore(), [1])
    with pytest.raises(ValueError, match="has not ended"):
        await owner.files.seal_segment(0, 100)
    await owner.roll_segment()
    await owner.open_segment()
    owner.files.end_segment(1)
    assert owner.files.own_segments() == ()
    with pytest.raises(KeyError):
        await owner.files.seal_segment(1, 0)


async def test_indexes_are_loaded_when_needed_and_kept_in_a_shared_cache() -> None:
    fake = FakeStore()
    await written(fake, [2, 2, 2])
    store = CountingStore(fake.client("b"))
    owner = await Owner(store, 2).start()  # type: ignore[arg-type]
    store.calls.clear()
    await owner.files.locate(1)
    await owner.files.locate(2)
    assert store.calls == ["read_file"]
    owner.indexes.drop_partition(PARTITION)
    await owner.files.locate(1)
    assert store.calls == ["read_file", "read_file"]


async def test_a_damaged_index_of_an_old_extent_is_rebuilt_once() -> None:
    fake = FakeStore()
    await written(fake, [2, 2, 2])
    store = CountingStore(fake.client("b"))
    owner = await Owner(store, 2).start()  # type: ignore[arg-type]
    fake.flip_bit(f"{PARTITION}/00000001/00000000.index", 80)
    store.calls.clear()
    first = await owner.files.locate(3)
    assert store.calls == ["read_file", "read", "write_file", "rename"]
    owner.indexes.drop_partition(PARTITION)
    assert await owner.files.locate(3) == first
    assert store.calls[4:] == ["read_file"]
    assert owner.files.manifest().extents[0].index_epoch == 2


async def test_an_extent_that_lost_batches_is_no_extent() -> None:
    fake = FakeStore()
    await written(fake, [2, 2, 2])
    owner = await written(fake, [1], epoch=2)
    fake.flip_bit(f"{PARTITION}/00000001/00000000.index", 80)
    fake.flip_bit(f"{PARTITION}/00000001/00000000.log", 70)
    with pytest.raises(CorruptFile, match="lost valid batches"):
        await owner.files.locate(0)


async def test_the_log_start_moves_and_what_lies_below_is_dropped() -> None:
    fake = FakeStore()
    await written(fake, [2, 2])
    owner = await written(fake, [2, 2, 2], epoch=2)
    files = owner.files
    assert await files.advance_log_start(0) == ()
    assert await files.advance_log_start(5) == (
        f"{PARTITION}/00000001/00000000.log",
        f"{PARTITION}/00000001/00000000.index",
    )
    assert files.log_start_offset == 5
    # The last extent of epoch 1 goes, and with it the directory; its rebuilt index lies in ours.
    dropped = await files.advance_log_start(12)
    assert dropped == (
        f"{PARTITION}/00000001",
        f"{PARTITION}/00000002.open/00000001-00000001.index",
        f"{PARTITION}/00000002.open/00000000.log",
        f"{PARTITION}/00000002.open/00000000.index",
    )
    for path in dropped:
        await owner.store.delete(path, recursive=True)
    with pytest.raises(KafkaError):
        await files.locate(11)
    # Records in the open segment can be deleted as well, though the file stays.
    assert len(await files.advance_log_start(17)) == 2
    assert await files.advance_log_start(1_000) == ()
    assert files.log_start_offset == files.end_offset == 20
    newer = await Owner(fake.client("c"), 3).start()
    assert (newer.files.log_start_offset, newer.files.end_offset) == (20, 20)


async def test_nothing_changes_here_when_the_manifest_could_not_be_written() -> None:
    fake = FakeStore()
    owner = await written(fake, [2, 2, 2])
    fake.faults = Faults(unavailable_rate=1.0)
    with pytest.raises(StorageUnavailable):
        await owner.files.advance_log_start(4)
    assert owner.files.log_start_offset == 0
    assert len(owner.files.extents) == 2
    fake.faults = Faults()
    assert len(await owner.files.advance_log_start(4)) == 2


async def test_a_lost_reply_costs_a_manifest_number_and_nothing_else() -> None:
    fake = FakeStore()
    owner = await written(fake, [2, 2, 2])
    fake.faults = Faults(lost_reply_rate=1.0)
    with pytest.raises(StorageUnavailable):
        await owner.files.advance_log_start(4)
    fake.faults = Faults()
    await owner.files.advance_log_start(4)
    newer = await Owner(fake.client("b"), 2).start()
    assert newer.files.log_start_offset == 4


async def test_who_lost_the_directory_is_fenced() -> None:
    fake = FakeStore()
    zombie = await written(fake, [2, 2])
    await Owner(fake.client("b"), 2).start()
    for change in (
        zombie.files.write_manifest(),
        zombie.files.record_cut(1, 5),
        zombie.files.advance_log_start(2),
        zombie.files.save_snapshot(StateSnapshot(2, b"state")),
    ):
        with pytest.raises(FencedWriter):
            await change
    assert zombie.files.log_start_offset == 0
    assert zombie.files.cuts == ()


async def test_few_manifests_are_kept() -> None:
    fake = FakeStore()
    owner = await written(fake, [1])
    for _ in range(5):
        await owner.files.write_manifest()
    manifests = [path for path in fake.files() if "manifest" in path]
    assert [path[-8:] for path in sorted(manifests)] == ["00000004", "00000005"]


async def test_a_snapshot_replaces_the_segments_below_it() -> None:
    fake = FakeStore()
    owner = await written(fake, [2, 2, 2])
    files = owner.files
    assert await files.latest_snapshot(100) is None
    dropped = await files.save_snapshot(StateSnapshot(6, b"first"))
    assert dropped == (f"{owner.paths.own}/00000000.log", f"{owner.paths.own}/00000000.index")
    assert files.log_start_offset == 4
    assert await files.save_snapshot(StateSnapshot(9, b"second")) == (
        f"{owner.paths.own}/00000001.log",
        f"{owner.paths.own}/00000001.index",
        f"{owner.paths.own}/snapshot.00000000",
    )
    assert await files.latest_snapshot(9) == StateSnapshot(9, b"second")
    with pytest.raises(StateDamaged, match="the state before it is known only up to 0"):
        await files.latest_snapshot(8)
    newer = await Owner(fake.client("b"), 2).start()
    assert await newer.files.latest_snapshot(12) == StateSnapshot(9, b"second")
    assert newer.recovered.unnamed_directories == ()


async def test_sizes_and_epochs() -> None:
    fake = FakeStore()
    await written(fake, [2])
    owner = await written(fake, [1, 1], epoch=2)
    total = len(await owner.read_all())
    assert owner.files.size_bytes == total
    assert owner.builder is not None
    assert owner.files.open_bytes == owner.builder.valid_bytes
    assert owner.files.epoch_end_offset(1, 8) == (1, 4)
    assert owner.files.epoch_end_offset(2, 8) == (2, 8)
    assert owner.files.epoch_end_offset(3, 8) == (-1, -1)


async def test_many_producers_are_left_to_the_last_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_files, "PRODUCERS_INLINE_BYTES_MAX", 0)
    fake = FakeStore()
    owner = await Owner(fake.client("a"), 1).start()
    assert owner.files.manifest().producers is not None  # no extent could have it
    await owner.produce(batch_of(1, producer_id=4, producer_epoch=0, base_sequence=0))
    await owner.roll_segment()
    assert owner.files.manifest().producers is None
    await owner.files.advance_log_start(1)
    assert owner.files.manifest().producers is not None
    newer = await Owner(fake.client("b"), 2).start()
    assert newer.files.producers.entry(4) == owner.files.producers.entry(4)
