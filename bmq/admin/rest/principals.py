"""Who sends an HTTP request. Apart from the pages, which take long to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bmq.protocol.request_context import ANONYMOUS

PrincipalOf = Callable[[Mapping[str, Any]], str]
"""The principal, TYPE:NAME, of an ASGI request by its scope."""


def anonymous(scope: Mapping[str, Any]) -> str:
    """Nobody logs in."""
    return ANONYMOUS
