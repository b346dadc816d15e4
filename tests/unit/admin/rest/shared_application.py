"""The REST application over a test's own sources. All tests of a process share one: to make it takes a third of a second.

It remembers that its node was ready once, so a test of a node that never was makes its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, cast

from fastapi import FastAPI

from bmq.admin.rest.application import rest_application
from bmq.admin.rest.sources import RestSources

_PRESENT: ContextVar[RestSources] = ContextVar("sources")
"""Those of the request that is answered. While the application is made there are none, and to ask for a value is an error."""
_VALUES: Final = frozenset({"registry", "node_id", "scheme", "why_no_requests"})


class _Access:
    def __getattr__(self, name: str) -> Any:
        return getattr(_PRESENT.get().access, name)


class _Sources:
    """Answers as the sources of the request do, also where the application keeps one of its methods as it is made."""

    access = _Access()

    def __getattr__(self, name: str) -> Any:
        if name in _VALUES:
            return getattr(_PRESENT.get(), name)
        return lambda *given: getattr(_PRESENT.get(), name)(*given)


@cache
def _application() -> FastAPI:
    return rest_application(cast(RestSources, _Sources()))


def application_over(sources: RestSources) -> Callable[..., Awaitable[None]]:
    """As `rest_application(sources)`, for requests alone."""
    shared = _application()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        token = _PRESENT.set(sources)
        try:
            await shared(scope, receive, send)
        finally:
            _PRESENT.reset(token)

    return application
