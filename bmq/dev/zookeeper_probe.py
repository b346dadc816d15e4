"""Probes whether a ZooKeeper server serves: makes a session and ends it, as a client would."""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.election.zookeeper_wire import (
    ANSWER_BYTES_MAX,
    LENGTH,
    NEW_SESSION,
    NoZooKeeper,
    answer_bytes,
    close_request,
    connect_request,
    is_session_given,
)
from bmq.hdfs.config import Address

PROBE_WAIT_S: Final = 1.0
SESSION_MS: Final = 4_000


async def zookeeper_trouble(address: Address, wait_s: float = PROBE_WAIT_S) -> str | None:
    """Why the server does not serve, in a few words; None when it serves."""
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
        writer.write(connect_request(NEW_SESSION, SESSION_MS))
        length = answer_bytes(await reader.readexactly(LENGTH.size))
        if not is_session_given(await reader.readexactly(length)):
            return f"{address} refuses a session"
        writer.write(close_request())
        await reader.read(ANSWER_BYTES_MAX)  # wait for the answer: the session has ended by then
        return None
    except NoZooKeeper:
        return f"{address} is no ZooKeeper"
    finally:
        writer.transport.abort()
