"""One way in: a listening socket, its protocol, what its clients are called, and the services behind it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bmq.protocol.request_context import ANONYMOUS
from bmq.proxy.services import Services
from bmq.security.handshake_failures import handshake_failure
from bmq.security.listener_security import ListenerSecurity

TLS_HANDSHAKE_S: Final = 10.0
"""A client whose handshake takes longer is dropped: until then it costs memory and a descriptor."""

Subject = tuple[tuple[tuple[str, str], ...], ...]
Certificate = Mapping[str, object]
"""As ssl.SSLSocket.getpeercert describes it."""


@dataclass(slots=True)
class Entrance:
    """`security`: what is demanded of clients. `context`: the TLS of the listener; None: none. `principal_of`: the principal of
    a client certificate's subject. `services`: set before connections are accepted. `allows_plaintext`: clients that do not
    begin with TLS are served without. `why_refused`: why a peer with this certificate (None: without one) may not stay;
    empty: it may. `failure`: what is said of a failed handshake, by OpenSSL's reason and what is wrong with the certificate.
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
    """The subject of what ssl calls a peer certificate; None: the client showed none."""
    if not certificate:
        return None
    subject = certificate.get("subject", ())
    return subject if isinstance(subject, tuple) else None
