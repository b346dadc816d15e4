"""How many partitions in use may be on their way to their next owners at once. Decisions only; times in seconds.

Each hand-over costs both owners and the store some fifty calls, and its clients wait for it. How many together are still
quick depends on the machines. So a few go at first, more while each is served quickly, and half as many once one is slow.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final
from uuid import UUID

QUICK_S: Final = 0.15
"""From the record that names the next owner to its report that it serves."""
SLOW_S: Final = 0.2
"""A third of a second is what clients may notice, and they have to hear of the next owner as well."""
REST_S: Final = 1.0
"""After so long without a hand-over it is not known any more how many are quick."""

Key = tuple[UUID, int]


class HandOverPace:
    """`at_first`: the least number at once. `at_once_max`: the greatest. `wait_max_s`: one that lasts longer counts no more."""

    def __init__(self, at_first: int, at_once_max: int, wait_max_s: float) -> None:
        self._at_first = at_first
        self._at_once_max = max(at_first, at_once_max)
        self._wait_max_s = wait_max_s
        self._allowed = float(at_first)
        self._under_way: dict[Key, float] = {}  # when each began, the oldest first
        self._slowed_s = -inf  # hand-overs from before this time say nothing about the present number
        self._is_doubling = True
        self._last_s = -inf

    @property
    def room(self) -> int:
        """How many may begin now."""
        return int(self._allowed) - len(self._under_way)

    @property
    def under_way(self) -> Collection[Key]:
        """Those that are not served yet."""
        return self._under_way.keys()

    @property
    def next_end_s(self) -> float:
        """When the oldest one ceases to count."""
        return next(iter(self._under_way.values()), inf) + self._wait_max_s

    def begin(self, keys: Collection[Key], now_s: float) -> None:
        """These partitions have their next owners by the metadata."""
        if not self._under_way and now_s - self._last_s > REST_S:
            self._allowed, self._is_doubling = float(self._at_first), True
        for key in keys:
            self._under_way.pop(key, None)
            self._under_way[key] = now_s
        self._last_s = now_s

    def served(self, key: Key, now_s: float) -> None:
        """Its next owner serves, or the partition is gone."""
        began_s = self._under_way.pop(key, None)
        if began_s is None:
            return
        self._last_s = now_s
        if now_s - began_s > SLOW_S:
            self._slow_down(began_s, now_s)
        elif now_s - began_s <= QUICK_S and began_s >= self._slowed_s:
            more = 1.0 if self._is_doubling else 1.0 / self._allowed
            self._allowed = min(float(self._at_once_max), self._allowed + more)

    def expire(self, now_s: float) -> None:
        """Count those no more that have lasted too long: others must not wait for them."""
        for key, began_s in list(self._under_way.items()):
            if now_s < began_s + self._wait_max_s:
                return
            del self._under_way[key]
            self._last_s = now_s
            self._slow_down(began_s, now_s)

    def _slow_down(self, began_s: float, now_s: float) -> None:
        if began_s >= self._slowed_s:
            self._allowed = max(float(self._at_first), self._allowed / 2)
            self._slowed_s, self._is_doubling = now_s, False
