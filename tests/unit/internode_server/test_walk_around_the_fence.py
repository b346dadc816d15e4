"""Every API of clients at every kind of listener, by a client without a credential, with a wrong or an expired one, and with
a right one that gives no right: none of them does anything.

The paths of REST are walked in tests/unit/admin/rest (test_authentication, test_authorization), at every version of an API
in proxy_authorization/test_every_api, and logins by expired tokens in proxy/test_delegation_tokens.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import structlog

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import encode_request, message_format
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.proxy import dispatch
from bmq.proxy.access import Access
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.handlers import load_all
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.sasl_logins import SaslLogins
from bmq.security.authorizer import Decider
from bmq.security.listener_security import ListenerSecurity, SecurityProtocol
from tests.fakes.clock import FakeClock
from tests.support.node_pki import HERE, NodePki
from tests.unit.internode_server.test_fence_between_listeners import server_context
from tests.unit.proxy.harness import Client, Proxy, batch, image_of, produce_request, start_proxy, topic_image, until
from tests.unit.proxy.test_authentication import Threads
from tests.unit.proxy_authorization.requests import TOPIC_ID, WORD, full_request, values_of
from tests.unit.proxy_authorization.test_every_api import DENIALS, GUARDED

pytestmark = pytest.mark.unit

LOGIN: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS})
OTHERS: Final = sorted(APIS.keys() - LOGIN)
ASK_THEMSELVES: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
SASL: Final = tuple(one for one in SecurityProtocol if one.is_sasl)
RIGHT, WRONG = b"\0eve\0secret", b"\0eve\0guessed"
SESSION_MS: Final = 60_000


@dataclass
class Fence:
    """A listener whose clients have no right. `done`: what handlers were asked to do, by API."""

    protocol: SecurityProtocol
    proxy: Proxy
    pki: NodePki
    done: list[tuple[ApiKey, Any]] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    async def connect(self, certificate: Path | None = None, trust: Path | None = None) -> Client:
        """Over TLS without a certificate, unless one is shown. Raises OSError (with ssl.SSLError)."""
        context = None
        if self.protocol.is_tls:
            context = ssl.create_default_context(cafile=str(trust or self.pki.ca_file))
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if certificate is not None:
                context.load_cert_chain(certificate)
        opening = asyncio.open_connection(
            self.proxy.host, self.proxy.port, ssl=context, server_hostname=HERE if context else None
        )
        self.clients.append(Client(*await opening))
        return self.clients[-1]

    async def log_in(self, proof: bytes = RIGHT) -> tuple[Client, Any]:
        client = await self.connect()
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        return client, await client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=proof))

    def assert_nothing_done(self) -> None:
        assert self.done == []
        assert self.proxy.stats.requests.keys() <= LOGIN
        assert all(not log.batches for log in self.proxy.partitions.logs.values())


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> NodePki:
    return NodePki(tmp_path_factory.mktemp("pki") / "ca")


@pytest.fixture
async def fence(request: pytest.FixtureRequest, pki: NodePki, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fence]:
    load_all()
    protocol: SecurityProtocol = request.param
    mechanisms = frozenset({"PLAIN"}) if protocol.is_sasl else frozenset[str]()
    users = {"eve": "secret"} if protocol.is_sasl else {}
    sessions = {"": SESSION_MS} if protocol.is_sasl else {}
    security = ListenerSecurity("OUTSIDE", protocol, mechanisms, jaas_users=users, reauthentication_max_ms=sessions)
    context = server_context(pki.node(), pki.ca_file) if protocol.is_tls else None
    if context is not None and protocol.is_sasl:
        context.verify_mode = ssl.CERT_NONE
    proxy = await start_proxy(
        listener_socket=ListenerSocket(security, context, principal_of=lambda subject: "User:eve"),
        logins=lambda controller: SaslLogins(lambda: controller.image, FakeClock(), Threads().run, failure_delay_ms=0),
    )
    proxy.controller.image = image_of(topic_image(WORD, TOPIC_ID, 3))
    for number in range(3):
        proxy.partitions.add(TOPIC_ID, number, leader_epoch=3)
    proxy.services.access = Access(Decider(), dict)
    proxy.services.fetcher = Fetcher(proxy.services.store, FetchSettings(), random=Random(7))
    made = Fence(protocol, proxy, pki)
    for api_key in dispatch.HANDLERS.keys() & APIS.keys():
        monkeypatch.setitem(dispatch.HANDLERS, api_key, dispatch._guarded(api_key, _recording(api_key, made)))
    yield made
    for client in made.clients:
        with suppress(OSError):
            await client.close()
    await until(lambda: proxy.stats.connections == 0)
    await proxy.server.stop(0)
    proxy.services.appender.stop()
    await proxy.services.fetcher.close()
    await asyncio.sleep(0)


def _recording(api_key: ApiKey, fence: Fence) -> dispatch.Handler:
    async def answer(request: Any, context: Any, services: Any) -> Any:
        fence.done.append((api_key, request))
        return message_format("response", api_key).message_class()

    return answer


def asked_for(api_key: ApiKey) -> Any:
    """A request of the newest version about topic WORD, in which nothing but the right is missing."""
    if api_key is ApiKey.PRODUCE:
        return produce_request({0: batch()}, topic=WORD, topic_id=TOPIC_ID)
    if api_key is ApiKey.FETCH:
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
        topics = [FetchTopic(topic=WORD, topic_id=TOPIC_ID, partitions=[part])]
        return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics)
    return full_request(api_key, APIS[api_key].version_max)


def frame(api_key: ApiKey) -> bytes:
    return encode_request(api_key, APIS[api_key].version_max, 1, "test", asked_for(api_key))


every_listener = pytest.mark.parametrize("fence", SecurityProtocol, indirect=True)
with_logins = pytest.mark.parametrize("fence", SASL, indirect=True)


@with_logins
async def test_without_a_login_no_api_does_anything(fence: Fence) -> None:
    for api_key in OTHERS:
        client = await fence.connect()
        client.send_frame(frame(api_key))
        assert await client.is_closed_by_server(), api_key.name
    fence.assert_nothing_done()


@with_logins
async def test_after_a_wrong_password_no_api_does_anything(fence: Fence) -> None:
    for api_key in OTHERS:
        client = await fence.connect()
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=WRONG))
        client.send_frame(frame(api_key))
        await client.answer(ApiKey.SASL_HANDSHAKE, 1)
        _, refused = await client.answer(ApiKey.SASL_AUTHENTICATE, 2)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed_by_server(), api_key.name
    fence.assert_nothing_done()


@with_logins
async def test_after_the_end_of_a_session_no_api_does_anything(fence: Fence, monkeypatch: pytest.MonkeyPatch) -> None:
    logged_in = {}
    for api_key in OTHERS:
        logged_in[api_key], answer = await fence.log_in()
        assert (answer.error_code, answer.session_lifetime_ms) == (0, SESSION_MS)
    loop = asyncio.get_running_loop()
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + SESSION_MS / 1000 + 1)
    for api_key, client in logged_in.items():
        client.send_frame(frame(api_key))
        assert await client.is_closed_by_server(), api_key.name
    fence.assert_nothing_done()


@pytest.mark.parametrize("fence", [SecurityProtocol.SSL], indirect=True)
@pytest.mark.parametrize("kind", ["none", "self-signed", "expired", "of another authority", "clear text"])
async def test_without_a_right_certificate_no_api_does_anything(fence: Fence, kind: str, tmp_path: Path) -> None:
    certificate = {
        "none": lambda: None,
        "self-signed": fence.pki.self_signed,
        "expired": fence.pki.expired,
        "of another authority": lambda: NodePki(tmp_path / "other").client(),
        "clear text": lambda: None,
    }[kind]()
    if kind == "clear text":
        fence.protocol = SecurityProtocol.PLAINTEXT
    for api_key in OTHERS:
        # The client learns of the refusal when it reads, as TLS 1.3 has it.
        with suppress(ssl.SSLError, ConnectionError):
            client = await fence.connect(certificate)
            client.send_frame(frame(api_key))
            assert await client.is_closed_by_server(), api_key.name
    assert fence.proxy.stats.requests == {}
    fence.assert_nothing_done()


@every_listener
async def test_without_a_right_no_api_does_anything(fence: Fence) -> None:
    """Nor gets a handler to see what the client may not name."""
    client = (await fence.log_in())[0] if fence.protocol.is_sasl else await fence.connect(fence.pki.client())
    with structlog.testing.capture_logs() as lines:
        for api_key in (*ASK_THEMSELVES, *GUARDED):
            answer = await client.ask(api_key, APIS[api_key].version_max, asked_for(api_key))
            codes = {value for name, value in values_of(answer) if name.endswith("error_code")}
            assert codes & DENIALS, f"{api_key.name} does not say that it is denied: {answer}"
    for api_key, request in fence.done:
        seen = {value for _, value in values_of(request)}
        assert not seen & {WORD, TOPIC_ID}, f"{api_key.name}: {request}"
    assert [line for line in lines if line["event"] == "handler_failed"] == []
    assert all(not log.batches for log in fence.proxy.partitions.logs.values())
    assert (fence.proxy.controller.created, fence.proxy.controller.blocks_given) == ([], 0)
