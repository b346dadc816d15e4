"""The REST address: its server, the logins in front of its pages, and the reloading of its files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bmq.admin.rest.authentication import Application
from bmq.log.clock import Clock
from bmq.metadata.image import MetadataImage
from bmq.security.bearer import BearerVerifier
from bmq.server.rest_security import RestSecurity
from bmq.server.rest_server import RestServer
from bmq.server.settings import Settings


class GuardedRest:
    """Call `bind`, `start` and `stop` in this order. Arguments and errors are those of RestSecurity."""

    def __init__(
        self,
        settings: Settings,
        image: Callable[[], MetadataImage],
        are_users_known: Callable[[], bool],
        clock: Clock,
        tokens: BearerVerifier | None = None,
    ) -> None:
        self._security = RestSecurity(settings, image, are_users_known, clock, tokens)
        self._server = RestServer(self._security.listener_socket, settings.proxy)
        self._watching: asyncio.Task[None] | None = None

    @property
    def scheme(self) -> str:
        return self._security.scheme

    def bind(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Returns (host, port) with the real port. Raises OSError."""
        address = self._server.bind(host, port)
        self._security.say_what_is_open(address)
        return address

    async def start(self, pages: Application) -> None:
        """Answer requests. Raises OSError."""
        await self._server.start(self._security.guarded(pages, self._server.refused))
        self._watching = asyncio.create_task(self._security.watch())

    async def stop(self) -> None:
        """Accept no more connections. Requests under way have one second to end."""
        if self._watching is not None:
            self._watching.cancel()
        await self._server.stop()
        self._security.close()
