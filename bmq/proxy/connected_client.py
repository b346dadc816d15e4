"""The client of a connection: its address, principal, software and quotas."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from bmq.aio.loop_turns import LoopTurns
from bmq.protocol.apis import Api, ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.request_context import ANONYMOUS, RequestContext
from bmq.proxy.mute import Mute
from bmq.proxy.services import Services

if TYPE_CHECKING:
    from bmq.protocol.request_context import Peer

KEPT_NAME_CHARS_MAX: Final = 256
"""Longest client id and software name that are kept for a connection: there may be thousands of idle connections."""


class ConnectedClient:
    """One connection's client. `peer`: the connection. `go_on()` is called when a mute ends.

    The mute is made when a quota first holds for the client.
    """

    __slots__ = (
        "_apis",
        "_context",
        "_go_on",
        "_is_token",
        "_listener_name",
        "_loop",
        "_peer",
        "_port",
        "_services",
        "_software",
        "_turns",
        "host",
        "mute",
        "principal",
    )

    def __init__(
        self,
        peer: Peer | None,
        loop: AbstractEventLoop,
        services: Services,
        listener_name: str,
        apis: Mapping[ApiKey, Api],
        turns: LoopTurns,
        go_on: Callable[[], None],
    ) -> None:
        self._peer = peer
        self._loop = loop
        self._services = services
        self._listener_name = listener_name
        self._apis = apis
        self._turns = turns
        self._go_on = go_on
        self._context: RequestContext | None = None
        self._software = ("unknown", "unknown")
        self._port = -1
        self._is_token = False
        self.host = ""
        self.principal = ANONYMOUS
        self.mute: Mute | None = None

    def has_address(self, host: str, port: int) -> None:
        """Note the client's address."""
        self.host, self._port = host, port

    def is_named(self, principal: str, *, is_token: bool = False) -> None:
        """Note the principal that the client has proved to be. `is_token`: by a delegation token."""
        self.principal, self._is_token = principal, is_token
        self.forget()

    def has_software(self, name: str, version: str) -> None:
        """Note the client's software (KIP-511)."""
        self._software = (name[:KEPT_NAME_CHARS_MAX], version[:KEPT_NAME_CHARS_MAX])
        self._context = None

    def context_of(self, header: RequestHeader) -> RequestContext:
        """The context of one of its requests, with its throttle if it has quotas."""
        context = self._context
        if context is None or context.api_version != header.api_version or context.client_id != header.client_id:
            throttles = self._services.throttles
            context = RequestContext(
                header.api_version,
                header.client_id,
                self.host,
                self._software[0],
                self._software[1],
                self.principal,
                self._is_token,
                self._listener_name,
                peer=self._peer,
                apis=self._apis,
                client_port=self._port,
                turns=self._turns,
                throttle=throttles.of(self.principal, header.client_id, self.muted) if throttles.is_active else None,
            )
            if len(header.client_id or "") <= KEPT_NAME_CHARS_MAX:
                self._context = context
        return context

    def may_begin(self, header: RequestHeader, size_bytes: int) -> bool:
        """Whether the client's quotas allow the request now. If not, `go_on` is called when they do."""
        throttle = self.context_of(header).throttle
        return throttle is None or throttle.may_begin(header.api_key, size_bytes)

    @property
    def is_muted(self) -> bool:
        """Whether a quota holds for the client now."""
        return self.mute is not None and self.mute.is_on

    def muted(self) -> Mute:
        """The connection's mute, made at the first call."""
        if self.mute is None:
            self.mute = Mute(self._loop, self._go_on)
        return self.mute

    def forget(self) -> None:
        """Forget the throttle and cached context: the principal, or the quotas in force, have changed."""
        if self._context is not None and self._context.throttle is not None:
            self._context.throttle.close()
        self._context = None
        if self.mute is not None:
            self.mute.go_on()

    def close(self) -> None:
        """The connection is closed. Drop all references to it, so that it is freed at once."""
        if self.mute is not None:
            self.mute.close()
        self.forget()
        self._peer = None
        self._go_on = _nothing


def _nothing() -> None:
    """Replaces `go_on` when the connection is closed."""
