"""Claiming a partition's directory: once, by name, before looking; and what an older owner left open."""

from __future__ import annotations

import pytest

from bmq.broker.claim import claim_directory, find_open_files, seal_directories
from bmq.log.names import PartitionPaths
from bmq.log.store import Durability, FencedWriter
from tests.fakes.store import FakeStore

pytestmark = pytest.mark.unit

PATHS = PartitionPaths("topics/t/0", 5)


async def test_the_first_claim_makes_the_partitions_directory() -> None:
    store = FakeStore()
    client = store.client("a")
    listing = await claim_directory(client, PATHS, "a", is_retry=False)
    assert (listing.open_epochs, listing.sealed_epochs) == ({5}, set())
    assert store.files() == {"topics/t/0/00000005.open/owner": b"a"}
    again = await claim_directory(client, PATHS, "a", is_retry=True)
    assert again == listing


async def test_somebody_elses_epoch_is_refused() -> None:
    store = FakeStore()
    await claim_directory(store.client("a"), PATHS, "a", is_retry=False)
    for is_retry in (False, True):
        with pytest.raises(FencedWriter):
            await claim_directory(store.client("b"), PATHS, "b", is_retry=is_retry)


async def test_an_unfinished_owner_file_is_ours_only_if_we_tried_before() -> None:
    store = FakeStore()
    store.put_file("topics/t/0/00000005.open/owner", b"", is_open=True)
    with pytest.raises(FencedWriter):
        await claim_directory(store.client("a"), PATHS, "a", is_retry=False)
    await claim_directory(store.client("a"), PATHS, "a", is_retry=True)
    assert store.files() == {"topics/t/0/00000005.open/owner": b"a"}


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
        store.put_file(f"topics/t/0/0000000{epoch}/owner", b"owner-%d" % epoch)
        writer = await client.create_segment(
            f"topics/t/0/0000000{epoch}/00000000.log",
            holder="x",
            durability=Durability.HFLUSH,
            segment_bytes=100,
        )
        assert writer.accepted_bytes == 0
    store.put_file("topics/t/0/00000003/manifest.00000000", b"", is_open=True)
    store.put_file("topics/t/0/00000004/owner2", b"")
    found = await find_open_files(client, PATHS, (4, 3, 2, 1), frozenset({1, 4}))
    assert [(file.path, file.holder) for file in found] == [
        ("topics/t/0/00000004/00000000.log", "owner-4"),
        ("topics/t/0/00000003/00000000.log", "owner-3"),
        ("topics/t/0/00000003/manifest.00000000", "owner-3"),
        ("topics/t/0/00000001/00000000.log", "owner-1"),
    ]


async def test_a_file_without_an_owners_name_has_no_holder() -> None:
    store = FakeStore()
    store.put_file("topics/t/0/00000004/00000000.log", b"", is_open=True)
    found = await find_open_files(store.client("a"), PATHS, (4, 3), frozenset())
    assert [file.holder for file in found] == [None]
