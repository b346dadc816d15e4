"""A set of connections in the order of their arrival, counted by address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ConnectionsByHost(Generic[T]):
    """Has each connection at most once. The order is that of arrival, so that runs are reproducible."""

    __slots__ = ("_by_host", "_hosts")

    def __init__(self) -> None:
        self._hosts: dict[T, str] = {}
        self._by_host: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[T]:
        return iter(self._hosts)

    def of_host(self, host: str) -> int:
        """How many connections come from this address."""
        return len(self._by_host.get(host, ()))

    def add(self, host: str, one: T) -> None:
        self._hosts[one] = host
        self._by_host.setdefault(host, {})[one] = None

    def remove(self, one: T) -> None:
        """Remove a connection; does nothing if it is not in the set."""
        host = self._hosts.pop(one, None)
        if host is None:
            return
        of_host = self._by_host[host]
        del of_host[one]
        if not of_host:
            del self._by_host[host]

    def oldest(self) -> T:
        """The oldest connection. Raises StopIteration if the set is empty."""
        return next(iter(self._hosts))

    def oldest_of(self, host: str) -> T:
        """The oldest connection from this address. Raises KeyError without one."""
        return next(iter(self._by_host[host]))
