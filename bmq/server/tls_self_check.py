"""Whether clients can accept a listener's own certificate: a handshake with it, in memory.

Apache Kafka does the same before it takes a new certificate (SslFactory.SslEngineValidator).
"""

from __future__ import annotations

import re
import ssl
from typing import Final

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_TURNS_MAX: Final = 8
"""Of both sides; a handshake takes three."""
_ASKS_FOR_OURS: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"


def certificate_fault(context: ssl.SSLContext, pem: str) -> str:
    """Why clients will refuse the first certificate of `pem`, which `context` shows; empty: they need not.

    Its authority and its names are not looked at: only clients know what they trust, and by which name they come.
    """
    found = _CERTIFICATE.search(pem)
    if found is None:
        return "there is no certificate"
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it is trusted itself, without its authority
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.load_verify_locations(cadata=found[0])
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
                return error.verify_message
            except ssl.SSLError as error:
                if error.reason == _ASKS_FOR_OURS:
                    return ""  # the client has accepted it by then
                return (error.reason or "the handshake fails").replace("_", " ").lower()
            if side is sides[0]:
                return ""
    return "the handshake does not end"
