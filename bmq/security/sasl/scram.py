"""SCRAM-SHA-256 and -512, the server's side (RFC 5802, KIP-84): three HMACs for a login.

As in Kafka: no channel binding, no SASLprep, unknown extensions are ignored. A user who does not exist gets a salt made
of the name, and fails at the proof like everybody with a wrong password.
The nonce of the last message may end with ours: librdkafka before 2.6.1 sends its own twice. Kafka 4 demands equality;
the proof covers the nonce as it was sent, so nothing is lost.
Sources: ScramSaslServer, ScramMessages of Apache Kafka (4.3).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.security.sasl.scram_keys import ITERATIONS_MIN, SALT_BYTES, ScramMechanism
from bmq.security.sasl.steps import Accepted, Challenge, Deferred, Rejected, Step

MESSAGE_BYTES_MAX: Final = 8_192
_FIRST: Final = re.compile(
    r"(?P<header>n,(?:a=(?P<authorized>[^,\0]+))?,)(?P<bare>(?:m=[^,\0]*,)?n=(?P<user>[^,\0]+),r=(?P<nonce>[!-+\--~]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,\0]*)*))"
)
_LAST: Final = re.compile(
    r"(?P<signed>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]+=[^,\0]*)*?),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_NO_BINDING: Final = "biws"
"""The header `n,,` in base64, which some clients send whatever their header was."""
_OTHER_USER: Final = "Authentication failed: Client requested an authorization id that is different from username"


class ScramSecret(NamedTuple):
    """What a name logs in with. `user`: who that is; for a token it is the token's owner."""

    user: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    is_token: bool = False
    expires_at_ms: int | None = None


Lookup = Callable[[str, bool], ScramSecret | Callable[[], ScramSecret] | None]
"""(name, whether it is a delegation token's id) -> its keys, or what takes milliseconds to derive them; None: no keys."""


class Scram:
    """One exchange. `nonce`: random, printable, without a comma. `secret`: of this cluster or process, for salts of users
    who do not exist: the same user must get the same salt again."""

    def __init__(self, mechanism: ScramMechanism, lookup: Lookup, nonce: str, secret: bytes) -> None:
        self._mechanism = mechanism
        self._lookup = lookup
        self._own_nonce = nonce
        self._secret = secret
        self._found: ScramSecret | None = None
        self._header = self._bare = self._first = self._nonce = self._name = ""
        self._stored_key = b""
        self._is_begun = False

    def step(self, message: bytes) -> Step:
        """Implements Mechanism.step."""
        try:
            text = bytes(message).decode() if len(message) <= MESSAGE_BYTES_MAX else ""
        except UnicodeDecodeError:
            text = ""
        if self._is_begun:
            return self._last_step(text)
        self._is_begun = True
        return self._first_step(text)

    def _first_step(self, text: str) -> Step:
        parsed = _FIRST.fullmatch(text)
        if parsed is None:
            return Rejected("a first SCRAM message of another form")
        name = _unescaped(parsed["user"])
        authorized = parsed["authorized"]
        if name is None:
            return Rejected("a user name with a wrong escape")
        if authorized and _unescaped(authorized) != name:
            return Rejected("it wants to be another user", _OTHER_USER)
        is_token = "tokenauth=true" in parsed["extensions"].lower().split(",")
        found = self._lookup(name, is_token)
        if callable(found):
            derive = found
            return Deferred(lambda: self._challenge(parsed, name, derive()))
        return self._challenge(parsed, name, found)

    def _challenge(self, parsed: re.Match[str], name: str, found: ScramSecret | None) -> Step:
        if found is not None and found.iterations < ITERATIONS_MIN:
            return Rejected(
                f"keys of {name[:100]!r} with {found.iterations} iterations, {ITERATIONS_MIN} are the least"
            )
        salt = self._made_up(name, b"salt")[:SALT_BYTES] if found is None else found.salt
        self._found, self._name = found, name
        self._stored_key = self._made_up(name, b"key") if found is None else found.stored_key
        self._header, self._bare = parsed["header"], parsed["bare"]
        self._nonce = parsed["nonce"] + self._own_nonce
        iterations = ITERATIONS_MIN if found is None else found.iterations
        self._first = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={iterations}"
        return Challenge(self._first.encode())

    def _last_step(self, text: str) -> Step:
        parsed = _LAST.fullmatch(text)
        if parsed is None:
            return Rejected("a last SCRAM message of another form")
        if parsed["binding"] not in (_NO_BINDING, base64.b64encode(self._header.encode()).decode()):
            return Rejected("another channel binding than it began with")
        if not parsed["nonce"].endswith(self._nonce):
            return Rejected("another nonce than the server's")
        try:
            proof = base64.b64decode(parsed["proof"], validate=True)
        except binascii.Error:
            proof = b""
        signed = f"{self._bare},{self._first},{parsed['signed']}".encode()
        signature = hmac.digest(self._stored_key, signed, self._mechanism.digest)
        if len(proof) != len(signature):
            return self._wrong()
        client_key = (int.from_bytes(proof, "big") ^ int.from_bytes(signature, "big")).to_bytes(len(proof), "big")
        is_right = hmac.compare_digest(hashlib.new(self._mechanism.digest, client_key).digest(), self._stored_key)
        found = self._found
        if not is_right or found is None:
            return self._wrong()
        verifier = base64.b64encode(hmac.digest(found.server_key, signed, self._mechanism.digest))
        return Accepted(found.user, b"v=" + verifier, found.is_token, found.expires_at_ms)

    def _wrong(self) -> Rejected:
        return Rejected(f"a wrong password, or no such user as {self._name[:100]!r}")

    def _made_up(self, name: str, purpose: bytes) -> bytes:
        return hmac.digest(
            self._secret, purpose + self._mechanism.name.encode() + b"\0" + name.encode(), self._mechanism.digest
        )


def _unescaped(name: str) -> str | None:
    """A name with =2C and =3D; None: another escape."""
    if "=" in name.replace("=2C", "").replace("=3D", ""):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")
