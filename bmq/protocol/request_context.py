"""The context of a request: what a listener knows about the client, for the handler that answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from typing import Any, Final, Protocol

from bmq.dataclass import dataclass
from bmq.protocol.apis import ALL_APIS, Api, ApiKey
from bmq.protocol.turns import NO_TURNS, Turns


class Peer(Protocol):
    """The connection a request came over."""

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call `lost` once when the connection is closed, by either side; if it is closed already, soon."""

    @property
    def age_s(self) -> float:
        """Seconds since its first bytes were received."""

    def begin(self, work: Coroutine[Any, Any, None], ended: Callable[[], None] | None = None) -> None:
        """Run work that ends with the connection. `ended` is called after it, even if it never began."""


class Throttle(Protocol):
    """The quotas of the client that a request came from. Times to wait are milliseconds; 0: go on.

    A time that is returned is told to the client, and its connection is muted for so long (KIP-219).
    """

    def may_begin(self, api_key: int, size_bytes: int) -> bool:
        """Whether a request may be begun now; else its connection is called when it may."""

    def call(self, work: Callable[[], None]) -> None:
        """Run a part of a request, whose time may count."""

    async def drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await a request's handler, whose time may count."""

    def close(self) -> None:
        """The connection is gone."""

    def produced(self) -> int:
        """A produce is being answered; its bytes were counted when it was begun."""

    def fetch_wait_ms(self) -> int:
        """Before records are sent: not 0 if the answer has to be empty."""

    def fetched(self, size_bytes: int) -> int:
        """An answer with so many bytes is being sent."""

    @property
    def fetch_bytes_max(self) -> int:
        """Most bytes of one answer."""

    def answered(self, throttle_ms: int) -> int:
        """Another request is being answered; `throttle_ms`: the controller already tells the client to wait so long."""


ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not authenticated: TYPE:NAME, as in an ACL."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as received: the frame without its length prefix, and the decoded message."""

    frame: bytes | bytearray
    message: Any


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The client and the version of a request. `peer` is None if the request did not come over its own connection.

    `principal`: TYPE:NAME. `is_token`: it authenticated by a delegation token. `listener`: name of the listener the client
    came by. `apis`: the APIs served by the listener. `received_s` (StallWatch.now_s): the request was not received before that;
    None: it was received just now. `received`: kept for requests that another node may have to answer. `leader_epoch`:
    of the group's shard, as known to the node that forwarded the request; -1: not forwarded, or the request names many.
    `client_port`: -1 if the request did not come over its own connection. `turns`: how a long request gives the event
    loop to others.
    """

    api_version: int
    client_id: str | None
    client_host: str
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    principal: str = ANONYMOUS
    is_token: bool = False
    listener: str = "PLAINTEXT"
    peer: Peer | None = None
    apis: Mapping[ApiKey, Api] = field(default_factory=lambda: ALL_APIS)
    received_s: float | None = None
    received: Received | None = None
    leader_epoch: int = -1
    client_port: int = -1
    turns: Turns = NO_TURNS
    throttle: Throttle | None = None


_OWN_PRINCIPAL: Final = "User:bmq"
NO_HOSTS: Final = ("", "unknown")
"""Here, and as an Envelope gives it to another node."""
RequestMethod = Callable[[Any, RequestContext], Coroutine[Any, Any, Any]]
"""Answers one API: (request, context) -> response."""


def by_itself(api_key: ApiKey) -> RequestContext:
    """The context of a request that the server makes itself, without a client; newest version."""
    return RequestContext(ALL_APIS[api_key].version_max, "bmq", "", principal=_OWN_PRINCIPAL)


def is_own(context: RequestContext) -> bool:
    """Whether a server made the request itself: a client's has an address."""
    return context.principal == _OWN_PRINCIPAL and context.client_host in NO_HOSTS
