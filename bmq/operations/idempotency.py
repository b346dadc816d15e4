"""The same key and the same order: the same task, however often it is asked for (a client that did not hear the answer)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from bmq.log.clock import Clock
from bmq.protocol.errors import BmqError

KEYS_MAX: Final = 1_000
KEY_EXPIRY_MS: Final = 24 * 60 * 60 * 1000

T = TypeVar("T")


class KeyReused(BmqError):
    """The key came with another order before."""


@dataclass(frozen=True, slots=True)
class _Use(Generic[T]):
    order: object
    outcome: T
    at_ms: int


class IdempotencyKeys(Generic[T]):
    """The newest keys of one process, for a day at most. Orders are compared by equality."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._uses: dict[str, _Use[T]] = {}

    def outcome_of(self, key: str, order: object) -> T | None:
        """What the first use of the key led to; None for a new one. Raises KeyReused."""
        self._expire()
        use = self._uses.get(key)
        if use is None:
            return None
        if use.order != order:
            raise KeyReused(f"the Idempotency-Key {key!r} was used for another request; choose a new key")
        return use.outcome

    def remember(self, key: str, order: object, outcome: T) -> None:
        """The key must be new."""
        while len(self._uses) >= KEYS_MAX:
            del self._uses[next(iter(self._uses))]
        self._uses[key] = _Use(order, outcome, self._clock.now_ms())

    def forget_all(self) -> None:
        self._uses.clear()

    def _expire(self) -> None:
        oldest_ms = self._clock.now_ms() - KEY_EXPIRY_MS
        # In the order of their first use, so those that are too old stand in front.
        while self._uses and self._uses[key := next(iter(self._uses))].at_ms < oldest_ms:
            del self._uses[key]
