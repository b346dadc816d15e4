"""One request and its answer. Answers leave a connection in the order of the requests, whenever they are ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from bmq.protocol.wire import Buffer

if TYPE_CHECKING:
    from bmq.proxy.connection import Connection

_NOTHING: Final[tuple[Buffer, ...]] = ()


class Exchange:
    """A request in flight. Exactly one of `respond`, `respond_nothing` and `close` is called, once.

    `when_lost`, if set, is called when the connection ends first, so that nobody waits for a client that is gone;
    `hurry`, if set, when the server stops: a waiting request answers with what it has.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "body_position",
        "buffers",
        "client_id",
        "closes",
        "connection",
        "correlation_id",
        "error_code",
        "frame",
        "held_bytes",
        "hurry",
        "is_done",
        "request_bytes",
        "response_bytes",
        "started_s",
        "when_lost",
    )

    def __init__(
        self,
        connection: Connection,
        frame: bytearray,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body_position: int,
        request_bytes: int,
        started_s: float,
    ) -> None:
        self.connection = connection
        self.frame = frame
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_position = body_position
        self.request_bytes = request_bytes  # counted as in flight for it
        self.started_s = started_s
        self.is_done = False
        self.closes = False
        self.error_code = 0
        self.buffers: Sequence[Buffer] = _NOTHING
        self.response_bytes = 0
        self.held_bytes = 0  # of the fetch budget, until the answer is sent
        self.when_lost: Callable[[], None] | None = None
        self.hurry: Callable[[], None] | None = None

    def respond(self, buffers: Sequence[Buffer], error_code: int = 0) -> None:
        """A whole response frame without its length prefix, header included. `error_code` is for the metrics."""
        if self.is_done:
            return
        self.buffers = buffers
        self.response_bytes = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        self.error_code = error_code
        self._finish()

    def respond_nothing(self) -> None:
        """Produce with acks=0 has no response."""
        if not self.is_done:
            self._finish()

    def close(self, reason: str, error_code: int = 0) -> None:
        """End the connection after the answers before this one."""
        if self.is_done:
            return
        self.closes = True
        self.error_code = error_code
        self.connection.report("request_refused", reason=reason, api=self.api_key, version=self.api_version)
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        self.when_lost = None
        self.hurry = None
        self.frame = bytearray()  # a batch in it may stay in the tail cache; the rest need not wait for the client
        self.connection.finished(self)
