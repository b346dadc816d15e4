"""What goes wrong with the store as a whole, between the rounds of a history's chaos."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from tests.fakes.store import FakeStore

STALE_S = (0.05, 5.0)
FULL_S = (0.1, 3.0)


class StoreTroubles:
    """`rates`: by name, as in fault_rates.py."""

    def __init__(self, store: FakeStore, dice: random.Random, rates: Mapping[str, float]) -> None:
        self._store = store
        self._dice = dice
        self._rates = rates

    def maybe_begin(self) -> None:
        """Each ends by itself, or with `end`."""
        store, dice = self._store, self._dice
        if dice.random() < self._rates["stale_reads"]:
            store.fail_over(stale_s=dice.uniform(*STALE_S))
        if dice.random() < self._rates["full_stores"]:
            store.capacity_bytes = store.namespace.used_bytes + dice.randrange(3_000)
            loop = asyncio.get_running_loop()
            loop.call_later(dice.uniform(*FULL_S), self._make_space, context=store.context)

    def end(self) -> None:
        self._store.end_fail_over()
        self._make_space()

    def _make_space(self) -> None:
        self._store.capacity_bytes = None
