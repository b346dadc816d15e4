"""Whether a ZooKeeper server serves: a session is made with it and ended again, as a client would."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

from bmq.hdfs.config import Address

PROBE_WAIT_S: Final = 1.0
SESSION_MS: Final = 4_000
ANSWER_BYTES_MAX: Final = 4096
_PASSWORD_BYTES: Final = 16

# ZooKeeper's jute records: protocol version, last zxid seen, timeout in ms, session id, password.
_CONNECT: Final = struct.Struct(f">iqiqi{_PASSWORD_BYTES}s")
_CONNECTED: Final = struct.Struct(">iiq")
_LENGTH: Final = struct.Struct(">i")
_CLOSE: Final = struct.pack(">ii", 1, -11)


async def zookeeper_trouble(address: Address, wait_s: float = PROBE_WAIT_S) -> str | None:
    """What keeps the server from serving, in a few words; None when it serves."""
    try:
        async with asyncio.timeout(wait_s):
            return await _session_trouble(address)
    except TimeoutError:
        return f"{address} gives no session within {wait_s:g} s"
    except (OSError, EOFError) as error:
        return f"{address} gives no session: {error}"


async def _session_trouble(address: Address) -> str | None:
    reader, writer = await asyncio.open_connection(*address, limit=ANSWER_BYTES_MAX)
    try:
        request = _CONNECT.pack(0, 0, SESSION_MS, 0, _PASSWORD_BYTES, bytes(_PASSWORD_BYTES))
        writer.write(_LENGTH.pack(len(request)) + request)
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if not _CONNECTED.size <= length <= ANSWER_BYTES_MAX:
            return f"{address} is no ZooKeeper"
        _, timeout_ms, session_id = _CONNECTED.unpack_from(await reader.readexactly(length))
        if timeout_ms <= 0 or session_id == 0:
            return f"{address} refuses a session"
        writer.write(_LENGTH.pack(len(_CLOSE)) + _CLOSE)
        await reader.read(ANSWER_BYTES_MAX)  # its answer: the session is gone by then
        return None
    finally:
        writer.transport.abort()
