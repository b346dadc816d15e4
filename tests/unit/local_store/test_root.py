"""A cluster's root says whose it is, over any store."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis.strategies import binary

from bmq.log.damage import PAUSES_S
from bmq.log.root import (
    FORMAT_VERSION,
    ROOT_FILE,
    ClusterRoot,
    NewerFormat,
    RootForeign,
    WrongCluster,
    cluster_id_from,
    open_root,
)
from bmq.log.store import CorruptFile, FileMissing, SegmentStore, StorageUnavailable
from tests.fakes.store import FakeClient, FakeStore
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit

ID, OTHER_ID = "MkU3OEVBNTcwNTJENDM2Qk", "4L6g3nShT-eMCtK--X86sw"


@given(binary(min_size=16, max_size=16))
def test_cluster_ids_look_like_kafkas(random_bytes: bytes) -> None:
    cluster_id = cluster_id_from(random_bytes)
    assert len(cluster_id) == 22 and not cluster_id.startswith("-")
    assert len(base64.urlsafe_b64decode(cluster_id + "==")) == 16


async def test_the_first_server_makes_the_cluster_and_the_next_ones_find_it(fake_store: FakeStore) -> None:
    store = fake_store.client("a")
    assert await open_root(store, holder="a", new_cluster_id=ID) == ClusterRoot(ID, FORMAT_VERSION)
    assert await open_root(store, holder="b", new_cluster_id=OTHER_ID) == ClusterRoot(ID, FORMAT_VERSION)
    assert await open_root(store, holder="b", new_cluster_id=OTHER_ID, expected_cluster_id=ID) == ClusterRoot(ID, 2)
    assert list(fake_store.files()) == [ROOT_FILE]


async def test_another_clusters_root_is_refused(fake_store: FakeStore) -> None:
    store = fake_store.client("a")
    await open_root(store, holder="a", new_cluster_id=ID)
    with pytest.raises(WrongCluster, match=f"{ID}.*{OTHER_ID}"):
        await open_root(store, holder="b", new_cluster_id=ID, expected_cluster_id=OTHER_ID)


async def test_a_root_keeps_the_format_it_was_made_with(fake_store: FakeStore) -> None:
    assert (await open_root(fake_store.client("a"), holder="a", new_cluster_id=ID)).may_pad
    older = FakeStore()
    older.put_file(ROOT_FILE, json.dumps({"cluster_id": ID, "format_version": 1}).encode())
    root = await open_root(older.client("a"), holder="a", new_cluster_id=OTHER_ID)
    assert root == ClusterRoot(ID, 1) and not root.may_pad
    assert json.loads(older.files()[ROOT_FILE])["format_version"] == 1


async def test_a_later_format_is_refused(fake_store: FakeStore) -> None:
    fake_store.put_file(ROOT_FILE, json.dumps({"cluster_id": ID, "format_version": FORMAT_VERSION + 1}).encode())
    with pytest.raises(NewerFormat, match="later version"):
        await open_root(fake_store.client("a"), holder="a", new_cluster_id=ID)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"[]", b"{}", b"\xff\xfe", b"7", b'{"cluster_id": "x"}', b"x" * 5000]
)
def test_something_else_under_that_name_is_refused(content: bytes) -> None:
    async def main() -> None:
        fake = FakeStore()
        fake.put_file(ROOT_FILE, content)
        with pytest.raises(RootForeign, match=ROOT_FILE):
            await open_root(fake.client("a"), holder="a", new_cluster_id=ID)

    virtual(main)


async def test_a_server_that_died_while_making_the_root_is_forgiven(fake_store: FakeStore) -> None:
    fake_store.put_file(f"{ROOT_FILE}.dead", b'{"clus', is_open=True)
    assert (await open_root(fake_store.client("b"), holder="b", new_cluster_id=ID)).cluster_id == ID


class LateRename:
    """A store whose first rename is given up, and carried out while the next file is being written, which is given up too."""

    def __init__(self, fake: FakeStore) -> None:
        self._fake = fake
        self._client = fake.client("a")
        self._late: Callable[[], None] | None = None
        self.failures = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def write_file(self, path: str, data: bytes, *, holder: str) -> None:
        if self.failures != 1:
            await self._client.write_file(path, data, holder=holder)
            return
        self.failures += 1
        self._fake.put_file(path, b"", is_open=True)
        assert self._late is not None
        self._late()
        raise StorageUnavailable("the file could not be finished and is being removed")

    async def rename(self, source: str, target: str) -> None:
        if self.failures:
            await self._client.rename(source, target)
            return
        self.failures += 1

        def rename() -> None:
            with suppress(FileMissing):
                self._fake.namespace.rename(source, target)

        self._late = rename
        raise StorageUnavailable("the call was given up; it may still be carried out")


async def test_a_rename_that_is_carried_out_late_finds_no_unfinished_description(fake_store: FakeStore) -> None:
    """Rule 21: each try has a draft of its own. Else the root would be a file that is never closed, and refused for ever."""
    store = LateRename(fake_store)
    for cluster_id in (ID, OTHER_ID):
        with pytest.raises(StorageUnavailable):
            await open_root(cast(SegmentStore, store), holder="a", new_cluster_id=cluster_id)
    found = await open_root(cast(SegmentStore, store), holder="a", new_cluster_id="M" * 22)
    assert store.failures == 2
    assert found == ClusterRoot("M" * 22, FORMAT_VERSION)


async def test_a_draft_of_an_earlier_try_is_removed(fake_store: FakeStore) -> None:
    fake_store.put_file(f"{ROOT_FILE}.a.{OTHER_ID}", b"{")
    await open_root(fake_store.client("a"), holder="a", new_cluster_id=ID)
    assert list(fake_store.files()) == [ROOT_FILE]


class ReturningReplica:
    """Each read fails until the good replica is back."""

    def __init__(self, client: FakeClient, failures: int) -> None:
        self._client = client
        self.failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        if self.failures:
            self.failures -= 1
            raise CorruptFile("the checksums of every replica that answers are wrong")
        return await self._client.read_file(path, length_bytes_max=length_bytes_max)


def test_a_description_that_cannot_be_read_for_a_moment_is_read_again() -> None:
    async def main() -> None:
        client = FakeStore().client("a")
        await open_root(client, holder="a", new_cluster_id=ID)
        store = ReturningReplica(client, len(PAUSES_S))
        assert (await open_root(cast(SegmentStore, store), holder="b", new_cluster_id=OTHER_ID)).cluster_id == ID
        store.failures = len(PAUSES_S) + 1
        with pytest.raises(RootForeign, match="checksums"):
            await open_root(cast(SegmentStore, store), holder="b", new_cluster_id=OTHER_ID)

    virtual(main)


async def test_servers_that_begin_together_make_one_root(fake_store: FakeStore) -> None:
    clients = [fake_store.client(name) for name in "abcd"]
    roots = await asyncio.gather(
        *(open_root(store, holder=f"h{n}", new_cluster_id=f"{n}" * 22) for n, store in enumerate(clients))
    )
    assert len(set(roots)) == 1
    assert list(fake_store.files()) == [ROOT_FILE]


async def test_a_description_that_was_never_closed_is_refused(fake_store: FakeStore) -> None:
    fake_store.put_file(ROOT_FILE, b"", is_open=True)
    with pytest.raises(RootForeign, match="unfinished"):
        await open_root(fake_store.client("b"), holder="b", new_cluster_id=ID)


@pytest.mark.parametrize("is_unfinished", [True, False])
async def test_topics_without_a_description_are_not_given_a_new_one(fake_store: FakeStore, is_unfinished: bool) -> None:
    fake_store.put_file("topics/t/0/owner", b"")
    if is_unfinished:
        fake_store.put_file(f"{ROOT_FILE}.dead", b"", is_open=True)
    with pytest.raises(RootForeign, match="topics"):
        await open_root(fake_store.client("b"), holder="b", new_cluster_id=ID)
