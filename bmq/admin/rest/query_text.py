"""Refuses a query that is not text, before anything tries to decode it."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from bmq.admin.rest.problems import problem_response

_BAD_REQUEST: Final = 400


class QueryText:
    """Middleware: a query with bytes that are not UTF-8 fails with 400. Percent-encoded bytes are no matter of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope.get("query_string", b"").decode()
        except UnicodeDecodeError:
            await problem_response(_BAD_REQUEST, "the query is not UTF-8")(scope, receive, send)
            return
        await self._app(scope, receive, send)
