"""One listening socket of a server: its TLS, what it demands of clients, how they are named, and the services behind it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.request_context import ANONYMOUS
from bmq.proxy.services import Services
from bmq.security.handshake_failures import handshake_failure
from bmq.security.listener_security import ListenerSecurity

TLS_HANDSHAKE_S: Final = 10.0
"""Longest TLS handshake; a slower client is dropped, because it costs memory and a descriptor."""

Subject = tuple[tuple[tuple[str, str], ...], ...]
Certificate = Mapping[str, object]
"""A client's certificate, as ssl.SSLSocket.getpeercert returns it."""


@dataclass(slots=True)
class ListenerSocket:
    """The TLS and the principals of one listening socket.

    `security`: what the listener demands of clients. `context`: its TLS context; None without TLS. `principal_of`: returns the
    principal of a client certificate's subject. `services`: set before connections are accepted. `allows_plaintext`: clients that
    do not begin with TLS are served without it. `why_refused`: says why a peer with this certificate (None: without one) is
    refused; empty if it is not. `failure`: the message for a failed handshake, by OpenSSL's reason and the fault of the
    certificate.
    """

    security: ListenerSecurity = field(default_factory=ListenerSecurity)
    context: ssl.SSLContext | None = None
    principal_of: Callable[[Subject], str] = lambda subject: ANONYMOUS
    services: Services | None = None
    allows_plaintext: bool = False
    why_refused: Callable[[Certificate | None], str] = lambda certificate: ""
    failure: Callable[[str | None, str], str] = handshake_failure

    @property
    def name(self) -> str:
        return self.security.name

    @property
    def is_tls(self) -> bool:
        return self.context is not None


def subject_of(certificate: Certificate | None) -> Subject | None:
    """The subject of a peer certificate; None if the client sent no certificate."""
    if not certificate:
        return None
    subject = certificate.get("subject", ())
    return subject if isinstance(subject, tuple) else None
