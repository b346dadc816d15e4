"""A cluster's root says whose it is, over any store."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from hypothesis import given
from hypothesis.strategies import binary

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
from tests.fakes.store import FakeStore

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
    assert await open_root(store, holder="b", new_cluster_id=OTHER_ID, expected_cluster_id=ID) == ClusterRoot(ID, 1)
    assert list(fake_store.files()) == [ROOT_FILE]


async def test_another_clusters_root_is_refused(fake_store: FakeStore) -> None:
    store = fake_store.client("a")
    await open_root(store, holder="a", new_cluster_id=ID)
    with pytest.raises(WrongCluster, match=f"{ID}.*{OTHER_ID}"):
        await open_root(store, holder="b", new_cluster_id=ID, expected_cluster_id=OTHER_ID)


async def test_a_later_format_is_refused(fake_store: FakeStore) -> None:
    fake_store.put_file(ROOT_FILE, json.dumps({"cluster_id": ID, "format_version": FORMAT_VERSION + 1}).encode())
    with pytest.raises(NewerFormat, match="later version"):
        await open_root(fake_store.client("a"), holder="a", new_cluster_id=ID)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"[]", b"{}", b"\xff\xfe", b"7", b'{"cluster_id": "x"}', b"x" * 5000]
)
async def test_something_else_under_that_name_is_refused(fake_store: FakeStore, content: bytes) -> None:
    fake_store.put_file(ROOT_FILE, content)
    with pytest.raises(RootForeign, match=ROOT_FILE):
        await open_root(fake_store.client("a"), holder="a", new_cluster_id=ID)


async def test_a_server_that_died_while_making_the_root_is_forgiven(fake_store: FakeStore) -> None:
    fake_store.put_file(f"{ROOT_FILE}.dead", b'{"clus', is_open=True)
    assert (await open_root(fake_store.client("b"), holder="b", new_cluster_id=ID)).cluster_id == ID


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
