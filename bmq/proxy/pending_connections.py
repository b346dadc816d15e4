"""Connections whose clients are not known yet: in a TLS handshake, or before their login. Decisions only.

Without a bound they could take all memory and descriptors before anybody has proved anything. Beyond a limit the oldest
gives way: a client that means it is done within milliseconds.
"""

from __future__ import annotations

from typing import Protocol


class Pending(Protocol):
    """A connection that is not done; it can be dropped."""

    def close(self, reason: str) -> None: ...


class PendingConnections:
    """In the order of their arrival, by address. `total_max`, `per_host_max`: how many there may be."""

    def __init__(self, total_max: int, per_host_max: int) -> None:
        self._total_max = total_max
        self._per_host_max = per_host_max
        self._hosts: dict[Pending, str] = {}
        self._by_host: dict[str, dict[Pending, None]] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def of_host(self, host: str) -> int:
        return len(self._by_host.get(host, ()))

    def add(self, host: str, one: Pending) -> None:
        """Count it until `remove`; beyond a limit the oldest of its address, or of all, is closed."""
        of_host = self._by_host.setdefault(host, {})
        self._hosts[one] = host
        of_host[one] = None
        if len(of_host) > self._per_host_max:
            self._drop(next(iter(of_host)), f"{self._per_host_max} newer connections from its address have not")
        elif len(self._hosts) > self._total_max:
            self._drop(next(iter(self._hosts)), f"{self._total_max} newer connections have not")

    def remove(self, one: Pending) -> None:
        """It is known now, or gone."""
        host = self._hosts.pop(one, None)
        if host is None:
            return
        of_host = self._by_host[host]
        del of_host[one]
        if not of_host:
            del self._by_host[host]

    def _drop(self, oldest: Pending, why: str) -> None:
        self.remove(oldest)
        oldest.close(f"it has not said who it is, and {why} either")
