"""Measures how much of the event loop's time a client's requests take, for the quota `request_percentage` (KIP-124).

100 is all of one processor, because the event loop is one thread. The time counts while a handler runs here. Work of another node
for the request does not count.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

from bmq.security.quotas.rate import WINDOW_MS, Rate, rate_throttle_ms

T = TypeVar("T")


class RequestTime:
    """The request time of all connections under one quota.

    `limit`: the quota, in percent. `elapsed_s`: a clock that advances within a turn of the event loop.
    """

    __slots__ = ("_elapsed_s", "_is_running", "_loop", "_rate", "limit")

    def __init__(self, loop: AbstractEventLoop, elapsed_s: Callable[[], float], limit: float) -> None:
        self._loop = loop
        self._elapsed_s = elapsed_s
        self._rate = Rate()
        self._is_running = False
        self.limit = limit

    def wait_ms(self) -> int:
        """Milliseconds that the client has to wait: at most one window, as in Kafka."""
        rate, measured_ms = self._rate.measure(self._now_ms())
        return min(rate_throttle_ms(rate, self.limit, measured_ms), WINDOW_MS)

    @property
    def is_idle(self) -> bool:
        """Whether no time was counted lately, so that a new object would be the same."""
        return self._rate.measure(self._now_ms())[0] <= 0

    def call(self, work: Callable[[], T]) -> T:
        """Call `work` and count its time. A call within such a call is not counted again."""
        if self._is_running:
            return work()
        self._is_running = True
        began_s = self._elapsed_s()
        try:
            return work()
        finally:
            self._is_running = False
            self._rate.record((self._elapsed_s() - began_s) * 100, self._now_ms())

    @coroutine
    def drive(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await `work`, and count the time in which it runs, without the time in which it waits."""
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            try:
                waited_for = self.call(step)
            except StopIteration as stop:
                result: T = stop.value
                return result
            try:
                step = partial(work.send, (yield waited_for))
            except BaseException as error:  # noqa: BLE001 the coroutine may handle it
                step = partial(work.throw, error)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)
