"""A root that was copied file by file has all records once its files are named anew, and is refused if it is not whole."""

from __future__ import annotations

import pytest

from bmq.log.copied_root import CopyUnusable, adopt_partition, adopt_root
from bmq.log.manifest import Manifest
from bmq.log.names import PartitionPaths, parse_manifest
from bmq.log.partition_view import read_view, view_partition
from bmq.log.recovery import load_index
from bmq.log.store import FileMissing, SegmentStore
from tests.fakes.store import FakeStore
from tests.unit.log.owned_log import PARTITION, Owner, batch_of

pytestmark = pytest.mark.unit


async def written(*, is_sealed: bool = True) -> tuple[FakeStore, bytes]:
    """Two leader epochs with two segments each, and what is in them."""
    fake = FakeStore()
    acknowledged: list[bytes] = []
    for epoch in (1, 2):
        owner = await Owner(fake.client(f"c{epoch}"), epoch).start()
        for _ in range(2):
            await owner.open_segment()
            for _ in range(3):
                await owner.produce(batch_of(2))
            await owner.roll_segment()
        acknowledged += owner.acknowledged
    if is_sealed:
        await owner.store.rename(owner.paths.own, owner.paths.epoch(2).removesuffix(".open"))
    return fake, b"".join(acknowledged)


async def copied(fake: FakeStore, **changed: bytes) -> FakeStore:
    """The same names and bytes, and other ids. `changed`: other bytes for the file of this name; b"": none at all."""
    copy = FakeStore()
    client = copy.client("copier")
    await client.make_directories("elsewhere")
    for number in range(100):
        await client.write_file(f"elsewhere/{number}", b"", holder="copier")
    for path, data in sorted(fake.files().items()):
        directory, _, name = path.rpartition("/")
        await client.make_directories(directory)
        found = changed.get(name.replace(".", "_"), data)
        if found or not data:
            await client.write_file(path, found, holder="copier")
    return copy


async def content_of(store: SegmentStore) -> bytes:
    view = await view_partition(store, PARTITION)
    return b"".join([bytes(run.data) async for run in read_view(store, view, 0)])


async def test_all_records_are_there_and_indexes_are_trusted() -> None:
    fake, acknowledged = await written()
    copy = await copied(fake)
    store = copy.client("operator")
    with pytest.raises(FileMissing):
        await content_of(store)
    (adopted,) = [one async for one in adopt_root(store, holder="operator")]
    assert (adopted.directory, adopted.files > 0, adopted.indexes) == (PARTITION, True, 4)
    assert await content_of(store) == acknowledged
    owner = await Owner(copy.client("c3"), 3).start()
    assert owner.recovered.end_offset == 24
    manifest = (await view_partition(store, PARTITION)).manifest
    assert isinstance(manifest, Manifest) and len(manifest.extents) == 4
    for extent in manifest.extents:
        assert await load_index(store, PartitionPaths(PARTITION, 3), extent) is not None


async def test_a_second_time_changes_nothing() -> None:
    copy = await copied((await written())[0])
    store = copy.client("operator")
    await adopt_partition(store, PARTITION, holder="operator")
    files = copy.files()
    again = await adopt_partition(store, PARTITION, holder="operator")
    assert (again.files, again.indexes) == (0, 0) and copy.files() == files


async def test_the_original_needs_nothing() -> None:
    fake, _ = await written()
    files = fake.files()
    adopted = await adopt_partition(fake.client("operator"), PARTITION, holder="operator")
    assert (adopted.files, adopted.indexes) == (0, 0) and fake.files() == files


@pytest.mark.parametrize(("content", "why"), [(b"x", "has 1 bytes, and"), (b"", "the copy lacks")])
async def test_a_copy_that_is_not_whole_is_refused_and_left(content: bytes, why: str) -> None:
    copy = await copied((await written())[0], **{"00000000_log": content})
    files = copy.files()
    with pytest.raises(CopyUnusable, match=why):
        await adopt_partition(copy.client("operator"), PARTITION, holder="operator")
    assert copy.files() == files


async def test_a_copy_beside_a_running_server_is_refused() -> None:
    copy = await copied((await written(is_sealed=False))[0])
    with pytest.raises(CopyUnusable, match="stop all servers with SIGTERM"):
        await adopt_partition(copy.client("operator"), PARTITION, holder="operator")


async def test_an_interrupted_try_is_repeated() -> None:
    """Indexes come first: without the new manifest they are not trusted, and with it they are right."""
    fake, acknowledged = await written()
    copy = await copied(fake)
    store = copy.client("operator")
    await adopt_partition(store, PARTITION, holder="operator")
    newest = max(path for path in copy.files() if parse_manifest(path.rpartition("/")[2]) is not None)
    await store.delete(newest)
    await adopt_partition(store, PARTITION, holder="operator")
    assert await content_of(store) == acknowledged
