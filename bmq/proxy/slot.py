"""One request's place in the order of a connection's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from bmq.protocol.parts import Part

_NO_ANSWER: Final[Sequence[Part]] = ()


class Answered(Protocol):
    """The connection that the request came by."""

    host: str

    def answered(self, slot: Slot) -> None: ...

    def close(self, reason: str) -> None: ...

    def release(self, slot: Slot, /) -> None:
        """The request's order among those of its connection is certain: the next one may begin."""


class Slot:
    """Call it with the answer; see bmq.proxy.reply.Reply. `request_bytes`: counted in flight until it is sent."""

    __slots__ = ("api_key", "buffers", "connection", "is_done", "request_bytes", "started_s")

    def __init__(self, connection: Answered, api_key: int, request_bytes: int, started_s: float) -> None:
        self.connection = connection
        self.api_key = api_key
        self.request_bytes = request_bytes
        self.started_s = started_s
        self.is_done = False
        self.buffers: Sequence[Part] = _NO_ANSWER

    def __call__(self, buffers: Sequence[Part] | None) -> None:
        if not self.is_done:
            self.is_done = True
            if buffers is None:
                self.connection.close("the request cannot be answered")
            else:
                self.buffers = buffers
                self.connection.answered(self)
