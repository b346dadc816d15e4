"""The receiver of a request's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bmq.protocol.parts import Part


class Reply(Protocol):
    """Takes a response frame without its length prefix, in pieces that are sent unchanged; None closes the connection.

    An empty sequence: the request has no answer (Produce with acks=0). `is_done`: it was called, or the client has disconnected.
    """

    @property
    def is_done(self) -> bool: ...

    def __call__(self, buffers: Sequence[Part] | None) -> None: ...
