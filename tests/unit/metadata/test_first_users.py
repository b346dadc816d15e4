"""The file with users for a cluster's first start: whole, or a sentence that stops the start."""

from __future__ import annotations

import pytest

from bmq.metadata.first_users import FIRST_USERS_FILE, FirstUsersUnreadable, read_first_users, write_first_users
from tests.fakes.store import FakeStore
from tests.unit.security.sasl.scram_client import keys

pytestmark = pytest.mark.unit


async def test_users_are_read_as_they_were_written_without_their_password() -> None:
    store = FakeStore().client("operator")
    assert await read_first_users(store) == ()
    users = (keys("alice", "hunter2"), keys("bob", "other"))
    await write_first_users(store, users, "operator")
    assert await read_first_users(store) == users
    assert b"hunter2" not in await store.read_file(FIRST_USERS_FILE, length_bytes_max=10_000)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"version": 1, "users": ["zz"]}', b'{"version": 1, "users": ["00"]}', b'{"version": 2, "users": []}',
     b'{"version": 1, "users": ["01140000"]}'],
)  # fmt: skip
async def test_a_damaged_file_stops_the_start(content: bytes) -> None:
    store = FakeStore().client("operator")
    await store.write_file(FIRST_USERS_FILE, content, holder="operator")
    with pytest.raises(FirstUsersUnreadable, match="run `bmq user bootstrap` again"):
        await read_first_users(store)
