"""SCRAM's keys: derived from passwords, kept instead of them.

Sources: RFC 5802, RFC 7677, ScramFormatter and ScramMechanism of Apache Kafka (4.3).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import field
from typing import Final

from bmq.dataclass import dataclass
from bmq.security.listener_security import SCRAM_SHA_256, SCRAM_SHA_512

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES: Final = 16
"""Of salts that we make; others may have any length."""


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """`number`: in requests and records. `digest`: hashlib's name."""

    name: str
    number: int
    digest: str

    @property
    def key_bytes(self) -> int:
        return hashlib.new(self.digest).digest_size


SHA_256: Final = ScramMechanism(SCRAM_SHA_256, 1, "sha256")
SHA_512: Final = ScramMechanism(SCRAM_SHA_512, 2, "sha512")
BY_NUMBER: Final = {one.number: one for one in (SHA_256, SHA_512)}
BY_NAME: Final = {one.name: one for one in (SHA_256, SHA_512)}


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What a server keeps of a password. Secrets: `repr` leaves them out."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """PBKDF2, some milliseconds of processor: not on the event loop. The result is as good as the password."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password, salt, iterations)


def keys_of(mechanism: ScramMechanism, salted: bytes) -> ScramKeys:
    """The keys of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    return ScramKeys(
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.digest),
    )
