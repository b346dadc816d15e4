"""Limits the body of requests: a longer one is refused before it is in memory."""

from __future__ import annotations

from typing import Final

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX: Final = 1024 * 1024
"""Enough for a report about 10,000 partitions; a table's definition may have a quarter of that."""
_TOO_LARGE: Final = 413


class BodyLimit:
    """Middleware: a body that goes past the limit fails the request with 413."""

    def __init__(self, app: ASGIApp, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = self._bytes_max

        async def limited() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(_TOO_LARGE, f"the body has more than {self._bytes_max} bytes")
            return message

        await self._app(scope, limited if scope["type"] == "http" else receive, send)
