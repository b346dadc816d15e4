"""Keeps pages of other sites from the HTTP door: a browser on this machine reaches it, whatever page asks."""

from __future__ import annotations

from typing import Final

import structlog

from bmq.admin.rest.authentication import Application, Receive, Scope, Send, answer_problem, is_of_another_site
from bmq.admin.rest.host_names import HostCheck
from bmq.databus.settings import AgentSettings, is_loopback

_ADVICE: Final = "ask it by its address or as localhost"

_log = structlog.get_logger("bmq.databus")


def guarded_door(door: Application, settings: AgentSettings) -> Application:
    """The door behind the checks that the REST address of a node has. No browser reaches a Unix socket.

    `Host` is checked on loopback without a token alone: elsewhere a page would have to know the token.
    """
    if settings.http.startswith("unix:"):
        return door
    guarded: Application = _OwnSite(door)
    if is_loopback(settings.http) and not settings.http_token_file:
        guarded = HostCheck(guarded, refused=_note, advice=_ADVICE)
    return guarded


class _OwnSite:
    """Refuses orders that a browser sends for a page of elsewhere."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_of_another_site(scope):
            await answer_problem(send, 403, "a page of another site may not hand records over here")
            return
        await self._app(scope, receive, send)


def _note(client: str, reason: str) -> None:
    _log.warning("databus_http_refused", client=client, reason=reason)
