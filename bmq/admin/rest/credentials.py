"""What a request says about who sends it: the header Authorization (RFC 9110, 7617, 6750). Decisions only."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from bmq.dataclass import dataclass

HEADER_BYTES_MAX: Final = 16 * 1024
"""Of one Authorization header; a JSON Web Token has some 2 KiB."""
_NAME: Final = b"authorization"


@dataclass(frozen=True, slots=True)
class Password:
    """HTTP Basic."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bearer token."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """`reason` has nothing of the header."""

    reason: str


Credentials = Password | Bearer | Unreadable


def credentials_of(headers: Iterable[tuple[bytes, bytes]]) -> Credentials | None:
    """None: the request has none. `headers`: as ASGI has them, names in small letters."""
    found = [value for name, value in headers if name == _NAME]
    if not found:
        return None
    if len(found) > 1:
        return Unreadable("more than one Authorization header")
    if len(found[0]) > HEADER_BYTES_MAX:
        return Unreadable(f"an Authorization header of {len(found[0])} bytes")
    scheme, _, value = found[0].strip().partition(b" ")
    value = value.strip()
    match scheme.lower():
        case b"basic":
            return _password(value)
        case b"bearer":
            return _bearer(value)
    return Unreadable("an Authorization header that is neither Basic nor Bearer")


def _password(value: bytes) -> Credentials:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return Unreadable("Basic credentials that are not UTF-8 in Base64")
    user, colon, password = text.partition(":")
    if not colon or not user or not password:
        return Unreadable("Basic credentials without a user or a password")
    return Password(user, password)


def _bearer(value: bytes) -> Credentials:
    if not value or not value.isascii() or b" " in value:
        return Unreadable("a bearer token of another form")
    return Bearer(value.decode("ascii"))
