"""Whether clients can accept a listener's own certificate: a handshake with it, in memory.

Apache Kafka does the same before it takes a new certificate (SslFactory.SslEngineValidator).
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any, Final

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_TURNS_MAX: Final = 8
"""Of both sides; a handshake takes three."""
_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which the module ssl has no name for."""
_ASKS_FOR_OURS: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"


def certificate_fault(context: ssl.SSLContext, pem: str) -> str:
    """Why clients will refuse the first certificate of `pem`, which `context` shows; empty if they will not.

    Its authority and its names are not checked: only clients know whom they trust and by which name they connect.
    """
    found = _CERTIFICATE.search(pem)
    if found is None:
        return "there is no certificate"
    return _handshake(_client(found[0]), context)[0]


def shown_certificate(context: ssl.SSLContext, pem: str) -> Mapping[str, Any]:
    """The first certificate of `pem`, which `context` shows, as ssl.SSLSocket.getpeercert has it. It may be expired or not
    valid yet.

    Empty if no handshake succeeds. `context` may not be in use: it requests no client certificate meanwhile.
    """
    found = _CERTIFICATE.search(pem)
    if found is None:
        return {}
    client = _client(found[0])
    client.verify_flags |= _NO_CHECK_TIME
    asks, context.verify_mode = context.verify_mode, ssl.CERT_NONE
    try:
        return _handshake(client, context)[1]
    finally:
        context.verify_mode = asks


def _client(certificate: str) -> ssl.SSLContext:
    """A client context that trusts this certificate itself, without its authority."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.load_verify_locations(cadata=certificate)
    return client


def _handshake(client: ssl.SSLContext, context: ssl.SSLContext) -> tuple[str, Mapping[str, Any]]:
    """Why the client refuses `context`, empty if it does not; and the certificate that it received."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server),
        context.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_TURNS_MAX):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message, {}
            except ssl.SSLError as error:
                if error.reason == _ASKS_FOR_OURS:
                    return "", {}  # the client has accepted it by then
                return (error.reason or "the handshake fails").replace("_", " ").lower(), {}
            if side is sides[0]:
                return "", side.getpeercert() or {}
    return "the handshake does not end", {}
