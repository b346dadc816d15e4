"""TLS between nodes on real loopback sockets, under asyncio and uvloop: who is let in, from both sides, and what is said."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop

from bmq.internode_client.link import Link, LinkLost, LinkNotEncrypted
from bmq.internode_client.link_tls import LinkTls
from bmq.internode_client.links import Links
from bmq.protocol.apis import APIS, INTERNAL_APIS, ApiKey
from bmq.protocol.messages.envelope_request import EnvelopeRequest
from bmq.proxy.limits import BETWEEN_NODES
from bmq.proxy.listener_socket import ListenerSocket
from bmq.server.internode_tls import INTERNAL, InternodeTls, WrongInternodeTls
from bmq.server.node_process import _check
from bmq.server.settings import Settings
from tests.support.gate_share import few_in_gate
from tests.support.node_pki import HERE, NodePki
from tests.unit.internode_server.internal_node import InternalNode, start_internal_node
from tests.unit.proxy.harness import Client, until

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

TIMEOUT_S = 60.0


@pytest.fixture(scope="session")
def shared_pki(tmp_path_factory: pytest.TempPathFactory) -> NodePki:
    made = NodePki(tmp_path_factory.mktemp("pki") / "ca")
    made.node()
    return made


@pytest.fixture
def pki(shared_pki: NodePki) -> NodePki:
    return shared_pki


@pytest.fixture
def other_pki(tmp_path: Path) -> NodePki:
    return NodePki(tmp_path / "other")


def tls_of(certificate: Path, ca: Path, mode: str = "tls") -> InternodeTls:
    files = {"certificate_file": str(certificate), "ca_file": str(ca)}
    return InternodeTls(Settings(internal=f"{HERE}:9093", internode_security={"mode": mode, **files}))


def unchecked(certificate: Path | None, ca: Path) -> ssl.SSLContext:
    """What somebody who does not care shows, on either side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(ca)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def unchecked_server(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


Start = Callable[..., Awaitable[InternalNode]]


@asynccontextmanager
async def starting() -> AsyncIterator[Start]:
    nodes: list[InternalNode] = []

    async def start_one(listener_socket: ListenerSocket | None) -> InternalNode:
        nodes.append(await start_internal_node(replace(BETWEEN_NODES), listener_socket=listener_socket))
        return nodes[-1]

    try:
        yield start_one
    finally:
        for node in nodes:
            await node.stop()


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with starting() as made:
        yield made


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as found:
        yield found


def reasons(lines: list[Any], event: str) -> list[str]:
    return [str(line["reason"]) for line in lines if line["event"] == event]


async def works(link: Link) -> bool:
    response = await link.call(ApiKey.ENVELOPE, EnvelopeRequest(request_data=b"none"), timeout_s=TIMEOUT_S)
    return bool(response.error_code)


async def test_two_nodes_of_one_authority_talk(start: Start, pki: NodePki, lines: list[Any]) -> None:
    tls = tls_of(pki.node(), pki.ca_file)
    node = await start(tls.listener_socket())
    link = await node.link(tls.link())
    assert await works(link)
    assert link._transport is not None
    assert link._transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert lines == []


def strangers(pki: NodePki, other: NodePki) -> dict[str, tuple[Path | None, str]]:
    """By what they show: the certificate, and what the node says of it."""
    return {
        "another authority": (other.node(), "has to be issued by an authority of internode_security.ca_file"),
        "expired": (pki.expired(), "certificate has expired; issue it anew"),
        "not yet valid": (pki.not_yet_valid(), "certificate is not yet valid; issue it anew"),
        "a client's": (pki.client(), "its certificate is of no node: `bmq cluster ca issue` makes one"),
        "self-signed": (pki.self_signed(), "self-signed certificate; it has to be issued by an authority"),
        "for servers alone": (pki.for_one_side(is_client=False), "it is no node's: issue one by"),
        "none": (None, "it showed no certificate, and only nodes may connect here"),
    }


NAMES = ("another authority", "expired", "not yet valid", "a client's", "self-signed", "for servers alone", "none")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["tls", "mixed"])
async def test_a_peer_that_is_no_node_is_refused_with_one_line(
    start: Start, pki: NodePki, other_pki: NodePki, lines: list[Any], name: str, mode: str
) -> None:
    certificate, why = strangers(pki, other_pki)[name]
    node = await start(tls_of(pki.node(), pki.ca_file, mode).listener_socket())
    with pytest.raises(LinkNotEncrypted):
        await node.link(LinkTls(unchecked(certificate, pki.ca_file)))
    await until(lambda: bool(reasons(lines, "connection_closed")))
    (reason,) = reasons(lines, "connection_closed")
    assert why in reason
    assert node.server.stats.requests.total() == 0


@pytest.mark.parametrize("name", [*NAMES[:-2], "for clients alone", "another host's"])
async def test_a_node_is_not_reached_through_a_stranger(
    start: Start, pki: NodePki, other_pki: NodePki, name: str
) -> None:
    found = strangers(pki, other_pki) | {
        "for clients alone": (pki.for_one_side(is_client=True), "it is no node's: issue one by"),
        "another host's": (
            pki.node("elsewhere", "elsewhere.example"),
            "issue it for the address that others connect to",
        ),
    }
    certificate, why = found[name]
    assert certificate is not None
    node = await start(ListenerSocket(context=unchecked_server(certificate)))
    with pytest.raises(LinkNotEncrypted) as caught:
        await node.link(tls_of(pki.node(), pki.ca_file).link())
    assert why in str(caught.value)
    assert node.server.stats.requests.total() == 0


@few_in_gate("api_key", sorted(set(APIS) | set(INTERNAL_APIS)), every=5, others=in_campaign)
async def test_no_api_is_answered_to_a_client_of_the_same_authority(
    start: Start, pki: NodePki, api_key: ApiKey
) -> None:
    """Its request comes in one piece with the end of the handshake, before the node has looked at its certificate."""
    node = await start(tls_of(pki.node(), pki.ca_file).listener_socket())
    version = {**APIS, **INTERNAL_APIS}[api_key].version_max
    frame = struct.pack(">hhihb", api_key, version, 1, -1, 0)
    reader, writer = await asyncio.open_connection(node.host, node.port)
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = unchecked(pki.client(), pki.ca_file).wrap_bio(received, to_send, server_hostname=HERE)
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(to_send.read())
            received.write(await reader.read(65_536))
    client.write(len(frame).to_bytes(4, "big") + frame)
    writer.write(to_send.read())
    assert await ended(reader)
    writer.close()
    await node.server.stop(TIMEOUT_S)
    assert node.server.stats.requests.total() == 0


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        while await reader.read(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


async def test_clear_text_is_refused_by_tls_alone(start: Start, pki: NodePki, lines: list[Any]) -> None:
    node = await start(tls_of(pki.node(), pki.ca_file).listener_socket())
    with pytest.raises(LinkLost):
        await node.link()
    await until(lambda: bool(reasons(lines, "connection_closed")))
    assert "it does not speak TLS, as nodes do here" in reasons(lines, "connection_closed")[0]
    mixed = await start(tls_of(pki.node(), pki.ca_file, "mixed").listener_socket())
    assert await works(await mixed.link())
    assert await works(await mixed.link(tls_of(pki.node(), pki.ca_file).link()))


async def test_a_node_without_tls_is_refused_by_tls_and_reached_by_mixed(
    start: Start, pki: NodePki, lines: list[Any]
) -> None:
    node = await start(None)
    with pytest.raises(LinkNotEncrypted):
        await node.link(tls_of(pki.node(), pki.ca_file).link())
    links = Links("node-2", lambda _: (node.host, node.port), tls=tls_of(pki.node(), pki.ca_file, "mixed").link)
    assert await works(await links.link(1))
    (told,) = [line for line in lines if line["event"] == "link_not_encrypted"]
    assert (told["node_id"], told["log_level"]) == (1, "warning")
    await links.close()
    never = Links("node-2", lambda _: (node.host, node.port), tls=tls_of(pki.node(), pki.ca_file).link)
    with pytest.raises(LinkLost):
        await never.link(1)
    assert reasons(lines, "link_not_opened")
    await never.close()


async def test_mixed_reaches_a_node_that_refuses_its_certificate(
    start: Start, pki: NodePki, other_pki: NodePki, lines: list[Any]
) -> None:
    """While a cluster changes, a wrong certificate is a line in the log, and no outage."""
    node = await start(tls_of(other_pki.node(), other_pki.ca_file, "mixed").listener_socket())
    links = Links("node-2", lambda _: (node.host, node.port), tls=tls_of(pki.node(), pki.ca_file, "mixed").link)
    assert await works(await links.link(1))
    assert reasons(lines, "link_not_encrypted")
    await links.close()


async def test_a_peer_that_says_nothing_is_dropped_by_mixed(pki: NodePki, start: Start, lines: list[Any]) -> None:
    node = await start(tls_of(pki.node(), pki.ca_file, "mixed").listener_socket())
    acceptor: Any = node.server._servers[INTERNAL]
    acceptor._handshake_s = 0.02
    client = Client(*await asyncio.open_connection(node.host, node.port))
    assert await client.is_closed_by_server()
    assert reasons(lines, "connection_closed") == ["it sent nothing within 0.02 s"]
    await client.close()
    leaving = Client(*await asyncio.open_connection(node.host, node.port))
    await leaving.close()
    await until(lambda: not acceptor._handshakes)
    assert reasons(lines, "connection_closed") == ["it sent nothing within 0.02 s"]


async def test_certificate_and_trust_are_replaced_and_links_stay(
    start: Start, tmp_path: Path, other_pki: NodePki, lines: list[Any]
) -> None:
    pki = NodePki(tmp_path / "own")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(pki.ca_file.read_bytes())
    certificate = tmp_path / "node.pem"

    def show(path: Path) -> None:
        made = tmp_path / "new.pem"
        made.write_bytes(path.read_bytes())
        made.chmod(0o600)
        made.replace(certificate)

    show(pki.node())
    tls = tls_of(certificate, trusted)
    node = await start(tls.listener_socket())
    first = await node.link(tls.link())
    files: Any = tls.files

    show(other_pki.node())  # its authority is not trusted yet: no other node would take it
    await files.renew()
    (reason,) = reasons(lines, "certificate_not_renewed")
    assert "other nodes will refuse the certificate" in reason
    assert await works(await node.link(tls.link()))

    trusted.write_bytes(pki.ca_file.read_bytes() + other_pki.ca_file.read_bytes())
    await files.renew()
    assert [line["event"] for line in lines].count("certificate_renewed") == 1
    second = await node.link(tls.link())
    assert second._transport is not None
    shown = dict(x[0] for x in second._transport.get_extra_info("peercert")["issuer"])
    assert shown["commonName"] == "authority other"
    assert await works(await node.link(tls_of(pki.node(), trusted).link()))  # not renewed yet, and believed

    trusted.write_bytes(other_pki.ca_file.read_bytes())
    await files.renew()
    with pytest.raises(LinkNotEncrypted):
        await node.link(tls_of(pki.node(), pki.ca_file).link())
    assert await works(first)
    assert await works(second)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("expired", "certificate has expired"),
        ("a client's", "is of no node"),
        ("self-signed", "internode_security.ca_file"),
        ("another authority", "internode_security.ca_file"),
        ("for servers alone", "it is no node's"),
        ("another host's", "issue it for the address"),
        ("missing", "does not exist or is not a file"),
        ("open", "chmod 0600"),
        ("text", "lacks a private key"),
    ],
)
def test_a_node_does_not_start_with_what_others_refuse(
    pki: NodePki, other_pki: NodePki, tmp_path: Path, name: str, why: str
) -> None:
    text, readable = tmp_path / "text.pem", tmp_path / "open.pem"
    text.write_text("no PEM")
    text.chmod(0o600)
    readable.write_bytes(pki.node().read_bytes())
    readable.chmod(0o644)
    found = strangers(pki, other_pki) | {
        "another host's": (pki.node("elsewhere", "elsewhere.example"), ""),
        "missing": (tmp_path / "none.pem", ""),
        "open": (readable, ""),
        "text": (text, ""),
    }
    certificate, _ = found[name]
    assert certificate is not None
    with pytest.raises(WrongInternodeTls, match=why) as caught:
        tls_of(certificate, pki.ca_file)
    assert "\n" not in str(caught.value)


def test_what_is_open_is_said_at_each_start(pki: NodePki, lines: list[Any]) -> None:
    files = {"certificate_file": str(pki.node()), "ca_file": str(pki.ca_file)}
    quiet: list[dict[str, Any]] = [
        {"internal": f"{HERE}:9093"},
        {"internal": f"{HERE}:9093", "internode_security": {"mode": "plaintext"}},
        {"internal": f"{HERE}:9093", "internode_security": files},
    ]
    for settings in quiet:
        InternodeTls(Settings(**settings)).warn()
    assert lines == []
    loud: list[dict[str, Any]] = [
        {"internal": "10.0.0.1:9093", "internode_security": {"mode": "plaintext"}},
        {"internal": f"{HERE}:9093", "internode_security": {"mode": "mixed", **files}},
    ]
    for settings in loud:
        InternodeTls(Settings(**settings)).warn()
    assert [line["event"] for line in lines] == ["internode_is_open"] * 2
    with pytest.raises(WrongInternodeTls, match="plaintext if the network is closed"):
        InternodeTls(Settings(internal="10.0.0.1:9093"))


def test_a_node_that_is_open_beyond_its_machine_is_not_even_begun() -> None:
    given: dict[str, Any] = {"store": "hdfs://namenode:8020/bmq", "zookeeper": "zk:2181", "internal": "10.0.0.1:9093"}
    with pytest.raises(WrongInternodeTls, match="plaintext if the network is closed"):
        _check(Settings(**given))
    _check(Settings(**given, internode_security={"mode": "plaintext"}))
    _check(Settings(**{**given, "internal": f"{HERE}:9093"}))


@pytest.mark.parametrize(
    "scenario",
    [
        test_two_nodes_of_one_authority_talk,
        *(partial(test_a_peer_that_is_no_node_is_refused_with_one_line, name=name, mode="tls") for name in NAMES),
        *(partial(test_a_node_is_not_reached_through_a_stranger, name=name) for name in NAMES[:-2]),
        *(
            partial(test_no_api_is_answered_to_a_client_of_the_same_authority, api_key=api_key)
            for api_key in (ApiKey.ENVELOPE, ApiKey.PRODUCE, ApiKey.API_VERSIONS)
        ),
        test_clear_text_is_refused_by_tls_alone,
        test_a_node_without_tls_is_refused_by_tls_and_reached_by_mixed,
        test_mixed_reaches_a_node_that_refuses_its_certificate,
        test_a_peer_that_says_nothing_is_dropped_by_mixed,
        test_certificate_and_trust_are_replaced_and_links_stay,
    ],
)
def test_it_is_the_same_on_uvloop(
    scenario: Callable[..., Awaitable[None]], pki: NodePki, other_pki: NodePki, lines: list[Any], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"pki": pki, "other_pki": other_pki, "lines": lines, "tmp_path": tmp_path}

    async def run() -> None:
        async with starting() as start:
            wanted = signature(scenario).parameters
            await scenario(start=start, **{name: value for name, value in given.items() if name in wanted})

    uvloop.run(run())
