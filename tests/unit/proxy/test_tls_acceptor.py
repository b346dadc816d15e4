"""A TLS listener on real loopback sockets: handshakes that fail or never end, their limits, a renewed certificate."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trustme

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.proxy import tls_acceptor
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.pending_connections import PendingConnections
from bmq.proxy.server import BACKLOG
from bmq.proxy.tls_acceptor import TlsAcceptor
from bmq.security.listener_security import ListenerSecurity, SecurityProtocol
from tests.fakes.loop_time import LoopTime
from tests.support.gc_garbage import left_in_circles
from tests.unit.proxy.harness import Client, Proxy, start_proxy, until

pytestmark = pytest.mark.unit

AUTHORITY = trustme.CA()
NAMED = ListenerSecurity("OUTSIDE", SecurityProtocol.SSL)
KNOWN = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def server_context(*, requires: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("localhost").configure_cert(context)
    if requires:
        AUTHORITY.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context


class Listener:
    """A proxy whose one listener has TLS, and what it says about clients it closes."""

    def __init__(self, proxy: Proxy, listener_socket: ListenerSocket, refused: list[tuple[str, str]]) -> None:
        self.proxy = proxy
        self.listener_socket = listener_socket
        self.refused = refused

    async def connect(self, context: ssl.SSLContext | None = None) -> Client:
        reader, writer = await asyncio.open_connection(
            self.proxy.host,
            self.proxy.port,
            ssl=context or client_context(),
            server_hostname="localhost",
        )
        return Client(reader, writer)

    async def connect_plainly(self) -> Client:
        return Client(*await asyncio.open_connection(self.proxy.host, self.proxy.port))

    async def why_refused(self, count: int = 1) -> list[str]:
        await until(lambda: len(self.refused) >= count)
        return [reason for _, reason in self.refused]


async def start_listener(monkeypatch: pytest.MonkeyPatch, limits: ProxyLimits, *, requires: bool = False) -> Listener:
    listener_socket = ListenerSocket(NAMED, server_context(requires=requires))
    proxy = await start_proxy(limits, listener_socket=listener_socket)
    refused: list[tuple[str, str]] = []
    note = proxy.server.note_refused

    def noted(host: str, reason: str) -> None:
        refused.append((host, reason))
        note(host, reason)

    acceptor = proxy.server._servers[NAMED.name]
    assert isinstance(acceptor, TlsAcceptor)
    monkeypatch.setattr(acceptor, "_refused", noted)
    return Listener(proxy, listener_socket, refused)


@pytest.fixture
async def listener(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listener]:
    limits = ProxyLimits(pending_connections_max=3, pending_connections_per_host_max=2)
    made = await start_listener(monkeypatch, limits)
    yield made
    await made.proxy.server.stop(1)


@pytest.fixture
async def demanding(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listener]:
    """Client certificates are required."""
    made = await start_listener(monkeypatch, ProxyLimits(), requires=True)
    yield made
    await made.proxy.server.stop(1)


async def is_answered(client: Client) -> bool:
    answer: Any = await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)
    return bool(answer.error_code == 0)


async def test_requests_are_answered_and_no_handshake_is_left(listener: Listener) -> None:
    client = await listener.connect()
    assert await is_answered(client)
    await until(lambda: len(listener.proxy.server.pending) == 0)
    assert listener.proxy.stats.connections == 1
    await client.close()


async def test_clear_text_is_closed_with_a_reason(listener: Listener) -> None:
    client = await listener.connect_plainly()
    client.send_frame(b"clear text of it")
    assert await client.is_closed_by_server()
    assert await listener.why_refused() == ["it does not speak TLS, as this listener does"]
    await client.close()


async def test_tls_at_a_listener_without_it_is_closed_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    proxy = await start_proxy()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(proxy.host, proxy.port, ssl=client_context(), server_hostname="localhost")
    assert "it speaks TLS, and this listener does not" in capsys.readouterr().out
    await proxy.server.stop(1)


async def test_of_handshakes_that_stop_the_oldest_give_way_and_others_are_served(listener: Listener) -> None:
    silent = [await listener.connect_plainly() for _ in range(5)]
    reasons = await listener.why_refused(3)
    assert set(reasons) == {"it has not said who it is, and 2 newer connections from its address have not either"}
    assert all([await one.is_closed_by_server() for one in silent[:3]])
    client = await listener.connect()
    assert await is_answered(client)
    assert len(listener.proxy.server.pending) <= 2
    for one in (*silent, client):
        await one.close()


async def test_a_handshake_that_never_ends_is_closed_in_time() -> None:
    refused: list[str] = []
    loop = asyncio.get_running_loop()
    acceptor = TlsAcceptor(
        loop,
        ListenerSocket(NAMED, server_context()),
        asyncio.Protocol,
        PendingConnections(10, 10),
        lambda host, reason: refused.append(reason),
        handshake_s=0.05,
    )
    host, port = await acceptor.bind("127.0.0.1", 0)
    acceptor.start(BACKLOG)
    reader, writer = await asyncio.open_connection(host, port)
    assert await reader.read(1) == b""
    writer.close()
    await until(lambda: refused == ["its TLS handshake was not done within 0.05 s"])
    await acceptor.close()


async def test_a_client_that_leaves_in_its_handshake_is_forgotten_without_a_line(listener: Listener) -> None:
    client = await listener.connect_plainly()
    await until(lambda: len(listener.proxy.server.pending) == 1)
    await client.close()
    await until(lambda: len(listener.proxy.server.pending) == 0)
    assert listener.refused == []


async def test_a_renewed_certificate_holds_for_later_connections_at_every_address() -> None:
    """The first version of renewal kept only one of the sockets of a name such as localhost."""
    loop = asyncio.get_running_loop()
    listener_socket = ListenerSocket(NAMED, server_context())
    acceptor = TlsAcceptor(
        loop, listener_socket, asyncio.Protocol, PendingConnections(10, 10), lambda host, reason: None
    )
    await acceptor.bind("127.0.0.1", 0)
    await acceptor.bind("127.0.0.2", 0)
    acceptor.start(BACKLOG)
    addresses = [one.getsockname() for one in acceptor._sockets]

    async def serial(address: tuple[str, int]) -> str:
        _, writer = await asyncio.open_connection(*address, ssl=client_context(), server_hostname="localhost")
        certificate: Mapping[str, str] = writer.get_extra_info("peercert")
        writer.close()
        return certificate["serialNumber"]

    before = [await serial(address) for address in addresses]
    listener_socket.context = server_context()
    after = [await serial(address) for address in addresses]
    assert len(before) == 2 and len({*before, *after}) == 2
    await acceptor.close()


async def test_connections_outlive_a_renewal(listener: Listener) -> None:
    client = await listener.connect()
    assert await is_answered(client)
    listener.proxy.server.listener_sockets[NAMED.name].context = server_context()
    assert await is_answered(client)
    other = await listener.connect()
    assert await is_answered(other)
    for one in (client, other):
        await one.close()


async def test_an_address_that_is_taken_is_an_error_and_leaves_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        acceptor = TlsAcceptor(
            asyncio.get_running_loop(),
            ListenerSocket(NAMED, server_context()),
            asyncio.Protocol,
            PendingConnections(1, 1),
            lambda host, reason: None,
        )
        with pytest.raises(OSError, match="in use"):
            await acceptor.bind("127.0.0.1", taken.getsockname()[1])
        assert acceptor._sockets == []


def days(count: int) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=count)


async def refusal(listener: Listener, context: ssl.SSLContext) -> str:
    """What the listener says of a client: the client itself learns it at its first read, with TLS 1.3."""
    try:
        client = await listener.connect(context)
        assert await client.is_closed_by_server()
        await client.close()
    except (ssl.SSLError, ConnectionError):
        pass
    return (await listener.why_refused())[0]


def self_signed() -> ssl.SSLContext:
    """A client whose certificate nobody else has signed: that of an authority of its own."""
    context, own = client_context(), trustme.CA()
    with own.private_key_pem.tempfile() as key, own.cert_pem.tempfile() as certificate:
        context.load_cert_chain(certificate, key)
    return context


@pytest.mark.parametrize(
    ("authority", "host"), [(AUTHORITY, "elsewhere.example"), (trustme.CA(), "localhost")], ids=["host", "authority"]
)
async def test_a_client_that_refuses_our_certificate_is_one_line(
    listener: Listener, authority: trustme.CA, host: str
) -> None:
    """Its host is another than the client came to, or the client does not know who signed it."""
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def connect() -> None:
        with socket.create_connection((listener.proxy.host, listener.proxy.port)) as connection:
            context.wrap_socket(connection, server_hostname=host)

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(connect)
    assert await listener.why_refused() == ["it refuses this listener's certificate"]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # asyncio's client does not close a socket whose handshake failed
@pytest.mark.parametrize(
    ("context", "why"),
    [
        (lambda: client_context(), "it showed no certificate, and ssl.client.auth requires one"),
        (
            lambda: client_context(AUTHORITY.issue_cert("a@b.example", not_after=days(-1))),
            "its certificate is refused: certificate has expired",
        ),
        (
            lambda: client_context(AUTHORITY.issue_cert("a@b.example", not_before=days(1), not_after=days(2))),
            "its certificate is refused: certificate is not yet valid",
        ),
        (
            lambda: client_context(trustme.CA().issue_cert("a@b.example")),
            "its certificate is refused: unable to get local issuer certificate",
        ),
        (self_signed, "its certificate is refused: self-signed certificate"),
    ],
)
async def test_a_client_certificate_that_does_not_hold_is_refused_with_the_reason(
    demanding: Listener, context: Any, why: str
) -> None:
    assert await refusal(demanding, context()) == why
    assert demanding.proxy.stats.connections == 0
    client = await demanding.connect(client_context(AUTHORITY.issue_cert("a@b.example")))
    assert await is_answered(client)
    await client.close()


async def test_a_connection_is_asked_whether_its_client_lives(listener: Listener) -> None:
    client = await listener.connect()
    assert await is_answered(client)
    (connection,) = listener.proxy.server.connections
    assert connection._transport is not None
    made = connection._transport.get_extra_info("socket")
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    await client.close()


async def test_stopping_drops_handshakes(listener: Listener) -> None:
    silent, client = await listener.connect_plainly(), await listener.connect()
    await until(lambda: len(listener.proxy.server.pending) == 1)
    await listener.proxy.server.stop(1)
    assert await silent.is_closed_by_server() and await client.is_closed_by_server()
    assert len(listener.proxy.server.pending) == 0
    for one in (silent, client):
        await one.close()


class Made:
    """An acceptor, and the protocols that it made."""

    def __init__(self, *, allows_plaintext: bool = False, handshake_s: float = 5) -> None:
        self.protocols: list[asyncio.Protocol] = []
        self.refused: list[str] = []
        self.pending = PendingConnections(10, 10)
        self.acceptor = TlsAcceptor(
            asyncio.get_running_loop(),
            ListenerSocket(NAMED, server_context(), allows_plaintext=allows_plaintext),
            self._made,
            self.pending,
            lambda host, reason: self.refused.append(reason),
            handshake_s=handshake_s,
        )

    def _made(self) -> asyncio.Protocol:
        self.protocols.append(asyncio.Protocol())
        return self.protocols[-1]

    async def start(self) -> tuple[str, int]:
        address = await self.acceptor.bind("127.0.0.1", 0)
        self.acceptor.start(BACKLOG)
        return address


def client_hello() -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO, bytes]:
    """A client's TLS with what it reads and writes, and its first record."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return tls, incoming, outgoing, outgoing.read()


@pytest.mark.parametrize("sent", [0, 1, 4, 5, 9, -1], ids=str)
async def test_until_its_first_record_is_whole_a_client_gets_nothing_of_tls(sent: int) -> None:
    made = Made()
    tls, incoming, outgoing, hello = client_hello()
    reader, writer = await asyncio.open_connection(*await made.start())
    writer.write(hello[:sent])
    await until(lambda: len(made.pending) == 1)
    # The next client is accepted behind the first, and goes through: what the first one sent has been looked at.
    _, other = await asyncio.open_connection(
        *writer.get_extra_info("peername"), ssl=client_context(), server_hostname="localhost"
    )
    await until(lambda: len(made.pending) == 1)
    assert len(made.protocols) == 1
    writer.write(hello[sent:])
    incoming.write(await reader.read(2**16))
    tls.do_handshake()
    writer.write(outgoing.read())
    await until(lambda: len(made.pending) == 0)
    assert len(made.protocols) == 2 and made.refused == []
    for one in (writer, other):
        one.close()
    await made.acceptor.close()


@pytest.mark.parametrize("sent", [0, 3, 9], ids=str)
async def test_a_client_that_leaves_before_its_first_record_is_whole_is_forgotten(sent: int) -> None:
    made = Made()
    _, writer = await asyncio.open_connection(*await made.start())
    await until(lambda: len(made.pending) == 1)
    writer.write(client_hello()[3][:sent])
    writer.close()
    await until(lambda: len(made.pending) == 0)
    assert made.refused == []
    await made.acceptor.close()


@pytest.mark.parametrize("sent", [0, 9], ids=str)
async def test_a_client_that_is_closed_before_its_handshake_leaves_nothing_to_the_garbage_collector(sent: int) -> None:
    made = Made()
    address, hello = await made.start(), client_hello()[3]
    with left_in_circles() as circles:
        clients = [await asyncio.open_connection(*address) for _ in range(15)]
        for _, writer in clients:
            writer.write(hello[:sent])
        for reader, _ in clients[:5]:  # ten may stay
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read(1) == b""
        await until(lambda: len(made.pending) == 10)
        assert len(made.refused) == 5
    assert circles == []
    for _, writer in clients:
        writer.close()
    await made.acceptor.close()


async def test_handshakes_begin_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    address = await made.start()
    turn, begun = 0, list[int]()
    shake_hands = made.acceptor.shake_hands
    loop = asyncio.get_running_loop()

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if len(begun) < 8:
            loop.call_soon(next_turn)

    async def noted(accepted: socket.socket, host: str, first: bytes, left_s: float) -> None:
        begun.append(turn)
        await shake_hands(accepted, host, first, left_s)

    monkeypatch.setattr(made.acceptor, "shake_hands", noted)
    clients = [await asyncio.open_connection(*address) for _ in range(8)]
    await until(lambda: len(made.pending) == 8)
    loop.call_soon(next_turn)
    for _, writer in clients:  # all of them in one turn
        writer.write(client_hello()[3])
    for reader, _ in clients:
        assert (await reader.read(1)) == b"\x16"
    assert len(begun) == 8 and len(set(begun)) == 8, "one in each turn"
    for _, writer in clients:
        writer.close()
    await until(lambda: len(made.pending) == 0)
    await made.acceptor.close()


async def test_the_listeners_of_a_server_share_the_turns() -> None:
    proxy = await start_proxy(listener_socket=ListenerSocket(NAMED, server_context()))
    other = ListenerSecurity("INSIDE", SecurityProtocol.SSL)
    await proxy.server.bind("127.0.0.1", 0, ListenerSocket(other, server_context()))
    first, second = (proxy.server._servers[one.name] for one in (NAMED, other))
    assert isinstance(first, TlsAcceptor) and isinstance(second, TlsAcceptor)
    assert first.turns is second.turns
    await proxy.server.stop(0)


async def test_a_client_that_waits_for_its_turn_can_be_closed() -> None:
    made = Made()
    address = await made.start()
    reader, writer = await asyncio.open_connection(*address)
    await until(lambda: len(made.pending) == 1)
    (handshake,) = made.acceptor._handshakes
    handshake._has_come(b"\x16")
    assert len(made.acceptor.turns) == 1
    handshake.drop()
    assert len(made.acceptor.turns) == 0 == len(made.pending)
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read(1) == b""
    assert made.protocols == []
    writer.close()
    await made.acceptor.close()


async def test_a_client_that_stops_in_its_first_record_is_closed_in_time() -> None:
    made = Made(handshake_s=0.05)
    reader, writer = await asyncio.open_connection(*await made.start())
    writer.write(client_hello()[3][:9])
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read(1) == b""
    await until(lambda: made.refused == ["its TLS handshake was not done within 0.05 s"])
    assert made.protocols == [] and len(made.pending) == 0
    writer.close()
    await made.acceptor.close()


async def test_without_a_descriptor_for_a_client_it_is_accepted_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class WithoutDescriptors(socket.socket):
        failures = 1

        def accept(self) -> Any:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(tls_acceptor, "ACCEPT_RETRY_S", 0.001)
    made = Made()
    bound = WithoutDescriptors()
    bound.bind(("127.0.0.1", 0))
    made.acceptor.take(bound)
    made.acceptor.start(BACKLOG)
    _, writer = await asyncio.open_connection(*bound.getsockname(), ssl=client_context(), server_hostname="localhost")
    assert "accept_failed" in capsys.readouterr().out
    writer.close()
    await made.acceptor.close()


@pytest.mark.parametrize(
    ("sent", "reason"), [(0, "it sent nothing within 5 s"), (9, "its TLS handshake was not done within 5 s")]
)
async def test_a_listener_of_plain_text_too_tells_clients_that_began_tls(
    sent: int, reason: str, loop_time: LoopTime
) -> None:
    made = Made(allows_plaintext=True, handshake_s=5)
    _, writer = await asyncio.open_connection(*await made.start())
    writer.write(client_hello()[3][:sent])
    await until(lambda: len(made.pending) == 1)
    # As above: what the first one sent has been looked at.
    _, other = await asyncio.open_connection(
        *writer.get_extra_info("peername"), ssl=client_context(), server_hostname="localhost"
    )
    await until(lambda: len(made.pending) == 1)
    await loop_time.pass_s(5)
    assert made.refused == [reason] and len(made.pending) == 0
    for one in (writer, other):
        one.close()
    await made.acceptor.close()
