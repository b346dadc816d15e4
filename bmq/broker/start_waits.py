"""The partitions of a process that cannot be started, because the store refuses something or does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class StartWait(NamedTuple):
    """One partition. `waited_s`: since the first try failed. `reason`: the store's last sentence."""

    partition: str
    waited_s: float
    reason: str


class StartWaits:
    """An entry for each effect of a start that is tried again, for as long as it is."""

    def __init__(self, elapsed_s: Callable[[], float]) -> None:
        self._elapsed_s = elapsed_s
        self._failed: dict[object, tuple[float, str, str]] = {}  # (since, partition, reason), the oldest first

    def failed(self, effect: object, partition: str, reason: str) -> None:
        """A try of `effect`, which nothing else is equal to, failed."""
        since_s = self._failed[effect][0] if effect in self._failed else self._elapsed_s()
        self._failed[effect] = since_s, partition, reason

    def ended(self, effect: object) -> None:
        """It is not tried any more."""
        self._failed.pop(effect, None)

    def longer_than(self, seconds: float) -> tuple[StartWait, ...]:
        """One for each partition that waits so long, the longest first."""
        now_s = self._elapsed_s()
        found: dict[str, StartWait] = {}
        for since_s, partition, reason in self._failed.values():
            if now_s - since_s >= seconds:
                found.setdefault(partition, StartWait(partition, now_s - since_s, reason))
        return tuple(found.values())
