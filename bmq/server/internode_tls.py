"""TLS between nodes: contexts for both sides from the same files, tested by a handshake in memory before they are used.

A node uses one certificate to accept connections and to make them. Each side verifies the other's certificate: an authority
of `ca_file` has to have issued it, and it has to be a node's. For a connection that a node makes, it also has to name the
address.
"""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from bmq.internode_client.link_tls import LinkTls
from bmq.proxy.listener_socket import ListenerSocket
from bmq.security.handshake_failures import node_accept_failure, node_dial_failure
from bmq.security.internode import NO_NODE, TABLE, InternodeMode, WrongInternodeSecurity, is_loopback, why_no_node
from bmq.security.listener_security import ListenerSecurity, SecurityProtocol
from bmq.security.node_certificates import node_of
from bmq.server.served_certificate import RenewedFiles, watch
from bmq.server.settings import Settings, split_address
from bmq.server.tls import VERSIONS, TlsFiles, WrongTls, make_context

_log = structlog.get_logger("bmq.server")

INTERNAL: Final = "INTERNAL"
_TURNS_MAX: Final = 8
"""Of both sides; a handshake takes three."""


class WrongInternodeTls(WrongTls):
    """Nodes cannot connect with these settings; the message is one sentence."""


def mode_of(settings: Settings) -> InternodeMode:
    """The mode in force. Raises WrongInternodeTls."""
    try:
        return settings.internode_security.mode_at((settings.internal, settings.internal_advertised))
    except WrongInternodeSecurity as error:
        raise WrongInternodeTls(f"setting {error}" if str(error).startswith(TABLE) else str(error)) from None


class InternodeTls:
    """`listener_socket` is for the listener, `link` for connections to other nodes. `watch` runs until cancelled.

    Raises WrongInternodeTls when it is made.
    """

    def __init__(self, settings: Settings) -> None:
        self.mode = mode_of(settings)
        self._address = settings.internal_advertised or settings.internal
        self._host = split_address(self._address)[0]
        self._is_reached = not (is_loopback(self._address) and is_loopback(settings.internal))
        self._server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        self._listener_socket: ListenerSocket | None = None
        self.files: RenewedFiles[tuple[ssl.SSLContext, ssl.SSLContext]] | None = None
        if self.mode.has_tls:
            security = settings.internode_security
            files = TlsFiles(INTERNAL, Path(security.certificate_file), Path(security.ca_file), client_auth="required")
            self.files = RenewedFiles(files, self._contexts, self._take)
            self._take(self._contexts(files))

    def listener_socket(self) -> ListenerSocket:
        """The socket that accepts other nodes."""
        if self._server is None:
            return ListenerSocket()
        allows_plaintext = self.mode is InternodeMode.MIXED
        self._listener_socket = ListenerSocket(
            ListenerSecurity(INTERNAL, SecurityProtocol.SSL),
            self._server,
            allows_plaintext=allows_plaintext,
            why_refused=partial(why_no_node, allows_plaintext=allows_plaintext),
            failure=node_accept_failure,
        )
        return self._listener_socket

    def link(self) -> LinkTls | None:
        """The TLS for connections that are made from now on; None: plaintext."""
        if self._client is None:
            return None
        return LinkTls(self._client, falls_back=self.mode is InternodeMode.MIXED)

    async def watch(self) -> None:
        """Reload files when they change, for later connections. If they are unusable, the old ones stay in force."""
        if self.files is not None:
            await watch([self.files])

    def _take(self, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        self._server, self._client = contexts
        if self._listener_socket is not None:
            self._listener_socket.context = self._server

    def _contexts(self, files: TlsFiles) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """The contexts of the server side and of the client side. Raises WrongInternodeTls."""
        try:
            server, client = make_context(files), _client_context(files)
        except WrongTls as error:
            raise WrongInternodeTls(_in_our_words(str(error))) from None
        if fault := own_fault(server, client, self._host):
            raise WrongInternodeTls(f"other nodes will refuse the certificate of {files.keystore}: {fault}")
        return server, client

    def warn(self) -> None:
        """Warn at the start that other nodes may connect in plaintext. Loopback addresses need no warning."""
        if self.mode is InternodeMode.MIXED:
            why = f"nodes without TLS are still believed: set {TABLE}.mode = tls once every node has its certificate"
        elif self.mode is InternodeMode.PLAINTEXT and self._is_reached:
            why = "nothing is encrypted, and every machine that reaches this address may act as a node for any client"
        else:
            return
        _log.warning("internode_is_open", listener=INTERNAL, address=self._address, why=why)


def own_fault(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Why other nodes will refuse these contexts, as one sentence; empty if they will not. Tested by a handshake in memory,
    in which this node connects to itself at `host`.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = client.wrap_bio(to_client, to_server, server_hostname=host)
    accepting = server.wrap_bio(to_server, to_client, server_side=True)
    left = [dialling, accepting]
    for _ in range(_TURNS_MAX):
        for side in tuple(left):
            failure = node_dial_failure if side is dialling else node_accept_failure
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return failure(error.reason, getattr(error, "verify_message", ""))
            left.remove(side)
        if not left:
            return "" if node_of(dialling.getpeercert()) else NO_NODE
    return "the handshake does not end"


def _client_context(files: TlsFiles) -> ssl.SSLContext:
    """The context for connections to other nodes, from files that `make_context` has read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the certificate and its host
    context.minimum_version = min(VERSIONS.values())
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.load_cert_chain(str(files.keystore), password="")
    context.load_verify_locations(cafile=str(files.truststore))
    return context


def _in_our_words(sentence: str) -> str:
    """OpenSSL's message without the settings of client listeners."""
    return sentence.replace(
        "the private key is encrypted: set ssl.key.password, or check it",
        "the private key is encrypted, and has to be in clear",
    )
