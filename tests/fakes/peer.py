"""A client's connection that a test ends."""

from __future__ import annotations

from collections.abc import Callable


class FakePeer:
    """`lost`: what to call, once, when it is closed."""

    def __init__(self) -> None:
        self.lost: list[Callable[[], None]] = []

    def on_lost(self, lost: Callable[[], None]) -> None:
        self.lost.append(lost)
