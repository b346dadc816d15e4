"""Users and tokens in the metadata: what an image shows, and what goes through a snapshot."""

from __future__ import annotations

import pytest

from bmq.metadata.state import ImpossibleRecord, MetadataState
from bmq.protocol.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

pytestmark = pytest.mark.unit


def keys(name: str, mechanism: int = 1, iterations: int = 4096) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=iterations
    )


def token(token_id: str, expires: int = 5) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:bob",
        renewers=("User:carol",),
        issue_timestamp=1,
        max_timestamp=9,
        expiration_timestamp=expires,
        token_id=token_id,
    )


def test_the_newest_keys_count_and_an_image_keeps_what_it_had() -> None:
    state = MetadataState("cluster", 1, {})
    for record in (keys("alice"), keys("alice", 2), keys("bob"), token("t1"), token("t2")):
        state.replay(record)
    before = state.image_at(5)
    for change in (keys("alice", 1, 8192), RemoveUserScramCredentialRecord(name="bob", mechanism=1)):
        state.replay(change)
    for renewal in (token("t1", 7), RemoveDelegationTokenRecord(token_id="t2")):
        state.replay(renewal)
    after = state.image_at(9)
    assert before.users["alice"][1].iterations == 4096 and set(before.users) == {"alice", "bob"}
    assert set(before.delegation_tokens) == {"t1", "t2"}
    assert {name: sorted(found) for name, found in after.users.items()} == {"alice": [1, 2]}
    assert after.users["alice"][1].iterations == 8192
    assert after.delegation_tokens == {"t1": token("t1", 7)}


def test_other_changes_leave_the_users_of_an_image_alone() -> None:
    state = MetadataState("cluster", 1, {})
    state.replay(keys("alice"))
    first = state.image_at(1)
    state.replay(token("t"))
    assert state.image_at(2).users is first.users


def test_users_and_tokens_go_through_a_snapshot() -> None:
    state = MetadataState("cluster", 1, {})
    for record in (keys("alice"), keys("alice", 2), token("t1")):
        state.replay(record)
    copy = MetadataState("cluster", 1, {})
    copy.replay_snapshot(state.snapshot())
    assert copy.image_at(3).users == state.image_at(3).users
    assert copy.image_at(3).delegation_tokens == state.image_at(3).delegation_tokens


@pytest.mark.parametrize(
    "record",
    [RemoveUserScramCredentialRecord(name="alice", mechanism=2), RemoveDelegationTokenRecord(token_id="t")],
)
def test_removing_what_is_not_there_is_a_damaged_log(record: RemoveUserScramCredentialRecord) -> None:
    state = MetadataState("cluster", 1, {})
    state.replay(keys("alice"))
    with pytest.raises(ImpossibleRecord, match="removes what does not exist"):
        state.replay(record)


def test_an_image_does_not_print_its_secrets() -> None:
    state = MetadataState("cluster", 1, {})
    state.replay(keys("alice"))
    assert "stored" not in repr(state.image_at(1))
    assert "server" not in repr(keys("alice")).replace("server_key", "")
