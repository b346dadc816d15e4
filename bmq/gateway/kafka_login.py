"""A client's side of Kafka's logins: PLAIN (RFC 4616), SCRAM (RFC 5802), OAUTHBEARER (RFC 7628). Pure.

Only share groups need it: librdkafka logs in by itself.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Generator
from typing import Final

from bmq.gateway.credentials import Credentials
from bmq.gateway.failure import GatewayFailed

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MAX: Final = 1_000_000
"""More would keep a processor for seconds."""

Exchange = Generator[bytes, bytes, None]
"""Yields what the client sends, and is sent what the server answers."""


def mechanism_of(credentials: Credentials, for_users: str) -> str:
    """`for_users`: the mechanism of names and passwords."""
    return "OAUTHBEARER" if credentials.token else for_users


def login(credentials: Credentials, mechanism: str, nonce: str) -> Exchange:
    """`nonce`: random and printable, without a comma. Raises GatewayFailed when the server does not prove that it knows the user."""
    if credentials.token:
        yield f"n,,\x01auth=Bearer {credentials.token}\x01\x01".encode()
    elif mechanism in _HASHES:
        yield from _scram(credentials, _HASHES[mechanism], nonce)
    else:
        yield f"\0{credentials.user}\0{credentials.password}".encode()


def _scram(credentials: Credentials, digest: str, nonce: str) -> Exchange:
    name = credentials.user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    challenge = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
    fields = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
    try:
        joint, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError):
        raise _wrong() from None
    if not joint.startswith(nonce) or not 0 < iterations <= ITERATIONS_MAX:
        raise _wrong()
    salted = hashlib.pbkdf2_hmac(digest, credentials.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={joint}"
    signed = f"{bare},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(last, b"v=" + base64.b64encode(expected)):
        raise _wrong()


def _wrong() -> GatewayFailed:
    return GatewayFailed("UNAUTHENTICATED", "the cluster's answer to the login is not valid")
