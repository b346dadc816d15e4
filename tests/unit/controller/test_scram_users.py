"""Users' SCRAM keys, changed and described: codes and words of Kafka's ScramControlManager and ScramImage 4.3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bmq.controller.scram_users import decide_alter_users, describe_users
from bmq.metadata.features import METADATA_VERSION
from bmq.metadata.first_users import write_first_users
from bmq.metadata.state import MetadataState
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bmq.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from bmq.protocol.metadata_records import BrokerFeature, FeatureLevelRecord, RegisterBrokerRecord
from bmq.protocol.request_context import by_itself
from bmq.security.sasl.scram_keys import SHA_256, keys_of, salted_password
from tests.unit.controller.controller_lab import ControllerLab, on_virtual_time
from tests.unit.security.sasl.scram_client import keys

pytestmark = pytest.mark.unit


def add(name: str = "alice", mechanism: int = 1, iterations: int = 4096, **fields: Any) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        **{"salt": b"salt", "salted_password": b"salted", **fields},
        name=name,
        mechanism=mechanism,
        iterations=iterations,
    )


def remove(name: str = "alice", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


class Users:
    def __init__(self) -> None:
        self.state = MetadataState("cluster", 1, {})

    def alter(self, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> list[tuple[str, int, str | None]]:
        request = AlterUserScramCredentialsRequest(
            deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
            upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
        )
        decision = decide_alter_users(
            self.state.image_at(0).users, request, self.state.features, self.state.registrations
        )
        for record in decision.records:
            self.state.replay(record)
        return [(result.user, result.error_code, result.error_message) for result in decision.response.results]

    def describe(self, *names: str) -> list[tuple[str, int, str | None, list[tuple[int, int]]]]:
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
        return [
            (one.user, one.error_code, one.error_message, [(i.mechanism, i.iterations) for i in one.credential_infos])
            for one in asyncio.run(describe_users(self.state.image_at(0).users, request)).results
        ]


def test_keys_are_derived_from_the_salted_password_and_the_level_is_raised_once() -> None:
    users = Users()
    salted = salted_password(SHA_256, b"secret", b"salt", 4096)
    assert users.alter(add(salted_password=salted), add("bob", 2, 16384)) == [("alice", 0, None), ("bob", 0, None)]
    kept = users.state.image_at(0).users["alice"][1]
    assert (kept.stored_key, kept.server_key) == (
        keys_of(SHA_256, salted).stored_key,
        keys_of(SHA_256, salted).server_key,
    )
    assert users.state.features[METADATA_VERSION] == 2
    assert users.describe() == [("alice", 0, None, [(1, 4096)]), ("bob", 0, None, [(2, 16384)])]
    assert users.alter(remove()) == [("alice", 0, None)]
    assert users.describe("alice") == [
        ("alice", ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: alice", [])
    ]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (add(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (add(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (add(iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (add(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (remove(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (add(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (remove(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            remove("nobody"),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        (
            add(salt=b"s" * 1025),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Salt or salted password is longer than 1024 bytes",
        ),
        (add(name="u" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username is longer than 1024 characters"),
    ],
)
def test_what_cannot_be_is_refused_and_the_others_are_done(
    change: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode, message: str
) -> None:
    users = Users()
    results = {name: (found, why) for name, found, why in users.alter(change, add("zoe"))}
    assert results[change.name] == (code, message)
    assert results["zoe"] == (0, None)
    assert set(users.state.image_at(0).users) == {"zoe"}


def test_a_user_named_twice_is_not_changed_at_all() -> None:
    users = Users()
    twice = "A user credential cannot be altered twice in the same request"
    assert users.alter(add(), add(mechanism=2)) == [("alice", ErrorCode.DUPLICATE_RESOURCE, twice)]
    assert users.alter(add(), remove()) == [("alice", ErrorCode.DUPLICATE_RESOURCE, twice)]
    assert not users.state.image_at(0).users
    users.alter(add())
    assert users.describe("alice", "alice") == [
        (
            "alice",
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: alice",
            [],
        )
    ]


def test_a_node_that_could_not_read_the_record_stops_it() -> None:
    users = Users()
    old = BrokerFeature(name=METADATA_VERSION, min_supported_version=1, max_supported_version=1)
    users.state.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=1))
    users.state.replay(RegisterBrokerRecord(broker_id=7, features=(old,)))
    ((_, code, message),) = users.alter(add())
    assert code == ErrorCode.UNSUPPORTED_VERSION and "node 7 supports 1 at most" in (message or "")
    assert not users.state.image_at(0).users


@on_virtual_time
async def test_the_first_controller_takes_the_first_users_and_the_next_one_does_not() -> None:
    lab = ControllerLab()
    await write_first_users(lab.store.client("operator"), (keys("root", "secret"),), "operator")
    async with lab.controller() as first:
        assert first.image.users == {"root": {1: keys("root", "secret")}}
        request = AlterUserScramCredentialsRequest(deletions=[remove("root")])
        response = await first.handle(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, by_itself(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
        )
        assert response.results[0].error_code == 0
    async with lab.controller() as second:
        assert second.image.users == {}
