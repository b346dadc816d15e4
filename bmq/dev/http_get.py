"""One GET over HTTP/1.0 from the event loop: enough for daemons on this machine that show their state as JSON."""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.hdfs.config import Address

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024


async def http_get(address: Address, path: str) -> bytes:
    """The body of the answer. Raises OSError, EOFError, and ValueError when its status is not 200 or it is too large."""
    # HTTP/1.0, so that the answer ends where the connection does.
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        received = bytearray()
        while part := await reader.read(65536):
            received += part
            if len(received) > ANSWER_BYTES_MAX:
                raise ValueError(f"more than {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.transport.abort()
    head, separator, body = bytes(received).partition(b"\r\n\r\n")
    status_line = head.split(b"\r\n", 1)[0].split()
    if not separator or len(status_line) < 2 or status_line[1] != b"200":
        raise ValueError(f"answer begins {bytes(received[:60])!r}")
    return body
