"""A segment that compaction made of others takes their place in one manifest, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.log.index_cache import IndexCache
from bmq.log.manifest import Extent
from bmq.log.names import CLEANED_ROLL_MIN
from bmq.log.replacement import CleanedSegment, ExtentsChanged
from bmq.log.segment_index import IndexBuilder
from bmq.log.segment_reader import SegmentReader
from bmq.log.store import CorruptFile, Durability, FencedWriter, StorageUnavailable
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import BatchHeader
from tests.fakes.store import FakeStore
from tests.support.flagged_batch import flagged_batch
from tests.unit.log.owned_log import INTERVAL_BYTES, Owner, batch_of

pytestmark = pytest.mark.unit

PRODUCER = {"producer_id": 5, "producer_epoch": 0}


async def written(fake: FakeStore, segments: int = 4, epoch: int = 1) -> Owner:
    """Segments of three batches of two records; the last segment stays open."""
    owner = await Owner(fake.client(f"c{epoch}"), epoch).start()
    for number in range(segments):
        for _ in range(3):
            await owner.produce(batch_of(2, value_bytes=30))
        if number < segments - 1:
            await owner.roll_segment()
    return owner


async def cleaned_of(owner: Owner, extents: list[Extent], **more: tuple[int, ...]) -> CleanedSegment:
    """Of each extent its first batch, and the last one of all, without records."""
    kept = []
    for extent in extents:
        path = owner.paths.segment(extent.leader_epoch, extent.roll)
        reader = SegmentReader(owner.store, path, file_id=extent.file_id, position=0, valid_bytes=extent.valid_bytes)
        while (run := await reader.next_run()) is not None:
            kept += [bytes(run.data[at : at + header.size_bytes]) for at, header in run.batches if at == 0]
    end_offset = extents[-1].end_offset
    kept.append(bytes(flagged_batch([], base_offset=end_offset - 2, last_offset=end_offset - 1, leader_epoch=1)))
    roll = owner.files.next_rewritten_roll(is_merge=False)
    writer = await owner.store.create_segment(
        owner.paths.segment(owner.paths.leader_epoch, roll),
        holder=owner.holder,
        durability=Durability.HFLUSH,
        segment_bytes=1 << 20,
    )
    builder = IndexBuilder(
        owner.paths.leader_epoch, roll, writer.file_id, extents[0].base_offset, interval_bytes=INTERVAL_BYTES
    )
    position = 0
    for batch in kept:
        builder.add(BatchHeader.parse(batch), BatchHeader.parse(batch).base_offset, position)
        position += len(batch)
    await writer.append(kept)
    return CleanedSegment(builder.build(await writer.close()), **more)


async def offsets_read(owner: Owner) -> list[int]:
    """Base offsets of all batches with records."""
    found, data, place = [], await owner.read_all(), 0
    while place < len(data):
        header = BatchHeader.parse(data, place)
        if header.record_count:
            found.append(header.base_offset)
        place += header.size_bytes
    return found


async def test_the_cleaned_segment_is_read_and_the_others_may_be_deleted() -> None:
    owner = await written(FakeStore())
    files = owner.files
    replaced = files.extents[:2]
    paths = await files.replace_extents(replaced, await cleaned_of(owner, replaced))
    assert [path.rpartition("/")[2] for path in paths] == [
        "00000000.log",
        "00000000.index",
        "00000001.log",
        "00000001.index",
    ]
    assert [(extent.roll, extent.base_offset, extent.end_offset) for extent in files.extents] == [
        (CLEANED_ROLL_MIN, 0, 12),
        (2, 12, 18),
    ]
    assert await offsets_read(owner) == [0, 6, 12, 14, 16, 18, 20, 22]
    assert files.end_offset == 24
    for offset in range(24):
        location = await files.locate(offset)
        assert location.base_offset <= offset < location.end_offset
    for path in paths:
        await owner.store.delete(path)
    assert await offsets_read(owner) == [0, 6, 12, 14, 16, 18, 20, 22]


@pytest.mark.parametrize("keeps_index", [True, False])
async def test_the_next_owner_finds_it_and_rebuilds_its_index(keeps_index: bool) -> None:
    fake = FakeStore()
    owner = await written(fake)
    replaced = owner.files.extents[:3]
    await owner.files.replace_extents(replaced, await cleaned_of(owner, replaced))
    await owner.files.compacted_to(18)
    if not keeps_index:
        await owner.store.delete(owner.paths.index(1, CLEANED_ROLL_MIN, 1))
    second = await Owner(fake.client("c2"), 2, indexes=IndexCache()).start()
    assert second.files.end_offset == 24
    assert second.files.first_dirty_offset == 18
    index = await second.files.index_of(second.files.extents[0])
    assert (index.summary.base_offset, index.summary.end_offset) == (0, 18)
    assert index.position_of(7) == index.position_of(6)
    assert await offsets_read(second) == [0, 6, 12, 18, 20, 22]
    again = second.files.extents[:1]
    await second.files.replace_extents(again, await cleaned_of(second, again))
    assert await offsets_read(second) == [0, 18, 20, 22]


async def test_producers_are_known_behind_a_cleaned_last_segment() -> None:
    fake = FakeStore()
    owner = await Owner(fake.client("c1"), 1).start()
    for number in range(2_000):  # more than a manifest takes in
        fields = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0}
        await owner.produce(batch_of(1, **fields))
    await owner.roll_segment()
    replaced = list(owner.files.extents)
    await owner.files.replace_extents(replaced, await cleaned_of(owner, replaced))
    assert owner.files.manifest().producers is None
    second = await Owner(fake.client("c2"), 2).start()
    assert len(second.files.producers) == 2_000


async def test_until_the_manifest_names_it_the_log_is_as_it_was() -> None:
    fake = FakeStore()
    owner = await written(fake)
    await cleaned_of(owner, owner.files.extents[:2])
    second = await Owner(fake.client("c2"), 2).start()
    assert second.files.end_offset == 24
    assert await offsets_read(second) == [*range(0, 24, 2)]


async def test_what_retention_dropped_meanwhile_is_not_brought_back() -> None:
    owner = await written(FakeStore())
    replaced = owner.files.extents[:2]
    cleaned = await cleaned_of(owner, replaced)
    await owner.files.advance_log_start(7)
    with pytest.raises(ExtentsChanged):
        await owner.files.replace_extents(replaced, cleaned)
    assert [extent.base_offset for extent in owner.files.extents] == [6, 12]


async def test_an_aborted_transaction_is_forgotten_with_its_marker() -> None:
    owner = await Owner(FakeStore().client("c1"), 1).start()
    for sequence in range(2):
        await owner.produce(batch_of(1, is_transactional=True, base_sequence=sequence, **PRODUCER))
        await owner.produce(
            encode_end_transaction_marker(EndTransactionMarker(ControlType.ABORT, 1), timestamp_ms=1, **PRODUCER)
        )
        await owner.roll_segment()
    files = owner.files
    assert [entry.last_offset for entry in files.producers.aborted] == [1, 3]
    replaced = list(files.extents)
    cleaned = await cleaned_of(owner, replaced, dropped_aborts=(1,))
    await files.replace_extents(replaced, cleaned)
    assert [entry.last_offset for entry in files.producers.aborted] == [3]
    assert [entry.last_offset for entry in files.manifest().aborted] == [3]
    assert [entry.last_offset for entry in (await files.index_of(files.extents[0])).aborted] == [3]


async def test_a_transaction_aborted_while_the_swap_is_prepared_is_told_once() -> None:
    """Its segment becomes an extent while the new index is written, so the manifest does not name that one yet."""
    fake = FakeStore()
    owner = await written(fake, segments=3)
    await owner.produce(batch_of(1, is_transactional=True, base_sequence=0, **PRODUCER))
    marker = EndTransactionMarker(ControlType.ABORT, 1)
    await owner.produce(encode_end_transaction_marker(marker, timestamp_ms=1, **PRODUCER))
    replaced = owner.files.extents[:2]
    cleaned = await cleaned_of(owner, replaced)
    write_file = owner.store.write_file

    async def write_later(*arguments: Any, **options: Any) -> None:
        owner.store.write_file = write_file  # type: ignore[method-assign]
        await owner.roll_segment()
        await write_file(*arguments, **options)

    owner.store.write_file = write_later  # type: ignore[method-assign]
    await owner.files.replace_extents(replaced, cleaned)
    assert len(owner.files.extents) == 2
    second = await Owner(fake.client("c2"), 2).start()
    assert second.files.end_offset == 20
    assert [entry.last_offset for entry in second.files.producers.aborted] == [19]


async def test_a_file_that_does_not_end_with_the_extents_is_refused() -> None:
    owner = await written(FakeStore())
    cleaned = await cleaned_of(owner, owner.files.extents[:1])
    with pytest.raises(CorruptFile):
        await owner.files.replace_extents(owner.files.extents[:2], cleaned)
    assert len(owner.files.extents) == 3


async def test_a_fenced_owner_replaces_nothing() -> None:
    fake = FakeStore()
    owner = await written(fake)
    replaced = owner.files.extents[:2]
    cleaned = await cleaned_of(owner, replaced)
    second = await Owner(fake.client("c2"), 2).start()
    with pytest.raises(FencedWriter):
        await owner.files.replace_extents(replaced, cleaned)
    assert len(owner.files.extents) == 3
    assert await offsets_read(second) == [*range(0, 24, 2)]


async def test_a_failed_manifest_changes_nothing_here() -> None:
    owner = await written(FakeStore())
    replaced = owner.files.extents[:2]
    cleaned = await cleaned_of(owner, replaced)
    owner.store.write_file = _unavailable  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        await owner.files.replace_extents(replaced, cleaned)
    assert owner.files.extents[:2] == replaced


async def _unavailable(*_: object, **__: object) -> None:
    raise StorageUnavailable("away")


async def test_how_far_compaction_has_come_never_goes_back() -> None:
    owner = await written(FakeStore())
    for offset in (6, 3):
        await owner.files.compacted_to(offset)
        assert owner.files.first_dirty_offset == owner.files.manifest().first_dirty_offset == 6
