"""Refuses requests that name another host than this server's: pages whose name was made to resolve to this machine.

A browser lets the page of a site ask the site's own name without limits. A site that lets its name resolve to 127.0.0.1
(DNS rebinding) so reaches servers that only this machine reaches, but its requests still carry its name as Host. Imported
at the start, so without the pages' libraries.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Final

from bmq.admin.rest.authentication import Application, Receive, Scope, Send, answer_problem

LOCALHOST: Final = "localhost"
_MISDIRECTED: Final = 421
_NAME_CHARACTERS_MAX: Final = 100
_REST_ADVICE: Final = "ask it by its address, or name the host in rest_security.host_names (docs/CONFIG.md)"


class HostCheck:
    """An ASGI application around another one. `names`: allowed besides addresses and localhost. `refused`: is told a client's
    host and why. `advice`: what a refused client is told to do.
    """

    def __init__(
        self,
        app: Application,
        names: Iterable[str] = (),
        refused: Callable[[str, str], None] = lambda host, reason: None,
        advice: str = _REST_ADVICE,
    ) -> None:
        self._app = app
        self._names = frozenset({LOCALHOST, *(_plain(name) for name in names)})
        self._refused = refused
        self._advice = advice

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = host_of(scope["headers"])
        if name is None or name in self._names or _is_address(name):
            await self._app(scope, receive, send)
            return
        shown = ascii(name[:_NAME_CHARACTERS_MAX])
        client = scope.get("client") or ("", 0)
        self._refused(str(client[0]), f"it asked for {shown}, which is not a name of this address")
        await answer_problem(send, _MISDIRECTED, f"this address is not {shown}: {self._advice}")


def host_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The Host of a request without its port, in lower case; None without the header, which every browser sends."""
    for name, value in headers:
        if name == b"host":
            text = value.decode("latin-1").strip()
            host, colon, port = text.rpartition(":")
            return _plain(host if colon and port.isdigit() else text)
    return None


def _plain(name: str) -> str:
    return name.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
