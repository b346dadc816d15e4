"""A raw connection that logs in by SASL and then asks in any version, so that a test sees each answer as it came."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from bmq.security.sasl.scram_keys import SHA_256
from testing.wire import WireClient
from tests.conformance import codec
from tests.unit.security.sasl.scram_client import ScramClient

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
TOKEN_AUTH: Final = ",tokenauth=true"


class LoginRefused(AssertionError):
    """`code`: Kafka's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"the login is refused with {code}: {message}")
        self.code = code


class LoggedIn:
    """A context. `context`: of TLS, if any. It is nobody's before `plain`, `scram` or `by_token`; a refusal closes it."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.wire = WireClient(port, context=context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wire.close()

    def plain(self, user: str, password: str) -> Self:
        """Raises LoginRefused."""
        self.handshake("PLAIN")
        self.authenticate(f"\0{user}\0{password}".encode())
        return self

    def scram(self, user: str, password: str, extensions: str = "") -> Self:
        """By SCRAM-SHA-256. Raises LoginRefused."""
        self.handshake("SCRAM-SHA-256")
        client = ScramClient(user, password, SHA_256, extensions)
        last = client.last(self.authenticate(client.first()))
        assert client.verify(self.authenticate(last)), "the server does not know the password"
        return self

    def by_token(self, token_id: str, mac: str) -> Self:
        """`mac`: in base64. Raises LoginRefused."""
        return self.scram(token_id, mac, TOKEN_AUTH)

    def handshake(self, mechanism: str) -> None:
        answer = self.call(SASL_HANDSHAKE, 1, mechanism=mechanism)
        if answer["error_code"]:
            self.wire.close()
            raise LoginRefused(answer["error_code"], "no such mechanism")

    def authenticate(self, data: bytes) -> bytes:
        answer = self.call(SASL_AUTHENTICATE, 2, auth_bytes=data)
        if answer["error_code"]:
            self.wire.close()
            raise LoginRefused(answer["error_code"], answer["error_message"])
        said: bytes = answer["auth_bytes"]
        return said

    def call(self, api_key: int, version: int, **values: Any) -> Mapping[str, Any]:
        self.wire.send_raw(codec.request_frame(api_key, version, values, 1, "test"))
        return codec.response_values(api_key, version, self.wire.receive_frame())
