"""Claiming a partition's directory: once, by name, before looking; and what an older owner left open."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bmq.broker.claim import claim_directory, find_open_files, seal_directories
from bmq.log.names import PartitionPaths
from bmq.log.store import Durability, FencedWriter, SegmentStore
from tests.fakes.store import FakeStore

pytestmark = pytest.mark.unit

PATHS = PartitionPaths("topics/t/0", 5)


OWN = "topics/t/0/00000005.open"


async def test_the_first_claim_makes_the_partitions_directory() -> None:
    store = FakeStore()
    client = store.client("a")
    listing = await claim_directory(client, PATHS, "a")
    assert (listing.open_epochs, listing.sealed_epochs) == ({5}, set())
    assert store.files() == {f"{OWN}/owner.a": b""}
    again = await claim_directory(client, PATHS, "a")
    assert again == listing


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


async def test_a_name_that_got_stuck_half_way_is_written_again() -> None:
    store = FakeStore()
    store.put_file(f"{OWN}/owner.a", b"", is_open=True)
    await claim_directory(store.client("a"), PATHS, "a")
    entries = await store.client("a").list_directory(OWN)
    assert [(entry.name, entry.is_open) for entry in entries] == [("owner.a", False)]


async def test_sealing_may_be_tried_again() -> None:
    store = FakeStore()
    client = store.client("a")
    store.put_file("topics/t/0/00000002.open/owner", b"x")
    store.put_file("topics/t/0/00000003.open/owner", b"late")
    store.put_file("topics/t/0/00000003/owner", b"x")
    await seal_directories(client, PATHS, (2,), (3,))
    assert set(store.files()) == {"topics/t/0/00000002/owner", "topics/t/0/00000003/owner"}
    await seal_directories(client, PATHS, (2,), (3,))
    store.put_file("topics/t/0/00000002.open/owner", b"late")
    await seal_directories(client, PATHS, (2,), ())
    assert store.files()["topics/t/0/00000002/owner"] == b"x"
    assert "topics/t/0/00000002.open/owner" not in store.files()
    with pytest.raises(FencedWriter):
        await seal_directories(client, PATHS, (4,), ())


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
    found = await find_open_files(client, PATHS, (4, 3, 2, 1), frozenset({1, 4}))
    assert [(file.path, file.holder) for file in found] == [
        ("topics/t/0/00000004/00000000.log", "owner-4"),
        ("topics/t/0/00000003/00000000.log", None),
        ("topics/t/0/00000003/manifest.00000000", None),
        ("topics/t/0/00000001/00000000.log", "owner-1"),
    ]


async def test_a_file_without_an_owners_name_has_no_holder() -> None:
    store = FakeStore()
    store.put_file("topics/t/0/00000004/00000000.log", b"", is_open=True)
    found = await find_open_files(store.client("a"), PATHS, (4, 3), frozenset())
    assert [file.holder for file in found] == [None]
