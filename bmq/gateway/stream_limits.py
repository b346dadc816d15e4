"""How many calls are open, in all and of one address. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from bmq.gateway.failure import GatewayFailed


class StreamLimits:
    """Counts open calls."""

    def __init__(self, in_all_max: int, per_peer_max: int) -> None:
        self._in_all_max = in_all_max
        self._per_peer_max = per_peer_max
        self._of: Counter[str] = Counter()
        self.count = 0

    @contextmanager
    def open(self, peer: str) -> Iterator[None]:
        """`peer`: as gRPC tells it, `ipv4:127.0.0.1:4711`. Raises GatewayFailed, RESOURCE_EXHAUSTED."""
        host = host_of(peer)
        if self.count >= self._in_all_max:
            raise GatewayFailed("RESOURCE_EXHAUSTED", f"{self._in_all_max} calls are open; use another gateway")
        if self._of[host] >= self._per_peer_max:
            raise GatewayFailed(
                "RESOURCE_EXHAUSTED", f"{self._per_peer_max} calls of this address are open; close some"
            )
        self._of[host] += 1
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
            self._of[host] -= 1
            if not self._of[host]:
                del self._of[host]


def host_of(peer: str) -> str:
    """The address without its port."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0] if kind in ("ipv4", "ipv6") else rest or kind
