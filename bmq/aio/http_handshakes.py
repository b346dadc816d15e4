"""httpx requests that are cancelled in a TLS handshake, and the connections that they would leave open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


def closing_handshakes() -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    """For one request: `extensions={"trace": closing_handshakes()}`.

    httpcore closes the connection of a handshake that fails. Of one that is cancelled, as `asyncio.timeout` does, it keeps the
    connection until the garbage is collected.
    """
    opened: list[Any] = []

    async def closing(event: str, info: dict[str, Any]) -> None:
        if event.endswith("connect_tcp.complete"):
            opened.append(info["return_value"])
        elif event.endswith("start_tls.failed"):
            for stream in opened:
                await stream.aclose()

    return closing
