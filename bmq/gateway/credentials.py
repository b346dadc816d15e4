"""What a call says about its user: the metadata `authorization`, Basic (RFC 7617) or Bearer (RFC 6750). Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from bmq.dataclass import dataclass
from bmq.gateway.failure import GatewayFailed

HEADER: Final = "authorization"
HEADER_BYTES_MAX: Final = 16 * 1024
_WHAT_IS_TAKEN: Final = "send 'authorization: Basic …' or 'authorization: Bearer …' as metadata"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Nobody, a user with a password, or a token. Never shown: `repr` has no secret."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @property
    def is_anonymous(self) -> bool:
        return not self.user and not self.token

    def key(self, salt: bytes) -> bytes:
        """The same for the same credentials, and says nothing about them."""
        text = "\0".join((self.user, self.password, self.token))
        return hashlib.sha256(salt + text.encode("utf-8", "surrogatepass")).digest()


ANONYMOUS: Final = Credentials()


def _refused(message: str) -> GatewayFailed:
    return GatewayFailed("UNAUTHENTICATED", message)


def credentials_of(metadata: Iterable[tuple[str, str | bytes]]) -> Credentials:
    """The credentials in a call's metadata. Raises GatewayFailed, UNAUTHENTICATED."""
    given = [value for name, value in metadata if name.lower() == HEADER]
    if not given:
        return ANONYMOUS
    if len(given) > 1:
        raise _refused(f"the call has {len(given)} authorizations; send one")
    value = given[0].decode("latin-1") if isinstance(given[0], bytes) else given[0]
    if len(value) > HEADER_BYTES_MAX:
        raise _refused(f"the authorization has more than {HEADER_BYTES_MAX} bytes")
    scheme, _, rest = value.strip().partition(" ")
    rest = rest.strip()
    if scheme.lower() == "basic":
        return _basic(rest)
    if scheme.lower() == "bearer" and rest and rest.isascii() and " " not in rest:
        return Credentials(token=rest)
    raise _refused(f"the authorization has another form; {_WHAT_IS_TAKEN}")


def _basic(text: str) -> Credentials:
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        raise _refused("the authorization is no base64 of UTF-8; send base64 of USER:PASSWORD") from None
    user, colon, password = decoded.partition(":")
    if not colon or not user or "\0" in decoded:
        raise _refused("the authorization has no user; send base64 of USER:PASSWORD")
    return Credentials(user, password)


def token_end_s(token: str, otherwise_s: float) -> float:
    """When a token ends (`exp` of RFC 7519), in seconds since 1970; `otherwise_s` if it does not say. Not verified here."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return otherwise_s


def token_subject(token: str) -> str:
    """The name that the client gives itself for a token (RFC 7628); the server decides by the token."""
    try:
        part = token.split(".")[1]
        subject = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sub"]
    except (IndexError, KeyError, TypeError, ValueError):
        return "bearer"
    return subject if isinstance(subject, str) and subject else "bearer"
