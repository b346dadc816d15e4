"""One consumer of librdkafka and the thread that polls it. Its messages arrive on the event loop, and are bounded by bytes.

Only this thread uses the client: others would wait until it is between two polls, and it seldom is for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaException

from bmq.consuming import messages_there

T = TypeVar("T")

_POLL_S: Final = 0.05
_MESSAGES_MAX: Final = 500

_log = structlog.get_logger("bmq.gateway")

Taken = Callable[[Sequence[Any]], None]


class ConsumerThread:
    """`take`: gets messages on the loop, errors among them. `held_max`: batches of messages that the loop has not taken.

    `is_paced`: the loop calls `more` for each batch before another one comes; otherwise `take` returning is enough.
    Make it on the loop. `close` ends the client and the thread, and returns when they are gone.
    """

    def __init__(
        self, config: dict[str, Any], take: Taken, *, name: str, held_max: int = 2, is_paced: bool = False
    ) -> None:
        self._is_paced = is_paced
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._room = threading.Semaphore(held_max)
        self._is_ending = threading.Event()
        self._gone = self._loop.create_future()
        self._orders: SimpleQueue[tuple[Callable[[Any], Any], asyncio.Future[Any]]] = SimpleQueue()
        self._consumer = Consumer(config)
        self._thread = threading.Thread(target=self._run, name=f"gateway-{name}", daemon=True)
        self._thread.start()

    async def order(self, function: Callable[[Any], T]) -> T:
        """The result of `function`, which this thread calls with the client. Raises what it raises, RuntimeError when closed."""
        if self._gone.done():
            raise RuntimeError("the consumer is closed")
        done: asyncio.Future[T] = self._loop.create_future()
        self._orders.put((function, done))
        return await done

    async def close(self) -> None:
        """Leave the group, if it is in one. Messages may come until it returns."""
        self._is_ending.set()
        self._room.release()
        await asyncio.shield(self._gone)

    def _run(self) -> None:
        try:
            while not self._is_ending.is_set():
                self._obey()
                if not self._room.acquire(timeout=_POLL_S) or self._is_ending.is_set():
                    continue
                messages = self._polled()
                if messages:
                    self._call(self._deliver, messages)
                else:
                    self._room.release()
        finally:
            try:
                self._consumer.close()
            except (KafkaException, RuntimeError) as error:
                _log.warning("gateway_consumer_not_closed", reason=str(error))
            self._call(self._end)

    def _obey(self) -> None:
        while True:
            try:
                function, done = self._orders.get_nowait()
            except Empty:
                return
            try:
                result = function(self._consumer)
            except (KafkaException, RuntimeError, ValueError, TypeError) as error:
                self._call(_fail, done, error)
            else:
                self._call(_resolve, done, result)

    def _polled(self) -> Sequence[Any]:
        messages: list[Any] = []
        try:
            for message in messages_there(self._consumer, _MESSAGES_MAX, _POLL_S):
                messages.append(message)  # noqa: PERF402  # those before a failure stay
        except KafkaException as error:
            messages.append(_Failed(error.args[0]))
        except RuntimeError:  # closed while the process ends
            self._is_ending.set()
        return messages

    def _deliver(self, messages: Sequence[Any]) -> None:
        if not self._is_paced:
            self._room.release()
        self._take(messages)

    def more(self) -> None:
        """The loop has taken one batch of messages."""
        self._room.release()

    def _end(self) -> None:
        while not self._orders.empty():
            _fail(self._orders.get_nowait()[1], RuntimeError("the consumer is closed"))
        if not self._gone.done():
            self._gone.set_result(None)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop has ended
            self._is_ending.set()


def _resolve(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


class _Failed:
    """An error that `consume` raised, in the shape of a message."""

    def __init__(self, error: Any) -> None:
        self._error = error

    def error(self) -> Any:
        return self._error

    def topic(self) -> None:
        return None

    def partition(self) -> None:
        return None
