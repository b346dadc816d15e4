"""Claiming a partition's directory: once, by name, before looking; and what an older owner left open."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bmq.broker.claim import claim_directory, fence_older_owners, find_open_files
from bmq.broker.own_directory import OwnDirectory
from bmq.log.names import PartitionPaths
from bmq.log.store import Durability, FencedWriter, SegmentStore, StorageUnavailable
from tests.fakes.store import FakeStore
from tests.support.given_up import GivenUp

pytestmark = pytest.mark.unit

PATHS = PartitionPaths("topics/t/0", 5)


OWN = "topics/t/0/00000005.open"


async def test_the_first_claim_makes_the_partitions_directory() -> None:
    store = FakeStore()
    client = store.client("a")
    claim = await claim_directory(client, PATHS, "a")
    listing = claim.listing
    assert (listing.open_epochs, listing.sealed_epochs) == ({5}, set())
    assert store.files() == {f"{OWN}/owner.a": b""}
    status = await client.status(OWN)
    assert status is not None and claim.directory_id == status.file_id
    assert await claim_directory(client, PATHS, "a", is_repeated=True) == claim


async def test_somebody_elses_epoch_is_refused() -> None:
    store = FakeStore()
    await claim_directory(store.client("a"), PATHS, "a")
    for _ in range(2):
        with pytest.raises(FencedWriter):
            await claim_directory(store.client("b"), PATHS, "b")


@pytest.mark.parametrize("seed", range(20))
async def test_of_claimers_of_one_epoch_at_most_one_passes(seed: int) -> None:
    """They never are, because epochs are not used twice; but if they are, nobody writes beside another."""
    store = FakeStore()
    random = Random(seed)

    async def claim(name: str) -> bool:
        client = DawdlingStore(store.client(name), random)
        try:
            await claim_directory(client, PATHS, name)  # type: ignore[arg-type]
        except FencedWriter:
            return False
        return True

    passed = await asyncio.gather(*(claim(name) for name in "abc"))
    assert sum(passed) <= 1


class DawdlingStore:
    """Lets others go first, a random number of times before every call."""

    def __init__(self, store: SegmentStore, random: Random) -> None:
        self._store = store
        self._random = random

    def __getattr__(self, name: str) -> object:
        method = getattr(self._store, name)

        async def call(*arguments: object, **options: object) -> object:
            for _ in range(self._random.randrange(4)):
                await asyncio.sleep(0)
            return await method(*arguments, **options)

        return call


async def test_a_name_that_got_stuck_half_way_stays_and_counts() -> None:
    """Removing it, to write it again, might be carried out late, and would take the name of a claim that has passed."""
    store = FakeStore()
    client = store.client("a")
    store.put_file(f"{OWN}/owner.a", b"", is_open=True)
    deleted = GivenUp(client, "delete")
    await claim_directory(client, PATHS, "a", is_repeated=True)
    assert not deleted.held_count
    await client.rename(OWN, "topics/t/0/00000005")
    found = (await find_open_files(client, PartitionPaths("topics/t/0", 6), (5,), frozenset({5}))).open_files
    assert [(file.path[-7:], file.holder) for file in found] == [("owner.a", "a")]


@pytest.mark.parametrize("method", ["make_directory", "write_file", "list_directory"])
async def test_a_claim_that_is_called_again_accepts_what_the_first_call_did(method: str) -> None:
    store = FakeStore()
    client = store.client("a")
    await client.make_directories(PATHS.partition)
    given_up = GivenUp(client, method)
    with pytest.raises(StorageUnavailable):
        await claim_directory(client, PATHS, "a")
    await given_up.carry_out()
    claim = await claim_directory(client, PATHS, "a", is_repeated=True)
    assert claim.listing.fencing_epoch(5) is None


@pytest.mark.parametrize("method", ["make_directory", "write_file"])
async def test_what_a_claim_gave_up_changes_nothing_when_it_is_carried_out_late(method: str) -> None:
    store = FakeStore()
    client = store.client("a")
    await client.make_directories(PATHS.partition)
    given_up = GivenUp(client, method)
    with pytest.raises(StorageUnavailable):
        await claim_directory(client, PATHS, "a")
    claim = await claim_directory(client, PATHS, "a", is_repeated=True)
    directory = OwnDirectory(client, PATHS.own)
    directory.file_id = claim.directory_id
    before = store.files()
    await given_up.carry_out()
    assert store.files() == before
    await directory.verify_claim()


async def test_a_directory_that_is_made_again_late_is_not_ours() -> None:
    """The look of the old owner fails, and a claim at its epoch too; the next owner removes it."""
    store = FakeStore()
    a, b = store.client("a"), store.client("b")
    await a.make_directories(PATHS.partition)
    given_up = GivenUp(a, "make_directory")
    with pytest.raises(StorageUnavailable):
        await claim_directory(a, PATHS, "a")
    claim = await claim_directory(a, PATHS, "a", is_repeated=True)
    directory = OwnDirectory(a, PATHS.own)
    directory.file_id = claim.directory_id
    await directory.verify_claim()
    next_paths = PartitionPaths(PATHS.partition, 6)
    await claim_directory(b, next_paths, "b")
    await fence_older_owners(b, next_paths, (5,), ())
    with pytest.raises(FencedWriter, match="is gone"):
        await directory.verify_claim()
    await given_up.carry_out()
    with pytest.raises(FencedWriter, match="not the directory that was claimed"):
        await directory.verify_claim()
    claim = await claim_directory(a, PATHS, "a")
    assert claim.listing.fencing_epoch(5) == 6
    last = await claim_directory(a, PartitionPaths(PATHS.partition, 7), "a")
    assert last.listing.leftovers(7) == (5,)


@pytest.mark.parametrize("name", ["manifest.00000000", "00000000.log", "00000000.index.0", "snapshot.00000000"])
async def test_an_epoch_that_was_started_is_not_started_again(name: str) -> None:
    """Rule 24: whoever wrote there may be writing still, and its files may hold acknowledged batches."""
    store = FakeStore()
    store.put_file(f"{OWN}/owner.a", b"")
    store.put_file(f"{OWN}/{name}", b"acknowledged")
    before = store.files()
    for is_repeated in (False, True):
        with pytest.raises(FencedWriter):
            await claim_directory(store.client("a"), PATHS, "a", is_repeated=is_repeated)
    assert store.files() == before


async def test_a_name_that_stood_there_before_the_first_call_is_of_an_earlier_start() -> None:
    store = FakeStore()
    await claim_directory(store.client("a"), PATHS, "a")
    with pytest.raises(FencedWriter, match="earlier start"):
        await claim_directory(store.client("a"), PATHS, "a")


@pytest.mark.parametrize("late", ["rename", "delete"])
async def test_what_sealing_gave_up_changes_nothing_when_it_is_carried_out_late(late: str) -> None:
    """The epoch is sealed by another claimer meanwhile, and its owner's late mkdirs has made an open form again."""
    store = FakeStore()
    client = store.client("a")
    store.put_file("topics/t/0/00000002.open/owner.x", b"")
    if late == "delete":
        store.put_file("topics/t/0/00000002/owner.x", b"")
    given_up = GivenUp(client, late)
    epochs, leftovers = ((2,), ()) if late == "rename" else ((), (2,))
    with pytest.raises(StorageUnavailable):
        await fence_older_owners(client, PATHS, epochs, leftovers)
    await fence_older_owners(client, PATHS, epochs, leftovers)
    assert set(store.files()) == {"topics/t/0/00000002/owner.x"}
    await client.make_directory("topics/t/0/00000002.open")
    await given_up.carry_out()
    assert set(store.files()) == {"topics/t/0/00000002/owner.x"}


async def test_sealing_may_be_tried_again() -> None:
    store = FakeStore()
    client = store.client("a")
    store.put_file("topics/t/0/00000002.open/owner", b"x")
    store.put_file("topics/t/0/00000003.open/owner", b"late")
    store.put_file("topics/t/0/00000003/owner", b"x")
    await fence_older_owners(client, PATHS, (2,), (3,))
    assert set(store.files()) == {"topics/t/0/00000002/owner", "topics/t/0/00000003/owner"}
    await fence_older_owners(client, PATHS, (2,), (3,))
    store.put_file("topics/t/0/00000002.open/owner", b"late")
    await fence_older_owners(client, PATHS, (2,), ())
    assert store.files()["topics/t/0/00000002/owner"] == b"x"
    assert "topics/t/0/00000002.open/owner" not in store.files()
    with pytest.raises(FencedWriter):
        await fence_older_owners(client, PATHS, (4,), ())


async def test_open_files_are_found_back_to_the_newest_manifest() -> None:
    store = FakeStore()
    client = store.client("a")
    for epoch in (1, 2, 3, 4):
        store.put_file(f"topics/t/0/0000000{epoch}/owner.owner-{epoch}", b"")
        writer = await client.create_segment(
            f"topics/t/0/0000000{epoch}/00000000.log",
            holder="x",
            durability=Durability.HFLUSH,
            segment_bytes=100,
        )
        assert writer.accepted_bytes == 0
    store.put_file("topics/t/0/00000003/manifest.00000000", b"", is_open=True)
    store.put_file("topics/t/0/00000004/owner2", b"")
    store.put_file("topics/t/0/00000003/owner.a-claimer-of-the-same-epoch", b"")
    found = (await find_open_files(client, PATHS, (4, 3, 2, 1), frozenset({1, 4}))).open_files
    assert [(file.path, file.holder) for file in found] == [
        ("topics/t/0/00000004/00000000.log", "owner-4"),
        ("topics/t/0/00000003/00000000.log", None),
        ("topics/t/0/00000003/manifest.00000000", None),
        ("topics/t/0/00000001/00000000.log", "owner-1"),
    ]


async def test_a_segment_that_was_closed_but_perhaps_not_synced_is_found_where_that_matters() -> None:
    """Its new owner may have died between the two; an index is only made of what is on disk, and so is a manifest."""
    store = FakeStore()
    for epoch in (2, 3, 4):
        store.put_file(f"topics/t/0/0000000{epoch}/owner.owner-{epoch}", b"")
        for roll in (0, 1):
            store.put_file(f"topics/t/0/0000000{epoch}/0000000{roll}.log", b"x")
        store.put_file(f"topics/t/0/0000000{epoch}/00000000.index", b"x")
    store.put_file("topics/t/0/00000004/00000002.log", b"")
    store.put_file("topics/t/0/00000003/manifest.00000000", b"x")
    for is_synced in (False, True):
        found = (
            await find_open_files(store.client("a"), PATHS, (4, 3, 2), frozenset({4}), is_synced=is_synced)
        ).open_files
        expected = [("topics/t/0/00000004/00000001.log", "owner-4"), ("topics/t/0/00000003/00000001.log", "owner-3")]
        assert [(file.path, file.holder) for file in found] == (expected if is_synced else [])


async def test_a_file_without_an_owners_name_has_no_holder() -> None:
    store = FakeStore()
    store.put_file("topics/t/0/00000004/00000000.log", b"", is_open=True)
    found = (await find_open_files(store.client("a"), PATHS, (4, 3), frozenset())).open_files
    assert [file.holder for file in found] == [None]
