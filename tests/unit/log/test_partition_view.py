"""A look at a partition from outside shows what its owner has, whatever state the owner left it in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.manifest import CorruptManifest, Cut
from bmq.log.partition_view import PartitionView, read_view, view_partition
from bmq.log.store import FileMissing, SegmentStore
from tests.fakes.store import FakeStore
from tests.unit.log.owned_log import PARTITION, Owner, batch_of

pytestmark = pytest.mark.unit


async def content_of(store: SegmentStore, view: PartitionView, from_offset: int = 0) -> bytes:
    return b"".join([bytes(run.data) async for run in read_view(store, view, from_offset)])


@given(
    epochs=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=4),
    is_indexed=st.booleans(),
    is_last_open=st.booleans(),
)
async def test_an_onlooker_sees_everything_that_was_acknowledged(
    epochs: list[list[int]], is_indexed: bool, is_last_open: bool
) -> None:
    fake = FakeStore()
    onlooker = fake.client("onlooker")
    acknowledged: list[bytes] = []
    for epoch, segments in enumerate(epochs):
        owner = await Owner(fake.client(f"c{epoch}"), epoch).start()
        for number, count in enumerate(segments):
            await owner.open_segment()
            for _ in range(count):
                await owner.produce(batch_of(2))
            if is_last_open and number == len(segments) - 1:
                break
            await owner.roll_segment(is_indexed=is_indexed) if count else owner.files.end_segment(owner.roll)
        acknowledged += owner.acknowledged
        files = set(fake.files())
        view = await view_partition(onlooker, PARTITION)
        assert await content_of(onlooker, view) == b"".join(acknowledged)
        bases = [segment.base_offset for segment in view.segments if segment.valid_bytes]
        assert bases == sorted(bases)  # type: ignore[type-var]
        assert set(fake.files()) == files
    if len(acknowledged) > 1:
        assert (await content_of(onlooker, view, from_offset=3)).endswith(b"".join(acknowledged[1:]))


async def test_an_open_segment_has_a_base_and_no_end() -> None:
    fake = FakeStore()
    owner = await Owner(fake.client("owner"), 4).start()
    await owner.produce(batch_of(3))
    await owner.roll_segment()
    await owner.produce(batch_of(2))
    closed, opened = (await view_partition(fake.client("onlooker"), PARTITION)).segments
    assert (closed.base_offset, closed.end_offset, closed.is_open) == (0, 3, False)
    assert (opened.base_offset, opened.end_offset, opened.is_open) == (3, None, True)
    assert opened.path == f"{PARTITION}/00000004.open/00000001.log"
    assert opened.valid_bytes == opened.file_bytes == len(owner.acknowledged[-1])


async def test_what_was_cut_is_not_shown_as_valid() -> None:
    fake = FakeStore()
    owner = await Owner(fake.client("owner"), 1).start()
    await owner.produce(batch_of(1))
    torn = bytes(batch_of(1))[:-1]
    assert owner.writer is not None
    await owner.writer.append([torn])
    new = await Owner(fake.client("new"), 2).start()
    assert new.recovered.cuts == (Cut(1, 0, len(owner.acknowledged[0])),) or new.recovered.cuts == ()
    (segment,) = (await view_partition(fake.client("onlooker"), PARTITION)).segments
    assert segment.file_bytes - segment.valid_bytes == len(torn)


async def test_a_partition_that_nobody_owned_yet_is_empty_and_one_that_is_not_there_is_missing() -> None:
    fake = FakeStore()
    store = fake.client("onlooker")
    with pytest.raises(FileMissing):
        await view_partition(store, PARTITION)
    await store.make_directories(f"{PARTITION}/00000001.open")
    view = await view_partition(store, PARTITION)
    assert (view.manifest, view.segments) == (None, ())


async def test_records_without_a_manifest_are_reported() -> None:
    fake = FakeStore()
    fake.put_file(f"{PARTITION}/00000001/00000000.log", b"records")
    with pytest.raises(CorruptManifest, match="no valid manifest"):
        await view_partition(fake.client("onlooker"), PARTITION)


async def test_a_closed_segment_that_rotted_is_not_read_past_silently() -> None:
    fake = FakeStore()
    owner = await Owner(fake.client("owner"), 1).start()
    for _ in range(2):
        await owner.produce(batch_of(1))
        await owner.roll_segment()
    fake.flip_bit(f"{PARTITION}/00000001.open/00000000.log", 70)
    store = fake.client("onlooker")
    with pytest.raises(Exception, match=r"00000000\.log at 0"):
        await content_of(store, await view_partition(store, PARTITION))
