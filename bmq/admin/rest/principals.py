"""The principal of an HTTP request. Apart from the pages, which take long to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bmq.protocol.request_context import ANONYMOUS

PEER: Final = "bmq.peer"
"""In a request's scope: its connection (bmq.admin.rest.authentication.Peer)."""
PRINCIPAL: Final = "bmq.principal"
STRANGER: Final = "bmq.is_stranger"
"""There is True for a client that has not logged in where others have to."""

PrincipalOf = Callable[[Mapping[str, Any]], str]
"""The principal, TYPE:NAME, of an ASGI request by its scope."""


def authenticated(scope: Mapping[str, Any]) -> str:
    """As bmq.admin.rest.authentication found out."""
    found: str = scope.get(PRINCIPAL, ANONYMOUS)
    return found
