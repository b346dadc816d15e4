"""Clients that do nothing but come in: full TLS handshakes by openssl, SCRAM logins by as little Python as goes.

python -m bench.security.logins PORT SECONDS        # one process of SCRAM logins; prints their number
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import socket
import struct
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.core.client import pinned_to
from bench.security.sides import MECHANISM, PASSWORD, USER
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.support.processes import REPOSITORY, dying_with_us

PROCESSES: Final = 2
SLACK_S: Final = 30
CONNECTIONS: Final = re.compile(r"^(\d+) connections in (\d+) real seconds", re.MULTILINE)


def handshakes_per_s(port: int, authority: Path, seconds: float, core: int) -> float:
    """Full handshakes of TLS 1.3, one after the other in each of PROCESSES. Raises LoadFailed."""
    command = ["openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-new", "-tls1_3"]
    command += ["-time", str(max(1, round(seconds))), "-CAfile", str(authority), "-verify", "1"]
    return sum(int(found[1]) / int(found[2]) for found in _all(command, core, CONNECTIONS, seconds))


def logins_per_s(port: int, seconds: float, core: int) -> float:
    """Logins, each on a connection of its own. Raises LoadFailed."""
    command = [sys.executable, "-m", "bench.security.logins", str(port), str(seconds)]
    return sum(int(found[1]) / seconds for found in _all(command, core, re.compile(r"^(\d+) logins$", re.M), seconds))


def _all(command: Sequence[str], core: int, wanted: re.Pattern[str], seconds: float) -> list[re.Match[str]]:
    with pinned_to([core]):
        running = [
            subprocess.Popen(
                dying_with_us(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY
            )
            for _ in range(PROCESSES)
        ]
    found = []
    for process in running:
        try:
            out, _ = process.communicate(timeout=seconds + SLACK_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise LoadFailed(f"{command[0]} did not end in {seconds + SLACK_S:.0f} s") from None
        match = wanted.search(out)
        if match is None:
            raise LoadFailed(f"{' '.join(command)}: {out[-1_000:]}")
        found.append(match)
    return found


class ScramClient:
    """Keeps the salted password: deriving it costs more than the rest of a login, and is the client's cost alone."""

    def __init__(self, port: int) -> None:
        self._address = "127.0.0.1", port
        self._keys: dict[tuple[bytes, int], tuple[bytes, bytes]] = {}
        self._handshake = _framed(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=MECHANISM))

    def login(self) -> None:
        """Raises LoadFailed."""
        nonce = os.urandom(18).hex()
        bare = f"n={USER},r={nonce}"
        with socket.create_connection(self._address) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(self._handshake)
            answer = _answer(connection, ApiKey.SASL_HANDSHAKE, 1)
            if answer.error_code:
                raise LoadFailed(f"SaslHandshake was answered with {answer.error_code}")
            first = self._step(connection, f"n,,{bare}".encode()).decode()
            fields = dict(part.split("=", 1) for part in first.split(","))
            client_key, stored_key = self._derived(b64decode(fields["s"]), int(fields["i"]))
            final = f"c=biws,r={fields['r']}"
            signature = hmac.digest(stored_key, f"{bare},{first},{final}".encode(), "sha256")
            proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
            last = self._step(connection, f"{final},p={b64encode(proof).decode()}".encode())
            if not last.startswith(b"v="):
                raise LoadFailed(f"the server's last message is {last!r}")

    def _derived(self, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
        keys = self._keys.get((salt, iterations))
        if keys is None:
            salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, iterations)
            client_key = hmac.digest(salted, b"Client Key", "sha256")
            keys = self._keys[salt, iterations] = client_key, hashlib.sha256(client_key).digest()
        return keys

    def _step(self, connection: socket.socket, message: bytes) -> bytes:
        connection.sendall(_framed(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=message)))
        answer = _answer(connection, ApiKey.SASL_AUTHENTICATE, 1)
        if answer.error_code:
            raise LoadFailed(f"SaslAuthenticate was answered with {answer.error_code}: {answer.error_message}")
        return bytes(answer.auth_bytes)


def _framed(api_key: ApiKey, version: int, request: object) -> bytes:
    frame = encode_request(api_key, version, 0, "bench", request)
    return struct.pack(">i", len(frame)) + frame


def _answer(connection: socket.socket, api_key: ApiKey, version: int):  # type: ignore[no-untyped-def]
    size = int.from_bytes(_exactly(connection, 4), "big")
    return decode_response(api_key, version, _exactly(connection, size))[1]


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise LoadFailed("the server closed the connection during a login")
        data += part
    return data


def main() -> None:
    client, until_s, logins = ScramClient(int(sys.argv[1])), time.monotonic() + float(sys.argv[2]), 0
    while time.monotonic() < until_s:
        client.login()
        logins += 1
    print(f"{logins} logins")


if __name__ == "__main__":
    main()
