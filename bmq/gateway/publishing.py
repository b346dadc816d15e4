"""Writes the records of requests by one user's producer, which all the user's calls share: large batches for the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from bmq.gateway.cluster_config import producer_config
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.known_topics import KnownTopics
from bmq.gateway.principal import Principal
from bmq.gateway.publish_requests import Outcome, Publishable
from bmq.gateway.received import failure_of

_POLL_S: Final = 0.002
RECORDS_PER_TURN: Final = 2_000
"""So many records go to the producer before other calls have their turn."""
FATAL: Final = -150
"""RD_KAFKA_RESP_ERR__FATAL."""
QUEUE_FULL: Final = -184
"""RD_KAFKA_RESP_ERR__QUEUE_FULL."""


class Publishing:
    """One producer. The event loop takes its reports while some are missing."""

    def __init__(self, principal: Principal) -> None:
        self._loop = asyncio.get_running_loop()
        self._topics = principal.part(KnownTopics)
        self._config = {**principal.config, **producer_config(principal.settings)}
        self._producer = Producer(self._config)
        self._has_failed = False
        self._polling: asyncio.TimerHandle | None = None
        self._handing_over: set[asyncio.Task[None]] = set()

    async def begin(self, request: Publishable) -> asyncio.Future[Outcome]:
        """Hand all records of a request to the producer, in order; the future tells what became of them.

        Raises GatewayFailed before anything is written. Calls after each other keep their order. A call that is cancelled
        leaves its records with the producer: they are written.
        """
        count = await self._topics.partition_count(request.topic)
        high = request.partition_max
        if high >= count:
            self._topics.forget(request.topic)
            raise GatewayFailed("NOT_FOUND", f"topic {request.topic!r} has {count} partitions, not partition {high}")
        if self._has_failed and not len(self._producer):
            self._producer, self._has_failed = Producer(self._config), False
        done: asyncio.Future[Outcome] = self._loop.create_future()
        outcome = Outcome(len(request.records))
        if len(request.records) <= RECORDS_PER_TURN:
            self._produce(request, outcome, done, range(len(request.records)))
            return done
        task = asyncio.ensure_future(self._produce_in_turns(request, outcome, done))
        self._handing_over.add(task)
        task.add_done_callback(self._handing_over.discard)
        await asyncio.shield(task)
        return done

    async def _produce_in_turns(self, request: Publishable, outcome: Outcome, done: asyncio.Future[Outcome]) -> None:
        count = len(request.records)
        for start in range(0, count, RECORDS_PER_TURN):
            self._produce(request, outcome, done, range(start, min(start + RECORDS_PER_TURN, count)))
            await asyncio.sleep(0)

    def _produce(self, request: Publishable, outcome: Outcome, done: asyncio.Future[Outcome], part: range) -> None:
        written = outcome.written
        if self._polling is None:
            self._polling = self._loop.call_later(_POLL_S, self._poll)

        def report(index: int, error: Any, message: Any) -> None:
            """Called by `poll`, for each record: what it costs counts."""
            if error is not None:
                self._note_failure(error)
                self._fail(outcome, done, index, failure_of(error, "the record is not written"))
            elif written(index, message.partition(), message.offset()):
                _resolve(done, outcome)

        if request.is_plain:
            self._produce_batch(request, outcome, done, part, report)
            return
        for index in part:
            try:
                self._producer.produce(request.topic, on_delivery=partial(report, index), **request.records[index])
            except BufferError:
                self._fail(outcome, done, index, _full())
            except KafkaException as error:
                self._refuse(outcome, done, index, error.args[0])
            except (TypeError, ValueError) as error:
                self._fail(outcome, done, index, GatewayFailed("INVALID_ARGUMENT", f"the record is refused: {error}"))

    def _produce_batch(
        self,
        request: Publishable,
        outcome: Outcome,
        done: asyncio.Future[Outcome],
        part: range,
        report: Callable[[int, Any, Any], None],
    ) -> None:
        """One call for all records: each `produce` looks the topic up under a lock that the library's threads want too. It
        takes no headers.
        """
        messages = request.records[part.start : part.stop]
        for index, message in zip(part, messages, strict=True):
            message["callback"] = partial(report, index)
        try:
            if self._producer.produce_batch(request.topic, messages) == len(messages):
                return
        except KafkaException as error:
            for index in part:
                self._refuse(outcome, done, index, error.args[0])
            return
        for index, message in zip(part, messages, strict=True):
            refused = message.get("_error")
            if refused is None:
                continue
            if refused.code() == QUEUE_FULL:
                self._fail(outcome, done, index, _full())
            else:
                self._refuse(outcome, done, index, refused)

    def _refuse(self, outcome: Outcome, done: asyncio.Future[Outcome], index: int, error: Any) -> None:
        self._note_failure(error)
        self._fail(outcome, done, index, failure_of(error, "the record is refused"))

    def _note_failure(self, error: Any) -> None:
        """An idempotent producer does not recover from a fatal error, such as a missing right: then another one is made."""
        self._has_failed = self._has_failed or error.fatal() or error.code() == FATAL

    def _fail(self, outcome: Outcome, done: asyncio.Future[Outcome], index: int, failure: GatewayFailed) -> None:
        if outcome.failed(index, failure):
            _resolve(done, outcome)

    def _call_back(self) -> None:
        """Let the library report what was written, and what was not. It raises its fatal error here, too."""
        try:
            self._producer.poll(0)
        except KafkaException as raised:
            self._note_failure(raised.args[0])

    def _poll(self) -> None:
        self._call_back()
        self._polling = self._loop.call_later(_POLL_S, self._poll) if len(self._producer) else None

    def tick(self) -> None:
        """Implements Ticking."""
        if self._polling is None:
            self._call_back()

    async def close(self) -> None:
        """Wait until what was accepted is written, within the time that records have for it."""
        while self._handing_over:
            await asyncio.wait(set(self._handing_over))
        while len(self._producer):
            self._call_back()
            await asyncio.sleep(_POLL_S)
        if self._polling is not None:
            self._polling.cancel()


def _full() -> GatewayFailed:
    return GatewayFailed("RESOURCE_EXHAUSTED", "the producer is full; send it again")


def _resolve(done: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not done.done():
        done.set_result(outcome)
