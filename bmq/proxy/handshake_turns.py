"""Begins a few TLS handshakes in each turn of the event loop, in order of arrival.

A handshake's first answer takes up to a millisecond of the processor. Clients that come at once, after a network failure or to do
harm, wait for each other here, and the requests of all others for no more than the handshakes of one turn.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

HANDSHAKES_PER_TURN_MAX: Final = 1


class Handshake(Protocol):
    """One client's handshake, whose first record has come."""

    def begin(self) -> None: ...


class HandshakeTurns:
    """`call_soon`: of the event loop."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], per_turn_max: int = HANDSHAKES_PER_TURN_MAX
    ) -> None:
        self._call_soon = call_soon
        self._per_turn_max = per_turn_max
        self._waiting: dict[Handshake, None] = {}
        self._is_turn_due = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: Handshake) -> None:
        """Begin it in its turn."""
        self._waiting[one] = None
        self._turn_soon()

    def remove(self, one: Handshake) -> None:
        """Do not begin it; does nothing if it has begun, or was never added."""
        self._waiting.pop(one, None)

    def _turn_soon(self) -> None:
        if self._waiting and not self._is_turn_due:
            self._is_turn_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        for one in list(islice(self._waiting, self._per_turn_max)):
            del self._waiting[one]
            one.begin()
        self._turn_soon()
