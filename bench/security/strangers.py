"""Connections that stop in the middle of TLS or SASL, from many addresses of the loopback network.

They send nothing more. When the server closes one, another takes its place: at once, or at a rate.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final

from bench.security.logins import _framed
from bench.security.sides import MECHANISM, SASL, SSL
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

# The head of a record of 512 bytes that holds a ClientHello, and four bytes of it.
HALF_CLIENT_HELLO: Final = bytes.fromhex("1603010200010001fc")
HALF_SASL: Final = _framed(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=MECHANISM)) + b"\x00\x00"
_HALVES: Final = {SSL: HALF_CLIENT_HELLO, SASL: HALF_SASL}
ADDRESSES: Final = 250
LOOK_S: Final = 0.01
"""How often it is looked which were closed, and how evenly places are taken again."""


class Places:
    """Which of the places that became free are taken again, and when. `returns_per_s`: None: each at once. `now_s`: the start."""

    def __init__(self, returns_per_s: float | None, now_s: float) -> None:
        self._returns_per_s = returns_per_s
        self._taken_until_s = now_s
        self._free = 0

    def add(self, count: int) -> None:
        """So many are free again."""
        self._free += count

    def due(self, now_s: float) -> int:
        """How many are taken now. What was not taken in time because none was free is not made up for."""
        if self._returns_per_s is None:
            count = self._free
        else:
            allowed = int((now_s - self._taken_until_s) * self._returns_per_s)
            self._taken_until_s += allowed / self._returns_per_s
            count = min(self._free, allowed)
        self._free -= count
        return count


class Strangers:
    """`count` of them, to each of `listeners` in turn; `returns_per_s`: see Places. A context: all are closed behind it.
    `opened`, `closed`: connections so far.
    """

    def __init__(
        self,
        ports: Mapping[str, int],
        count: int,
        returns_per_s: float | None,
        listeners: Sequence[str] = (SSL, SASL),
    ) -> None:
        self._targets = [(ports[one], _HALVES[one]) for one in listeners]
        self._count = count
        self._returns_per_s = returns_per_s
        self._selector = selectors.DefaultSelector()
        self._numbers = iter(range(10**9))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._replace, daemon=True)
        self.opened = 0
        self.closed = 0

    def __enter__(self) -> Strangers:
        return self

    def arrive(self) -> None:
        for _ in range(self._count):
            self._open()
        self._thread.start()

    def _open(self) -> bool:
        """Whether the server took it, as far as it can be seen."""
        number = next(self._numbers)
        port, half = self._targets[number % len(self._targets)]
        stranger = socket.socket()
        try:
            stranger.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
            stranger.connect(("127.0.0.1", port))
            stranger.sendall(half)
        except OSError:
            stranger.close()
            self.closed += 1
            return False
        stranger.setblocking(False)
        self._selector.register(stranger, selectors.EVENT_READ)
        self.opened += 1
        return True

    def _replace(self) -> None:
        places = Places(self._returns_per_s, time.monotonic())
        places.add(self._count - len(self._selector.get_map()))
        while not self._is_over.is_set():
            places.add(self._closed_ones())
            places.add(sum(not self._open() for _ in range(places.due(time.monotonic()))))
            if self._returns_per_s is not None:
                self._is_over.wait(LOOK_S)

    def _closed_ones(self) -> int:
        """How many the server has closed since the last look."""
        count = 0
        for key, _ in self._selector.select(LOOK_S):
            stranger = key.fileobj
            assert isinstance(stranger, socket.socket)
            try:
                is_open = bool(stranger.recv(4096))
            except OSError:
                is_open = False
            if not is_open:
                self._selector.unregister(stranger)
                stranger.close()
                count += 1
        self.closed += count
        return count

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()
