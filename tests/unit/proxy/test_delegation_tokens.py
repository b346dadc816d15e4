"""Delegation tokens at a listener: who may ask about them, who sees which, and logins by them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from bmq.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from bmq.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from bmq.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from bmq.protocol.messages.metadata_request import MetadataRequest
from bmq.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.protocol.metadata_records import DelegationTokenRecord
from bmq.protocol.request_context import ANONYMOUS, RequestContext
from bmq.proxy.access import Access
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.handlers import load_all
from bmq.proxy.sasl_logins import SaslLogins
from bmq.proxy.services import Services
from bmq.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from bmq.security.delegation_tokens import TokenMacs
from bmq.security.listener_security import ListenerSecurity, SecurityProtocol
from bmq.security.sasl.steps import Step
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitions
from tests.unit.proxy.harness import Client, FakeController, Proxy, image_of, services_over, start_proxy, until
from tests.unit.security.sasl.scram_client import ScramClient, keys

pytestmark = pytest.mark.unit

load_all()
NOW_MS = 1_700_000_000_000
MACS = TokenMacs("secret")
CHANGES = (
    (ApiKey.CREATE_DELEGATION_TOKEN, CreateDelegationTokenRequest()),
    (ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest()),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenRequest()),
)
LOGIN = ListenerSecurity("SECURE", SecurityProtocol.SASL_SSL, frozenset({"SCRAM-SHA-256"}))


def token(
    token_id: str, owner: str, renewers: Sequence[str] = (), ends_ms: int = NOW_MS + 60_000
) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=f"User:{owner}",
        requester=f"User:{owner}",
        renewers=tuple(f"User:{one}" for one in renewers),
        issue_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 120_000,
        expiration_timestamp=ends_ms,
        token_id=token_id,
    )


class Asked(FakeController):
    """Remembers what came through to the controller."""

    def __init__(self, *tokens: DelegationTokenRecord) -> None:
        super().__init__(replace(image_of(), delegation_tokens={one.token_id: one for one in tokens}))
        self.requests: list[ApiKey] = []

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        self.requests.append(api_key)
        return CreateDelegationTokenResponse(token_id="made")


def services(controller: Asked, *acls: Acl, is_on: bool = True, security: ListenerSecurity = LOGIN) -> Services:
    made = services_over(controller, FakePartitions())
    made.security, made.token_macs = security, MACS
    if is_on:
        known = {UUID(int=number + 1): acl for number, acl in enumerate(acls)}
        made.access = Access(Decider(frozenset(), allows_without_acl=False), lambda: known)
    return made


def by(name: str, *, is_token: bool = False) -> RequestContext:
    return RequestContext(3, "test", "127.0.0.1", principal=f"User:{name}", is_token=is_token)


def allow(user: str, operation: Operation, kind: ResourceType, name: str) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)


@pytest.mark.parametrize(
    ("protocol", "context"),
    [
        (SecurityProtocol.PLAINTEXT, by("alice")),
        (SecurityProtocol.SSL, replace(by("x"), principal=ANONYMOUS)),
        (SecurityProtocol.SASL_SSL, by("alice", is_token=True)),
        (SecurityProtocol.SASL_PLAINTEXT, by("alice", is_token=True)),
    ],
)
async def test_who_did_not_prove_who_it_is_may_not_ask(protocol: SecurityProtocol, context: RequestContext) -> None:
    controller = Asked(token("t1", "alice"))
    made = services(controller, security=ListenerSecurity("L", protocol))
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    for api_key, request in CHANGES:
        assert (await HANDLERS[api_key](request, context, made)).error_code == not_allowed
    response = await HANDLERS[ApiKey.DESCRIBE_DELEGATION_TOKEN](
        DescribeDelegationTokenRequest(owners=None), context, made
    )
    assert (response.error_code, response.tokens) == (not_allowed, ())
    # Neither does the right of another owner's tokens help, nor does its lack give another answer.
    other = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    refused = await HANDLERS[ApiKey.CREATE_DELEGATION_TOKEN](other, context, made)
    assert (refused.error_code, refused.principal_name, refused.hmac) == (not_allowed, "bob", b"")
    assert controller.requests == []


@pytest.mark.parametrize("protocol", [SecurityProtocol.SSL, SecurityProtocol.SASL_SSL, SecurityProtocol.SASL_PLAINTEXT])
async def test_who_proved_who_it_is_comes_to_the_controller(protocol: SecurityProtocol) -> None:
    controller = Asked()
    made = services(controller, security=ListenerSecurity("L", protocol))
    for api_key, request in CHANGES:
        assert (await HANDLERS[api_key](request, by("alice"), made)).token_id == "made"
    assert controller.requests == [api_key for api_key, _ in CHANGES]


async def test_tokens_of_others_need_a_right_over_that_user() -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    right = allow("alice", Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    create = HANDLERS[ApiKey.CREATE_DELEGATION_TOKEN]
    denied = await create(request, by("alice"), services(Asked()))
    assert denied.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (denied.principal_name, denied.token_requester_principal_name) == ("bob", "alice")
    assert (await create(request, by("alice"), services(Asked(), right))).token_id == "made"
    assert (await create(request, by("alice"), services(Asked(), is_on=False))).token_id == "made"
    assert (await create(request, by("eve"), services(Asked(), right))).error_code == denied.error_code


async def described(context: RequestContext, made: Services, owners: Sequence[str] | None) -> list[str]:
    named = (
        None
        if owners is None
        else [DescribeDelegationTokenOwner(principal_type="User", principal_name=one) for one in owners]
    )
    request = DescribeDelegationTokenRequest(owners=named)
    response = await HANDLERS[ApiKey.DESCRIBE_DELEGATION_TOKEN](request, context, made)
    assert response.error_code == 0
    assert all(one.hmac == MACS.of(one.token_id) for one in response.tokens)
    return [one.token_id for one in response.tokens]


async def test_everybody_sees_the_own_tokens_and_others_by_right() -> None:
    controller = Asked(token("t1", "alice"), token("t2", "bob", ["alice"]), token("t3", "bob"), token("t4", "carol"))
    made = services(controller)
    assert await described(by("alice"), made, None) == ["t1", "t2"]
    assert await described(by("alice"), made, []) == []
    assert await described(by("alice"), made, ["bob"]) == ["t2"]
    assert await described(by("alice"), made, ["alice"]) == ["t1", "t2"]
    assert await described(by("eve"), made, None) == []
    one = services(controller, allow("eve", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "t3"))
    assert await described(by("eve"), one, None) == ["t3"]
    bobs = services(controller, allow("eve", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"))
    assert await described(by("eve"), bobs, None) == ["t2", "t3"]
    assert await described(by("eve"), services(controller, is_on=False), ["carol"]) == ["t4"]
    made.token_macs = None
    response = await HANDLERS[ApiKey.DESCRIBE_DELEGATION_TOKEN](
        DescribeDelegationTokenRequest(owners=None), by("alice"), made
    )
    assert (response.error_code, response.tokens) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ())


class Door:
    """A listener with SCRAM, and tokens `good` and `old` of alice."""

    def __init__(self, macs: TokenMacs | None = MACS) -> None:
        self.macs = macs
        self.derivations = 0
        self.clients: list[Client] = []

    async def _run(self, work: Any) -> Step:
        self.derivations += 1
        return await asyncio.to_thread(work)

    async def open(self) -> Proxy:
        def logins(controller: FakeController) -> SaslLogins:
            tokens = {"good": token("good", "alice"), "old": token("old", "alice", ends_ms=NOW_MS - 1)}
            controller.image = replace(
                controller.image, users={"alice": {1: keys("alice", "pw")}}, delegation_tokens=tokens
            )
            return SaslLogins(
                lambda: controller.image, FakeClock(NOW_MS), self._run, failure_delay_ms=0, token_macs=self.macs
            )

        security = replace(LOGIN, protocol=SecurityProtocol.SASL_PLAINTEXT)
        self.proxy = await start_proxy(security=security, logins=logins)
        self.proxy.services.security = security
        return self.proxy

    async def login(self, name: str, password: str, extensions: str = ",tokenauth=true") -> tuple[Client, Any]:
        client = await self.proxy.connect()
        self.clients.append(client)
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        scram = ScramClient(name, password, extensions=extensions)
        first = await self._send(client, scram.first())
        assert first.error_code == 0
        return client, await self._send(client, scram.last(first.auth_bytes))

    async def _send(self, client: Client, data: bytes) -> Any:
        return await client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=data))


@pytest.fixture
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Door]:
    door = Door(getattr(request, "param", MACS))
    proxy = await door.open()
    yield door
    for client in door.clients:
        await client.close()
    await until(lambda: proxy.stats.connections == 0)
    await proxy.server.stop(0)
    proxy.services.appender.stop()
    await asyncio.sleep(0)


def password_of(token_id: str) -> str:
    return base64.b64encode(MACS.of(token_id)).decode()


async def test_a_token_logs_in_as_its_owner_until_it_expires(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[RequestContext] = []
    metadata = HANDLERS[ApiKey.METADATA]

    async def watched(request: Any, context: RequestContext, services: Services) -> Any:
        seen.append(context)
        return await metadata(request, context, services)

    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, watched)
    client, response = await door.login("good", password_of("good"))
    assert (response.error_code, response.session_lifetime_ms) == (0, 60_000)
    await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    assert [(one.principal, one.is_token) for one in seen] == [("User:alice", True)]
    refused = await client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, CreateDelegationTokenRequest())
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    # Keys are derived once.
    assert (await door.login("good", password_of("good")))[1].error_code == 0
    assert door.derivations == 1


@pytest.mark.parametrize(
    ("name", "password", "extensions"),
    [
        ("good", "wrong", ",tokenauth=true"),
        ("good", password_of("good"), ""),
        ("good", password_of("good"), ",tokenauth=false"),
        ("old", password_of("old"), ",tokenauth=true"),
        ("none", password_of("none"), ",tokenauth=true"),
        ("alice", "pw", ",tokenauth=true"),
    ],
)
async def test_other_logins_fail_alike(door: Door, name: str, password: str, extensions: str) -> None:
    _, response = await door.login(name, password, extensions)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


@pytest.mark.parametrize("door", [None, TokenMacs("another secret")], indirect=True)
async def test_without_the_secret_no_token_logs_in(door: Door) -> None:
    _, response = await door.login("good", password_of("good"))
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
