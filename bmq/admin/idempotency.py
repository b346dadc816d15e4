"""Idempotency keys: repeating a key with an equal order gives the same task, for clients that lost the answer. Pure."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from cachetools import TTLCache

from bmq.log.clock import Clock
from bmq.protocol.errors import BmqError

KEYS_MAX: Final = 1_000
KEY_EXPIRY_MS: Final = 24 * 60 * 60 * 1000

T = TypeVar("T")


class KeyReused(BmqError):
    """The key came with another order before."""


class IdempotencyKeys(Generic[T]):
    """The newest keys of one process, for a day at most. Orders are compared by equality."""

    def __init__(self, clock: Clock) -> None:
        self._uses: TTLCache[str, tuple[object, T]] = TTLCache(KEYS_MAX, KEY_EXPIRY_MS, timer=clock.now_ms)

    def outcome_of(self, key: str, order: object) -> T | None:
        """The outcome of the key's first use; None for a new key. Raises KeyReused."""
        use = self._uses.get(key)
        if use is None:
            return None
        first_order, outcome = use
        if first_order != order:
            raise KeyReused(f"the Idempotency-Key {key!r} was used for another request; choose a new key")
        return outcome

    def remember(self, key: str, order: object, outcome: T) -> None:
        """The key must be new."""
        self._uses[key] = (order, outcome)

    def forget_all(self) -> None:
        self._uses.clear()
