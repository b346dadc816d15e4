"""Principals of servers, whose host stands for itself as `_HOST`. Pure."""

from __future__ import annotations

import re
from typing import Final

HOST: Final = "_HOST"
_ADDRESS: Final = re.compile(r"[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


class NoHostName(ValueError):
    """A name is needed, and there is an address."""


def server_principal(configured: str, host: str) -> str:
    """The principal with the host put in for `_HOST`, in lower case. Raises NoHostName."""
    name, slash, rest = configured.partition("/")
    instance, at, realm = rest.partition("@")
    if not slash or instance != HOST:
        return configured
    if _ADDRESS.fullmatch(host):
        raise NoHostName(f"{configured} needs the server's host name instead of the address {host}")
    return f"{name}/{host.lower()}{at}{realm}"
