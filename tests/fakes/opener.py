"""Opening of batches on virtual time: done at once, and told of later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from bmq.broker.batch_validation import BatchValidator
from bmq.broker.opener import Opened, validated_at_once
from bmq.broker.opening_room import TURN_NS, TooMuchWork


class FakeOpener:
    """Each opening takes up to `takes_s_max` seconds, by the dice. `opened`: how many there were.
    `outcome`: of all of them, in place of their own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, takes_s_max: float = 0.05) -> None:
        self._loop = loop
        self._random = random
        self._takes_s_max = takes_s_max
        self._is_closed = False
        self.opened = 0
        self.outcome: Exception | None = None

    def open(self, validator: BatchValidator, records: memoryview, now_ms: int, done: Callable[[Opened], None]) -> None:
        outcome = self.outcome or validated_at_once(validator.for_another_thread(), records, now_ms)
        self.opened += 1
        self._loop.call_later(self._random.uniform(0, self._takes_s_max), self._tell, done, outcome)

    def close(self) -> None:
        self._is_closed = True

    def _tell(self, done: Callable[[Opened], None], outcome: Opened) -> None:
        if not self._is_closed:
            done(outcome)


class FakeTurnRoom:
    """Room in a turn of the event loop, by the dice: for a batch that counts, or not."""

    def __init__(self, random: Random, share: float) -> None:
        self._random = random
        self._share = share
        self.scratch = memoryview(bytearray(64 * 1024))
        self.left_ns = TURN_NS

    def take(self, cost_ns: int) -> None:
        if self._random.random() >= self._share:
            raise TooMuchWork


class OneRoom:
    """A Room for one batch. `left_ns` None: any time."""

    def __init__(self, scratch_bytes: int, left_ns: int | None = None) -> None:
        self.scratch = memoryview(bytearray(scratch_bytes))
        self.left_ns = left_ns

    def take(self, cost_ns: int) -> None:
        if self.left_ns is None:
            return
        if cost_ns > self.left_ns:
            raise TooMuchWork
        self.left_ns -= cost_ns
