"""Begins a few TLS handshakes in each turn of the event loop: address by address, and those of one address in order of arrival.

A handshake's first answer takes up to a millisecond of the processor. Clients that come at once, after a network failure or to do
harm, wait for each other here, and the requests of all others for no more than the handshakes of one turn. A client waits for one
handshake of each other address, and not for all that a stranger has queued: before its turn came it could be the oldest pending
connection, and be closed (pending_connections).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
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
        # By address; the one that was served last stands last.
        self._waiting: OrderedDict[str, dict[Handshake, None]] = OrderedDict()
        self._is_turn_due = False

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, host: str, one: Handshake) -> None:
        """Begin it in its turn. `host`: the client's address."""
        self._waiting.setdefault(host, {})[one] = None
        self._turn_soon()

    def remove(self, host: str, one: Handshake) -> None:
        """Do not begin it; does nothing if it has begun, or was never added."""
        of_host = self._waiting.get(host)
        if of_host is None:
            return
        of_host.pop(one, None)
        if not of_host:
            del self._waiting[host]

    def _turn_soon(self) -> None:
        if self._waiting and not self._is_turn_due:
            self._is_turn_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        for _ in range(self._per_turn_max):
            if not self._waiting:
                break
            host, of_host = next(iter(self._waiting.items()))
            self._waiting.move_to_end(host)
            one = next(iter(of_host))
            self.remove(host, one)
            one.begin()
        self._turn_soon()
