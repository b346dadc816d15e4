"""The client's side of SCRAM, for tests."""

from __future__ import annotations

import base64
import hashlib
import hmac

from bmq.protocol.metadata_records import UserScramCredentialRecord
from bmq.security.sasl.scram_keys import SHA_256, ScramMechanism, keys_of, salted_password


def keys(
    name: str, password: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096, salt: bytes = b"some salt"
) -> UserScramCredentialRecord:
    made = keys_of(mechanism, salted_password(mechanism, password.encode(), salt, iterations))
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.number,
        salt=salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=iterations,
    )


class ScramClient:
    def __init__(
        self, user: str, password: str, mechanism: ScramMechanism = SHA_256, extensions: str = "", header: str = "n,,"
    ) -> None:
        self._password = password
        self._mechanism = mechanism
        self._header = header
        name = user.replace("=", "=3D").replace(",", "=2C")
        self.nonce = "clientnonce"
        self._bare = f"n={name},r={self.nonce}{extensions}"
        self._verifier = b""

    def first(self) -> bytes:
        return (self._header + self._bare).encode()

    def last(self, server_first: bytes, nonce_prefix: str = "") -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salted = salted_password(
            self._mechanism, self._password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
        )
        binding = base64.b64encode(self._header.encode()).decode()
        signed_last = f"c={binding},r={nonce_prefix}{fields['r']}"
        signed = f"{self._bare},{server_first.decode()},{signed_last}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._mechanism.digest)
        signature = hmac.digest(
            hashlib.new(self._mechanism.digest, client_key).digest(), signed, self._mechanism.digest
        )
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        server_key = keys_of(self._mechanism, salted).server_key
        self._verifier = base64.b64encode(hmac.digest(server_key, signed, self._mechanism.digest))
        return f"{signed_last},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> bool:
        return server_final == b"v=" + self._verifier
