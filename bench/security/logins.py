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
from bmq.protocol.codec import encode_request
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from testing.processes import REPOSITORY, dying_with_us

PROCESSES: Final = 2
SLACK_S: Final = 30
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_FIRST: Final = re.compile("r=([^,]*),s=([^,]*),i=([0-9]+)")
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
    """Keeps the salted password: deriving it costs more than the rest of a login, and is the client's cost alone.

    Frames are laid out by hand: it shares a processor with its like, and must not be what is measured.
    """

    def __init__(self, port: int) -> None:
        self._address = "127.0.0.1", port
        self._keys: dict[tuple[bytes, int], tuple[int, bytes]] = {}
        self._handshake = _framed(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=MECHANISM))
        self._step_head = encode_request(ApiKey.SASL_AUTHENTICATE, 1, 0, "bench", SaslAuthenticateRequest())[:-4]

    def login(self) -> None:
        """Raises LoadFailed."""
        bare = f"n={USER},r={os.urandom(18).hex()}"
        with socket.create_connection(self._address) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(self._handshake)
            _checked(_answer(connection), "SaslHandshake")
            first = self._step(connection, f"n,,{bare}".encode()).decode()
            nonce, salt, iterations = _FIRST.fullmatch(first).groups()  # type: ignore[union-attr]
            client_key, stored_key = self._derived(b64decode(salt), int(iterations))
            final = f"c=biws,r={nonce}"
            signature = hmac.digest(stored_key, f"{bare},{first},{final}".encode(), "sha256")
            proof = (client_key ^ int.from_bytes(signature, "big")).to_bytes(len(signature), "big")
            last = self._step(connection, f"{final},p={b64encode(proof).decode()}".encode())
            if not last.startswith(b"v="):
                raise LoadFailed(f"the server's last message is {last!r}")

    def _derived(self, salt: bytes, iterations: int) -> tuple[int, bytes]:
        keys = self._keys.get((salt, iterations))
        if keys is None:
            salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, iterations)
            client_key = hmac.digest(salted, b"Client Key", "sha256")
            keys = int.from_bytes(client_key, "big"), hashlib.sha256(client_key).digest()
            self._keys[salt, iterations] = keys
        return keys

    def _step(self, connection: socket.socket, message: bytes) -> bytes:
        head = self._step_head
        size = len(head) + 4 + len(message)
        connection.sendall(b"".join((_INT.pack(size), head, _INT.pack(len(message)), message)))
        answer = _checked(_answer(connection), "SaslAuthenticate")
        text_bytes = max(_SHORT.unpack_from(answer, 6)[0], 0)
        (data_bytes,) = _INT.unpack_from(answer, 8 + text_bytes)
        return answer[12 + text_bytes : 12 + text_bytes + data_bytes]


def _framed(api_key: ApiKey, version: int, request: object) -> bytes:
    frame = encode_request(api_key, version, 0, "bench", request)
    return _INT.pack(len(frame)) + frame


def _answer(connection: socket.socket) -> bytes:
    """A frame, mostly by one call."""
    data = connection.recv(4_096)
    while len(data) < 4 or len(data) < 4 + _INT.unpack_from(data)[0]:
        part = connection.recv(4_096)
        if not part:
            raise LoadFailed("the server closed the connection during a login")
        data += part
    return data[4:]


def _checked(answer: bytes, name: str) -> bytes:
    """Behind the correlation id: an error code."""
    (code,) = _SHORT.unpack_from(answer, 4)
    if code:
        raise LoadFailed(f"{name} was answered with {code}: {answer[6:]!r}")
    return answer


def main() -> None:
    client, until_s, logins = ScramClient(int(sys.argv[1])), time.monotonic() + float(sys.argv[2]), 0
    while time.monotonic() < until_s:
        client.login()
        logins += 1
    print(f"{logins} logins")


if __name__ == "__main__":
    main()
