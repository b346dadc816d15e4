"""Limits connections whose clients are not authenticated yet: in a TLS handshake, or before their login. Decisions only.

Without a limit they could take all memory and descriptors. Beyond it the oldest one is closed: a genuine client is done within
milliseconds.
"""

from __future__ import annotations

from typing import Protocol

from bmq.proxy.connections_by_host import ConnectionsByHost


class Pending(Protocol):
    """A connection that is not authenticated yet, and can be dropped."""

    def close(self, reason: str) -> None: ...


class PendingConnections:
    """`total_max`, `per_host_max`: most pending connections, in all and from one address."""

    def __init__(self, total_max: int, per_host_max: int) -> None:
        self._total_max = total_max
        self._per_host_max = per_host_max
        self._waiting: ConnectionsByHost[Pending] = ConnectionsByHost()

    def __len__(self) -> int:
        return len(self._waiting)

    def of_host(self, host: str) -> int:
        return self._waiting.of_host(host)

    def add(self, host: str, one: Pending) -> None:
        """Count a connection until `remove`. Beyond a limit the oldest from its address, or of all, is closed."""
        waiting = self._waiting
        waiting.add(host, one)
        if waiting.of_host(host) > self._per_host_max:
            newer = f"{self._per_host_max} newer connections from its address have not"
            self._drop(waiting.oldest_of(host), newer)
        elif len(waiting) > self._total_max:
            self._drop(waiting.oldest(), f"{self._total_max} newer connections have not")

    def remove(self, one: Pending) -> None:
        """Stop counting a connection: its client is authenticated, or it is closed."""
        self._waiting.remove(one)

    def _drop(self, oldest: Pending, why: str) -> None:
        self.remove(oldest)
        oldest.close(f"it has not said who it is, and {why} either")
