"""Delegation tokens at the controller: codes and their order are those of Kafka's DelegationTokenControlManager 4.3."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from dataclasses import replace
from typing import Any

import pytest

from bmq.controller.delegation_tokens import (
    RENEWERS_MAX,
    TOKENS_MAX,
    TokenTimes,
    decide_create,
    decide_expire,
    decide_renew,
    decide_sweep,
)
from bmq.metadata.features import METADATA_VERSION
from bmq.metadata.state import MetadataState
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from bmq.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from bmq.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from bmq.protocol.metadata_records import DelegationTokenRecord
from bmq.protocol.request_context import by_itself
from bmq.security.delegation_tokens import TokenMacs
from tests.unit.controller.controller_lab import CONFIG, ControllerLab, on_virtual_time

pytestmark = pytest.mark.unit

ALICE, BOB, EVE = "User:alice", "User:bob", "User:eve"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LONG_MAX = 2**63 - 1


class Tokens:
    """The decisions on one metadata state."""

    def __init__(self) -> None:
        self.state = MetadataState("cluster", 1, {})
        self.macs = TokenMacs("secret")
        self.now_ms = 1_000
        self.made = 0

    @property
    def kept(self) -> dict[str, DelegationTokenRecord]:
        return dict(self.state.image_at(0).delegation_tokens)

    def times(self, max_lifetime_ms: int = 7 * DAY_MS, expiry_time_ms: int = DAY_MS) -> TokenTimes:
        return TokenTimes(max_lifetime_ms, expiry_time_ms, self.now_ms)

    def _done(self, decision: Any) -> Any:
        for record in decision.records:
            self.state.replay(record)
        return decision.response

    def create(self, requester: str = ALICE, *, times: TokenTimes | None = None, **fields: Any) -> Any:
        self.made += 1
        request = CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **fields})
        tokens = self.state.image_at(0).delegation_tokens
        args = (request, requester, f"id{self.made}", self.macs, times or self.times())
        return self._done(decide_create(tokens, *args, self.state.features, self.state.registrations))

    def renew(self, mac: bytes, principal: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
        request = RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms)
        tokens = self.state.image_at(0).delegation_tokens
        response = self._done(decide_renew(tokens, request, principal, self.macs, self.times()))
        return response.error_code, response.expiry_timestamp_ms

    def expire(self, mac: bytes, principal: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
        request = ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms)
        tokens = self.state.image_at(0).delegation_tokens
        response = self._done(decide_expire(tokens, request, principal, self.macs, self.times()))
        return response.error_code, response.expiry_timestamp_ms


def renewers(*names: str, kind: str = "User") -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type=kind, principal_name=name) for name in names]


def test_a_token_is_made_for_oneself() -> None:
    tokens = Tokens()
    made = tokens.create(renewers=renewers("bob"))
    assert (made.error_code, made.token_id, made.principal_type, made.principal_name) == (0, "id1", "User", "alice")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "alice")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (
        1_000,
        1_000 + DAY_MS,
        1_000 + 7 * DAY_MS,
    )
    assert made.hmac == hmac.new(b"secret", b"id1", hashlib.sha512).digest()
    assert tokens.kept["id1"].renewers == (BOB,)
    assert tokens.state.features[METADATA_VERSION] == 2


def test_a_token_for_another_owner_names_both() -> None:
    tokens = Tokens()
    made = tokens.create(BOB, owner_principal_type="User", owner_principal_name="alice")
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "bob")
    assert (tokens.kept["id1"].owner, tokens.kept["id1"].requester) == (ALICE, BOB)
    assert tokens.renew(made.hmac, BOB) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert tokens.renew(made.hmac, ALICE)[0] == 0


@pytest.mark.parametrize(
    ("wanted_ms", "max_ms", "expiry_ms"),
    [
        (-1, 7 * DAY_MS, DAY_MS),
        (0, 7 * DAY_MS, DAY_MS),
        (HOUR_MS, HOUR_MS, HOUR_MS),
        (2 * DAY_MS, 2 * DAY_MS, DAY_MS),
        (LONG_MAX, 7 * DAY_MS, DAY_MS),
    ],
)
def test_lifetimes(wanted_ms: int, max_ms: int, expiry_ms: int) -> None:
    made = Tokens().create(max_lifetime_ms=wanted_ms)
    assert (made.max_timestamp_ms - 1_000, made.expiry_timestamp_ms - 1_000) == (max_ms, expiry_ms)


def test_the_longest_lifetimes_do_not_overflow() -> None:
    tokens = Tokens()
    made = tokens.create(times=tokens.times(LONG_MAX, LONG_MAX))
    assert (made.max_timestamp_ms, made.expiry_timestamp_ms) == (LONG_MAX, LONG_MAX)
    assert tokens.expire(made.hmac, period_ms=LONG_MAX) == (0, LONG_MAX)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"renewers": renewers("staff", kind="Group")}, ErrorCode.INVALID_PRINCIPAL_TYPE),
        ({"owner_principal_type": "Group", "owner_principal_name": "x"}, ErrorCode.INVALID_PRINCIPAL_TYPE),
        ({"owner_principal_type": None, "owner_principal_name": "x"}, ErrorCode.INVALID_PRINCIPAL_TYPE),
        ({"renewers": renewers(*("r" * (RENEWERS_MAX + 1)))}, ErrorCode.INVALID_REQUEST),
        ({"renewers": renewers("r" * 1_025)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    tokens = Tokens()
    made = tokens.create(**fields)
    assert (made.error_code, made.token_id, made.hmac, made.max_timestamp_ms) == (code, "", b"", -1)
    assert tokens.kept == {}


def test_the_number_of_tokens_is_bounded() -> None:
    tokens = Tokens()
    tokens.create()
    some = tokens.kept["id1"]
    for number in range(TOKENS_MAX - 1):
        tokens.state.replay(replace(some, token_id=f"more{number}"))
    assert tokens.create().error_code == ErrorCode.POLICY_VIOLATION
    assert tokens.expire(tokens.macs.of("more7"))[0] == 0
    assert tokens.create().error_code == 0


def test_owners_and_renewers_renew_up_to_the_maximum() -> None:
    tokens = Tokens()
    mac = tokens.create(renewers=renewers("bob"), max_lifetime_ms=36 * HOUR_MS).hmac
    tokens.now_ms += HOUR_MS
    assert tokens.renew(mac) == (0, tokens.now_ms + DAY_MS)
    assert tokens.renew(mac, BOB, HOUR_MS) == (0, tokens.now_ms + HOUR_MS)
    assert tokens.renew(mac, BOB, 2 * DAY_MS) == (0, tokens.now_ms + DAY_MS)
    tokens.now_ms += 23 * HOUR_MS
    assert tokens.renew(mac) == (0, 1_000 + 36 * HOUR_MS)
    assert tokens.renew(mac, EVE) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert tokens.renew(b"none") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    tokens.now_ms += 12 * HOUR_MS + 1
    # Renewing tells of the end first, expiring asks for the right first.
    assert tokens.renew(mac, EVE) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert tokens.expire(mac, EVE) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert tokens.expire(mac, period_ms=5) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert tokens.expire(mac, period_ms=-7) == (0, tokens.now_ms)
    assert tokens.kept == {}


def test_a_token_expires_sooner_or_at_once() -> None:
    tokens = Tokens()
    mac = tokens.create().hmac
    assert tokens.expire(mac, period_ms=50) == (0, 1_050)
    assert tokens.kept["id1"].expiration_timestamp == 1_050
    assert tokens.expire(mac, period_ms=8 * DAY_MS) == (0, 1_000 + 7 * DAY_MS)
    assert tokens.expire(mac) == (0, 1_000)
    assert tokens.expire(mac) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_the_sweep_removes_what_has_expired() -> None:
    tokens = Tokens()
    tokens.create(max_lifetime_ms=HOUR_MS)
    tokens.create()
    image = tokens.state.image_at(0)
    assert decide_sweep(image.delegation_tokens, 1_000 + HOUR_MS).records == []
    decision = decide_sweep(image.delegation_tokens, 1_001 + HOUR_MS)
    assert (decision.response, [one.token_id for one in decision.records]) == (1, ["id1"])  # type: ignore[union-attr]


def test_macs_follow_the_tokens() -> None:
    macs = TokenMacs("secret")
    record = DelegationTokenRecord(
        owner=ALICE,
        requester=ALICE,
        renewers=(),
        issue_timestamp=0,
        max_timestamp=1,
        expiration_timestamp=1,
        token_id="a",
    )
    first, second = {"a": record}, {"b": replace(record, token_id="b")}
    assert macs.find(first, macs.of("a")) is record
    assert macs.find(second, macs.of("a")) is None
    assert macs.find(second, macs.of("b")) is second["b"]
    assert TokenMacs("other").find(first, macs.of("a")) is None


@on_virtual_time
async def test_the_controller_removes_expired_tokens_in_time_and_needs_a_secret() -> None:
    configs = {"delegation.token.secret.key": "secret", "delegation.token.expiry.check.interval.ms": "60000"}
    lab = ControllerLab()
    create = CreateDelegationTokenRequest(max_lifetime_ms=1)
    context = replace(by_itself(ApiKey.CREATE_DELEGATION_TOKEN), principal=ALICE)
    async with lab.controller(replace(CONFIG, broker_configs=configs)) as controller:
        made = await controller.handle(ApiKey.CREATE_DELEGATION_TOKEN, create, context)
        assert made.error_code == 0 and made.token_id in controller.image.delegation_tokens
        assert len(made.token_id) == 22 and "secret" not in repr(controller.image)
        lab.clock.advance(1_000)
        await asyncio.sleep(61)
        assert not controller.image.delegation_tokens
    lab = ControllerLab()
    async with lab.controller() as controller:
        for api_key, request in (
            (ApiKey.CREATE_DELEGATION_TOKEN, create),
            (ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest()),
            (ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenRequest()),
        ):
            response = await controller.handle(api_key, request, context)
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
