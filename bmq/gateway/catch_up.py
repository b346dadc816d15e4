"""Reads older records for one subscriber, until the windows of the newest ones cover what comes next.

It has a consumer of its own, of which all users together have a bounded number. librdkafka reads ahead of the
subscriber by its own bounded queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition

from bmq.gateway.cluster_config import reader_config
from bmq.gateway.consumer_thread import ConsumerThread
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord, Place
from bmq.gateway.principal import Principal
from bmq.gateway.received import PARTITION_EOF, failure_of, is_passing, record_of
from bmq.gateway.subscriber import Subscriber


class CatchUp:
    """Reads `places` from these offsets on. The set only shrinks: for other places or offsets, another one is made."""

    def __init__(self, principal: Principal, subscriber: Subscriber, places: Mapping[Place, int]) -> None:
        self._principal = principal
        self._subscriber = subscriber
        self._records: dict[Place, deque[HeldRecord | int]] = {place: deque() for place in places}
        self._untaken = 0
        self._is_batch_held = False
        self._thread: ConsumerThread | None = None
        self._work = asyncio.ensure_future(self._open(dict(places)))
        self._work.add_done_callback(self._note_opening)
        self._unassigning: set[asyncio.Future[None]] = set()

    def _note_opening(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled() and (error := work.exception()) is not None:
            self._subscriber.fail(GatewayFailed("UNKNOWN", f"older records cannot be read: {error}"))

    @property
    def is_over(self) -> bool:
        """Whether it reads nothing any more."""
        return not self._records

    def reads(self, place: Place) -> bool:
        return place in self._records

    def peek(self, place: Place) -> HeldRecord | int | None:
        """The next of a place: a record, or an offset that was reached without one. None while there is nothing."""
        records = self._records[place]
        return records[0] if records else None

    def take(self, place: Place) -> None:
        """The next of a place was taken."""
        self._records[place].popleft()
        self._untaken -= 1
        self._ask_for_more()

    def done(self, place: Place) -> None:
        """Do not read this place any more."""
        self._untaken -= len(self._records.pop(place))
        if self._thread is not None and self._records:
            gone = [TopicPartition(*place)]
            leaving = asyncio.ensure_future(self._thread.order(lambda consumer: consumer.incremental_unassign(gone)))
            self._unassigning.add(leaving)
            leaving.add_done_callback(self._unassigning.discard)
        self._ask_for_more()

    def _ask_for_more(self) -> None:
        if self._untaken == 0 and self._is_batch_held and self._thread is not None:
            self._is_batch_held = False
            self._thread.more()

    async def _open(self, places: Mapping[Place, int]) -> None:
        await self._principal.shared.catch_up.acquire()
        config = {**self._principal.config, **reader_config(self._principal.settings)}
        try:
            self._thread = ConsumerThread(config, self._arrive, name="catch-up", held_max=1, is_paced=True)
        except BaseException:
            self._principal.shared.catch_up.release()
            raise
        assigned = [TopicPartition(*place, offset) for place, offset in places.items()]
        await self._thread.order(lambda consumer: consumer.assign(assigned))

    def _arrive(self, messages: Sequence[Any]) -> None:
        self._is_batch_held = True
        for message in messages:
            error = message.error()
            place = (message.topic(), message.partition())
            if error is None:
                self._add(place, record_of(message))
            elif error.code() == PARTITION_EOF:
                self._add(place, message.offset())
            elif not is_passing(error):
                self._subscriber.fail(failure_of(error, f"topic {place[0]!r} cannot be read"))
        self._ask_for_more()
        self._subscriber.wake()

    def _add(self, place: Place, item: HeldRecord | int) -> None:
        if place in self._records:
            self._records[place].append(item)
            self._untaken += 1

    async def close(self) -> None:
        """Give the consumer back."""
        self._records.clear()
        if self._thread is None:
            self._work.cancel()  # it waits for its turn
        await asyncio.wait({self._work, *self._unassigning})
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await thread.close()
            self._principal.shared.catch_up.release()
