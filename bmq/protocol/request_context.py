"""Who asks: what a listener knows of the client behind a request, on its way to whoever answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bmq.protocol.apis import APIS, Api, ApiKey


class Peer(Protocol):
    """The connection a request came over."""

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call once when it is closed, from whichever side; soon if it is already."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came: the frame without its length prefix, and the message that was decoded from it."""

    frame: bytes | bytearray
    message: Any


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, and in which version. `peer` is None where a request did not come over a connection of its own.

    `apis`: what is served where the request came in. `received_s` (the loop's time): when the request was received, at
    the latest; None where that was just now. `received`: kept for requests that another node may have to answer.
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
