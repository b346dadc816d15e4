"""Every API on every kind of listener: those of nodes are unknown to clients, and those of clients to nodes."""

from __future__ import annotations

import asyncio
import ssl
import struct
from pathlib import Path

import pytest
import structlog

from bmq.internode_server.handlers import load_all
from bmq.protocol.apis import ALL_APIS, APIS, INTERNAL_APIS, ApiKey
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.sasl_logins import SaslLogins
from bmq.security.listener_security import ListenerSecurity, SecurityProtocol
from bmq.server.internode_tls import InternodeTls
from bmq.server.settings import Settings
from tests.fakes.clock import FakeClock
from tests.support.gate_share import few_in_gate
from tests.support.node_pki import HERE, NodePki
from tests.unit.internode_server.internal_node import InternalNode, start_internal_node
from tests.unit.proxy.harness import Client, Proxy, start_proxy
from tests.unit.proxy.test_authentication import Threads

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

OF_NODES_ALONE = sorted(INTERNAL_APIS.keys() - APIS.keys())
OF_CLIENTS_ALONE = sorted(APIS.keys() - INTERNAL_APIS.keys())
USERS = {"admin": "secret"}


def test_each_api_is_of_nodes_or_of_clients_and_few_are_of_both() -> None:
    assert ALL_APIS.keys() == APIS.keys() | INTERNAL_APIS.keys()
    both = {ApiKey.PRODUCE, ApiKey.DESCRIBE_PRODUCERS, ApiKey.API_VERSIONS, ApiKey.WRITE_TXN_MARKERS}
    assert APIS.keys() & INTERNAL_APIS.keys() == both
    assert {key for key in ApiKey if key >= 20_000} <= set(OF_NODES_ALONE)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> NodePki:
    return NodePki(tmp_path_factory.mktemp("pki") / "ca")


async def assert_unknown(target: Proxy | InternalNode, client: Client, api_key: ApiKey) -> None:
    with structlog.testing.capture_logs() as lines:
        for version in sorted({0, ALL_APIS[api_key].version_max}):
            client.send_frame(struct.pack(">hhihb", api_key, version, 1, -1, 0))
        assert await client.is_closed_by_server()
    assert [(line["event"], line.get("reason")) for line in lines] == [
        ("connection_closed", f"API {int(api_key)} is not served")
    ]
    assert target.server.stats.requests[api_key] == 0
    await client.close()
    await target.server.stop(0)
    await asyncio.sleep(0)


@pytest.mark.parametrize("protocol", SecurityProtocol)
@few_in_gate("api_key", OF_NODES_ALONE, every=5, others=in_campaign)
async def test_clients_know_no_api_of_nodes(api_key: ApiKey, protocol: SecurityProtocol, pki: NodePki) -> None:
    """Even to a client that has logged in, or shows the certificate of a node."""
    load_all()
    mechanisms = frozenset({"PLAIN"}) if protocol.is_sasl else frozenset[str]()
    security = ListenerSecurity(
        "OUTSIDE", protocol, mechanisms, jaas_users=USERS if protocol.is_sasl else dict[str, str]()
    )
    listener_socket = ListenerSocket(security, server_context(pki.node(), pki.ca_file) if protocol.is_tls else None)
    proxy = await start_proxy(
        listener_socket=listener_socket,
        logins=lambda controller: SaslLogins(lambda: controller.image, FakeClock(), Threads().run, failure_delay_ms=0),
    )
    shown = client_context(pki.node(), pki.ca_file) if protocol.is_tls else None
    client = Client(*await asyncio.open_connection(proxy.host, proxy.port, ssl=shown, server_hostname=shown and HERE))
    if protocol.is_sasl:
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        proof = SaslAuthenticateRequest(auth_bytes=b"\0admin\0secret")
        assert (await client.ask(ApiKey.SASL_AUTHENTICATE, 2, proof)).error_code == 0
    await assert_unknown(proxy, client, api_key)


@pytest.mark.parametrize("is_tls", [False, True])
@few_in_gate("api_key", OF_CLIENTS_ALONE, every=5, others=in_campaign)
async def test_nodes_know_no_api_of_clients(api_key: ApiKey, is_tls: bool, pki: NodePki) -> None:
    """Even to a peer that has proven to be a node: clients' requests come in an Envelope."""
    load_all()
    certificate, ca = pki.node(), pki.ca_file
    files = {"certificate_file": str(certificate), "ca_file": str(ca)}
    listener_socket = InternodeTls(Settings(internode_security=files)).listener_socket() if is_tls else None
    node = await start_internal_node(listener_socket=listener_socket)
    shown = client_context(certificate, ca) if is_tls else None
    client = Client(*await asyncio.open_connection(node.host, node.port, ssl=shown, server_hostname=shown and HERE))
    await assert_unknown(node, client, api_key)


def server_context(certificate: Path, ca: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(certificate: Path, ca: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(certificate)
    context.load_verify_locations(ca)
    return context
