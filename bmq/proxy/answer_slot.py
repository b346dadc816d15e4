"""The place of one request in the order of a connection's answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from bmq.protocol.parts import Part

_NO_ANSWER: Final[Sequence[Part]] = ()


class Answered(Protocol):
    """The connection of the request."""

    host: str

    def answered(self, slot: Slot) -> None: ...

    def close(self, reason: str) -> None: ...

    def release(self, slot: Slot, /) -> None:
        """Begin the next request: this one's order among those of its connection is certain."""


class Slot:
    """Implements bmq.proxy.reply.Reply: call it with the answer. `request_bytes`: counted in flight until that is sent.

    `when_sent`: called once, when the answer is about to be sent or the client has left; set for requests that are traced.
    """

    __slots__ = ("api_key", "buffers", "connection", "is_done", "request_bytes", "started_s", "when_sent")

    def __init__(self, connection: Answered, api_key: int, request_bytes: int, started_s: float) -> None:
        self.connection = connection
        self.api_key = api_key
        self.request_bytes = request_bytes
        self.started_s = started_s
        self.is_done = False
        self.buffers: Sequence[Part] = _NO_ANSWER
        self.when_sent: Callable[[], None] | None = None

    def lose(self) -> None:
        """The client has left: nothing can be sent."""
        self.is_done = True
        sent, self.when_sent = self.when_sent, None
        if sent is not None:
            sent()

    def __call__(self, buffers: Sequence[Part] | None) -> None:
        if not self.is_done:
            self.is_done = True
            if buffers is None:
                self.connection.close("the request cannot be answered")
            else:
                self.buffers = buffers
                self.connection.answered(self)
