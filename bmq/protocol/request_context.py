"""Who asks: what a listener knows of the client behind a request, on its way to whoever answers it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bmq.protocol.apis import APIS, Api, ApiKey


class Peer(Protocol):
    """The connection a request came over."""

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call `lost` once when the connection is closed, by either side; if it is closed already, soon."""

    @property
    def age_s(self) -> float:
        """Since its first bytes were received."""

    def begin(self, work: Coroutine[Any, Any, None], ended: Callable[[], None] | None = None) -> None:
        """Do something for a request, which ends with the connection. `ended` is called behind it, even if it never began."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came: the frame without its length prefix, and the message that was decoded from it."""

    frame: bytes | bytearray
    message: Any


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, and in which version. `peer` is None where a request did not come over a connection of its own.

    `apis`: what is served where the request came in. `received_s` (the loop's time): the request was not
    received before; None: it was received just now. `received`: kept for requests that another node may have to answer.
    `leader_epoch`: of the group's shard as whoever forwarded the request knew it; -1: it was not forwarded, or names many.
    """

    api_version: int
    client_id: str | None
    client_host: str
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    principal: str = "User:ANONYMOUS"
    peer: Peer | None = None
    apis: Mapping[ApiKey, Api] = field(default_factory=lambda: APIS)
    received_s: float | None = None
    received: Received | None = None
    leader_epoch: int = -1


RequestMethod = Callable[[Any, RequestContext], Coroutine[Any, Any, Any]]
"""Answers one API: (request, context) -> response."""


def by_itself(api_key: ApiKey) -> RequestContext:
    """The context of a request that the server makes itself, without a client; newest version."""
    return RequestContext(APIS[api_key].version_max, "bmq", "", principal="User:bmq")
