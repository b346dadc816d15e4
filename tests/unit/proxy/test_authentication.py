"""A listener that demands a login, over real loopback sockets: nothing passes before it, and nothing after its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import structlog

from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.metadata_request import MetadataRequest
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy import authentication
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.sasl_logins import SaslLogins, at_once
from bmq.proxy.services import Services
from bmq.security.listener_security import MECHANISMS, ListenerSecurity, SecurityProtocol
from bmq.security.sasl.steps import Step, Unavailable
from tests.fakes.clock import FakeClock
from tests.support.gc_garbage import left_in_circles
from tests.unit.proxy.harness import Client, FakeController, Proxy, start_proxy, until
from tests.unit.security.sasl.scram_client import ScramClient, keys

pytestmark = pytest.mark.unit

KNOWN = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")
RIGHT, WRONG = b"\0admin\0root-secret", b"\0admin\0wrong-secret"
SECURITY = ListenerSecurity(
    name="SECURE",
    protocol=SecurityProtocol.SASL_PLAINTEXT,
    mechanisms=frozenset({"PLAIN", "SCRAM-SHA-256"}),
    jaas_users={"admin": "root-secret"},
)


class Threads:
    """Stands for the thread that checks passwords: `go` lets it work."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()

    async def run(self, work: Any) -> Step:
        await self.go.wait()
        step: Step = work()
        return step


class Door:
    def __init__(self) -> None:
        self.threads = Threads()
        self.proxies: list[Proxy] = []
        self.clients: list[Client] = []

    async def connect(self, proxy: Proxy) -> Client:
        self.clients.append(await proxy.connect())
        return self.clients[-1]

    async def open(
        self, security: ListenerSecurity = SECURITY, delay_ms: int = 0, limits: ProxyLimits | None = None
    ) -> Proxy:
        def logins(controller: FakeController) -> SaslLogins:
            controller.image = replace(controller.image, users={"alice": {1: keys("alice", "secret")}})
            return SaslLogins(lambda: controller.image, FakeClock(), self.threads.run, failure_delay_ms=delay_ms)

        proxy = await start_proxy(limits, security=security, logins=logins)
        self.proxies.append(proxy)
        return proxy


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    door = Door()
    yield door
    for client in door.clients:
        await client.close()
    for proxy in door.proxies:
        await until(lambda proxy=proxy: proxy.stats.connections == 0)
        await proxy.server.stop(0)
        proxy.services.appender.stop()
    await asyncio.sleep(0)


async def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return await client.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))


async def token(client: Client, data: bytes) -> Any:
    return await client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=data))


async def logged_in(door: Door, proxy: Proxy) -> Client:
    client = await door.connect(proxy)
    await handshake(client)
    assert (await token(client, RIGHT)).error_code == 0
    return client


async def test_a_client_logs_in_and_is_known_by_its_principal(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = await door.open()
    seen: list[RequestContext] = []
    metadata = HANDLERS[ApiKey.METADATA]

    async def watched(request: Any, context: RequestContext, services: Services) -> Any:
        seen.append(context)
        return await metadata(request, context, services)

    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, watched)
    client = await door.connect(proxy)
    assert (await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    assert (await handshake(client)).error_code == 0
    assert (await token(client, RIGHT)).session_lifetime_ms == 0
    assert (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"
    assert [(one.principal, one.is_token, one.listener) for one in seen] == [("User:admin", False, "SECURE")]
    # Out of turn, as clients test for: the connection stays.
    assert (await handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await token(client, RIGHT)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"
    assert proxy.stats.authentications == 1


async def test_of_connections_that_do_not_log_in_the_oldest_give_way_and_clients_stay(door: Door) -> None:
    proxy = await door.open(limits=ProxyLimits(pending_connections_per_host_max=2))
    client = await logged_in(door, proxy)
    silent = [await door.connect(proxy) for _ in range(3)]
    assert await silent[0].is_closed_by_server()
    other = await logged_in(door, proxy)
    assert await silent[1].is_closed_by_server()
    assert len(proxy.server.pending) == 1
    for one in (client, other):
        assert (await one.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"
    await silent[2].close()
    await until(lambda: len(proxy.server.pending) == 0)


async def test_a_connection_that_stops_in_its_login_leaves_nothing_to_the_garbage_collector(door: Door) -> None:
    proxy = await door.open(limits=ProxyLimits(pending_connections_per_host_max=2))
    stopped = [await door.connect(proxy) for _ in range(2)]
    for one in stopped:
        await handshake(one)
    with left_in_circles() as circles:
        for _ in range(5):
            stopped.append(await door.connect(proxy))
            await handshake(stopped[-1])
        for one in stopped[:-2]:
            assert await one.is_closed_by_server()
        await until(lambda: proxy.stats.connections == 2)
    assert circles == []


async def test_scram_and_plain_by_the_same_keys(door: Door) -> None:
    proxy = await door.open()
    client = await door.connect(proxy)
    await handshake(client, "SCRAM-SHA-256")
    scram = ScramClient("alice", "secret")
    first = await token(client, scram.first())
    assert scram.verify((await token(client, scram.last(first.auth_bytes))).auth_bytes)
    assert (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"
    other = await door.connect(proxy)
    await handshake(other)
    assert (await token(other, b"\0alice\0secret")).error_code == 0


@pytest.mark.parametrize("api_key", sorted(APIS.keys() - {17, 18, 36}))
async def test_nothing_else_passes_before_the_login(door: Door, api_key: int) -> None:
    """Whichever of the three tables answers it, decoded or not."""
    proxy = await door.open()
    for begun in (False, True):
        client = await door.connect(proxy)
        if begun:
            await handshake(client)
        client.send_frame(api_key.to_bytes(2, "big") + b"\0\3\0\0\0\1\xff\xff" + bytes(40))
        assert await client.is_closed_by_server()
    assert proxy.stats.requests.keys() <= {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


async def test_a_wrong_password_is_answered_late_and_then_closed(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = await door.open(delay_ms=100)
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    call_later = loop.call_later

    def noted(delay_s: float, *rest: Any) -> asyncio.TimerHandle:
        delays.append(delay_s)
        return call_later(0 if delay_s == 0.1 else delay_s, *rest)

    monkeypatch.setattr(loop, "call_later", noted)
    client = await door.connect(proxy)
    await handshake(client)
    with structlog.testing.capture_logs() as logs:
        answered = await token(client, WRONG)
        # A request behind it is not even looked at.
        client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        assert await client.is_closed_by_server()
    assert answered.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answered.error_message == "Authentication failed: Invalid username or password"
    assert 0.1 in delays
    assert proxy.stats.authentications_failed == 1 and not proxy.stats.requests[ApiKey.METADATA]
    (line,) = [one for one in logs if one["event"] == "connection_closed"]
    assert line["reason"].startswith("its authentication by PLAIN failed: a wrong password")
    assert "secret" not in repr(logs)


async def test_answers_of_a_login_keep_their_order_behind_others(door: Door) -> None:
    """All in one packet: the first is answered by a task, the others at once."""
    proxy = await door.open()
    client = await door.connect(proxy)
    asked = [
        (ApiKey.API_VERSIONS, 3, client.send(ApiKey.API_VERSIONS, 3, KNOWN)),
        (ApiKey.SASL_HANDSHAKE, 1, client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))),
        (
            ApiKey.SASL_AUTHENTICATE,
            2,
            client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=RIGHT)),
        ),
        (ApiKey.METADATA, 12, client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))),
    ]
    for api_key, version, correlation_id in asked:
        assert (await client.answer(api_key, version))[0] == correlation_id
    assert proxy.stats.requests == {api_key: 1 for api_key, _, _ in asked}
    assert proxy.stats.in_flight_bytes == 0 and proxy.stats.sent_bytes > 0


async def test_raw_tokens_of_old_clients(door: Door) -> None:
    proxy = await door.open()
    client = await door.connect(proxy)
    assert (await handshake(client, version=0)).error_code == 0
    client.send_frame(RIGHT)
    assert await client.read_frame() == b""
    assert (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"
    wrong = await door.connect(proxy)
    await handshake(wrong, version=0)
    wrong.send_frame(WRONG)
    assert await wrong.is_closed_by_server()


async def test_an_unknown_mechanism_is_told_the_others_and_closed(door: Door) -> None:
    client = await door.connect(await door.open())
    answered = await handshake(client, "GSSAPI")
    assert answered.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert tuple(answered.mechanisms) == ("PLAIN", "SCRAM-SHA-256")
    assert await client.is_closed_by_server()


async def test_a_frame_before_the_login_is_short(door: Door) -> None:
    proxy = await door.open()
    client = await door.connect(proxy)
    client.writer.write((65 * 1024).to_bytes(4, "big") + b"\0\x11")
    assert await client.is_closed_by_server()
    # Afterwards it may be as long as anywhere.
    later = await logged_in(door, proxy)
    later.send(ApiKey.METADATA, 12, MetadataRequest(topics=None), client_id="x" * 30_000)
    later.writer.write((100 * 1024).to_bytes(4, "big") + b"\0\0")
    await later.answer(ApiKey.METADATA, 12)
    await until(lambda: proxy.stats.in_flight_bytes > 0)


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_frame_of_100_mb_before_the_login_takes_no_memory_and_is_one_line(door: Door, is_begun: bool) -> None:
    proxy = await door.open()
    client = await door.connect(proxy)
    if is_begun:
        await handshake(client)
    with structlog.testing.capture_logs() as logs:
        client.writer.write((100 * 1024 * 1024).to_bytes(4, "big") + b"\0\x24\0\2")
        assert await client.is_closed_by_server()
    assert proxy.stats.in_flight_bytes == 0
    (line,) = [one for one in logs if one["event"] == "connection_closed"]
    assert "104857600" in str(line["reason"])


async def test_a_login_that_cannot_be_checked_now_is_closed_without_an_answer(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer would be final for the client, which tries again after a close."""

    async def away(work: Any) -> Step:
        return Unavailable("the controller is not known")

    monkeypatch.setattr(door.threads, "run", away)
    proxy = await door.open()
    client = await door.connect(proxy)
    await handshake(client)
    with structlog.testing.capture_logs() as logs:
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"))
        assert await client.is_closed_by_server()
    assert proxy.stats.authentications_failed == 0
    (line,) = [one for one in logs if one["event"] == "connection_closed"]
    assert line["reason"] == "its login by PLAIN cannot be checked now: the controller is not known"


@pytest.mark.parametrize("data", [WRONG, b"\0nobody\0secret"])
async def test_while_no_controller_answers_a_wrong_login_is_closed_late_and_a_right_one_is_let_in(
    door: Door, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known or not: a close tells nothing of who exists. (As in Kafka known users log in as ever.)"""
    monkeypatch.setattr(SaslLogins, "_is_out_of_date", lambda logins, mechanism: mechanism == "PLAIN")
    proxy = await door.open()
    await logged_in(door, proxy)
    client = await door.connect(proxy)
    await handshake(client)
    with structlog.testing.capture_logs() as logs:
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=data))
        assert await client.is_closed_by_server()
    assert (proxy.stats.authentications, proxy.stats.authentications_failed) == (1, 1)
    (line,) = [one for one in logs if one["event"] == "connection_closed"]
    assert "no controller answers here" in str(line["reason"]) and "secret" not in repr(logs)


def test_which_logins_the_metadata_decides() -> None:
    logins = SaslLogins(lambda: MetadataImage(cluster_id="c"), FakeClock(), at_once)
    assert not logins._is_out_of_date("PLAIN")
    logins.is_current = lambda: False
    told = {name: logins._is_out_of_date(name) for name in MECHANISMS}
    assert told == {
        "GSSAPI": False, "PLAIN": True, "SCRAM-SHA-256": True, "SCRAM-SHA-512": True, "OAUTHBEARER": False
    }  # fmt: skip


async def test_a_login_that_takes_too_long_is_ended(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "LOGIN_S_MAX", 0.0)
    client = await door.connect(await door.open())
    assert await client.is_closed_by_server()


async def test_frames_behind_a_slow_check_wait_for_it(door: Door) -> None:
    proxy = await door.open()
    door.threads.go.clear()
    client = await door.connect(proxy)
    await handshake(client)
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"))
    client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    await until(lambda: proxy.stats.requests[ApiKey.SASL_AUTHENTICATE] == 1)
    assert not proxy.stats.requests[ApiKey.METADATA]
    door.threads.go.set()
    assert (await client.answer(ApiKey.SASL_AUTHENTICATE, 2))[1].error_code == 0
    assert (await client.answer(ApiKey.METADATA, 12))[1].topics[0].name == "t"


async def test_a_session_ends_silently_unless_it_is_renewed(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = await door.open(replace(SECURITY, reauthentication_max_ms={"": 60_000}))
    loop = asyncio.get_running_loop()
    real, skipped = loop.time, [0.0]
    first, second = await logged_in(door, proxy), await logged_in(door, proxy)
    monkeypatch.setattr(loop, "time", lambda: real() + skipped[0])
    skipped[0] = 50.0
    assert (await handshake(first)).error_code == 0
    again = await token(first, RIGHT)
    assert (again.error_code, again.session_lifetime_ms) == (0, 60_000)
    skipped[0] = 70.0
    assert (await first.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"
    closed_bad = proxy.stats.connections_closed_bad
    second.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    assert await second.is_closed_by_server()
    assert (proxy.stats.sessions_expired, proxy.stats.connections_closed_bad) == (1, closed_bad)


async def test_a_listener_without_logins_knows_no_login(door: Door) -> None:
    proxy = await door.open(ListenerSecurity())
    client = await door.connect(proxy)
    assert (await handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    answered = await token(client, RIGHT)
    assert answered.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"


async def test_a_lost_connection_leaves_no_timer(door: Door) -> None:
    proxy = await door.open(delay_ms=60_000)
    client = await door.connect(proxy)
    await handshake(client)
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=WRONG))
    await until(lambda: proxy.stats.authentications_failed == 1)
    proxy.server.connections[0].abort()  # meanwhile the socket is not read, so that its end is not noticed
    await until(lambda: proxy.stats.connections == 0)
    assert proxy.stats.in_flight_bytes == 0
