"""One consumer for one user that follows the ends of all partitions that the user's subscribers read.

However many subscribers wait at the end of a partition, the cluster sees one reader, and the gateway holds each record
once, in the partition's window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from bmq.gateway.cluster_config import reader_config
from bmq.gateway.consumer_thread import ConsumerThread
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import Place
from bmq.gateway.known_topics import KnownTopics
from bmq.gateway.principal import Principal
from bmq.gateway.received import PARTITION_EOF, failure_of, is_passing, record_of
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.tail_window import TailWindow

WATCH_S: Final = 5.0
"""Between questions whether the topics are still there."""


class TailHub:
    """Part of a Principal."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self._topics = principal.part(KnownTopics)
        self._budget = principal.shared.windows
        self._windows: dict[Place, TailWindow] = {}
        self._subscribers: dict[Place, set[Subscriber]] = {}
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()
        self._thread: ConsumerThread | None = None
        self._topic_ids: dict[str, str] = {}
        self._watching: asyncio.Task[None] | None = None

    @property
    def places(self) -> Sequence[Place]:
        return tuple(self._windows)

    def window(self, place: Place) -> TailWindow:
        return self._windows[place]

    async def join(self, subscriber: Subscriber, places: Sequence[Place]) -> None:
        """Returns once each place has a window, whose end is where LATEST begins. Call `leave` also if this fails."""
        for place in places:
            self._subscribers.setdefault(place, set()).add(subscriber)
        if all(place in self._windows for place in places):
            return
        await asyncio.shield(self._changed(self._open(places)))

    def leave(self, subscriber: Subscriber, places: Sequence[Place]) -> None:
        empty = []
        for place in places:
            found = self._subscribers.get(place)
            if found is not None:
                found.discard(subscriber)
                if not found:
                    del self._subscribers[place]
                    empty.append(place)
        if empty:
            self._changed(self._close(empty))

    def _changed(self, change: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(change)
        self._changes.add(task)
        task.add_done_callback(self._end_change)
        return task

    def _end_change(self, task: asyncio.Task[None]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # the subscriber that waits for it gets it

    async def _open(self, places: Sequence[Place]) -> None:
        async with self._changing:
            missing = [place for place in places if place not in self._windows]
            if not missing:
                return
            for topic in {place[0] for place in missing} - self._topic_ids.keys():
                self._topic_ids[topic] = str((await self._topics.describe(topic)).topic_id)
            ends = await self.offsets(missing, OffsetSpec.latest())
            if self._thread is None:
                config = {**self._principal.config, **reader_config(self._principal.settings)}
                self._thread = ConsumerThread(config, self._take, name="tails")
                self._watching = asyncio.ensure_future(self._watch())
            for place, end in ends.items():
                self._windows[place] = TailWindow(end, self._principal.settings.window_bytes_max, self._budget)
            assigned = [TopicPartition(*place, offset) for place, offset in ends.items()]
            await self._thread.order(lambda consumer: consumer.incremental_assign(assigned))

    async def _close(self, places: Iterable[Place]) -> None:
        async with self._changing:
            gone = [place for place in places if place not in self._subscribers and place in self._windows]
            if not gone:
                return
            assert self._thread is not None
            for place in gone:
                self._windows.pop(place).clear()
            for topic in self._topic_ids.keys() - {place[0] for place in self._windows}:
                del self._topic_ids[topic]
            unassigned = [TopicPartition(*place) for place in gone]
            await self._thread.order(lambda consumer: consumer.incremental_unassign(unassigned))

    async def _watch(self) -> None:
        """End the subscribers of topics that were deleted: librdkafka waits for such a topic to come back."""
        while True:
            await asyncio.sleep(WATCH_S)
            for topic, known in tuple(self._topic_ids.items()):
                try:
                    found = str((await self._topics.describe(topic)).topic_id)
                except GatewayFailed as failed:
                    if failed.status in ("NOT_FOUND", "PERMISSION_DENIED"):
                        self._topics.forget(topic)
                        self._fail(topic, failed)
                    continue
                if found != known:
                    self._topics.forget(topic)
                    self._fail(topic, GatewayFailed("NOT_FOUND", f"topic {topic!r} was deleted and made again"))

    async def offsets(self, places: Sequence[Place], spec: Any) -> Mapping[Place, int]:
        """The offset of each place by a spec of confluent_kafka. Raises GatewayFailed."""
        wanted = {TopicPartition(*place): spec for place in places}
        admin, wait_s = self._principal.admin, self._principal.answer_wait_s
        futures = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=wait_s)
        found = {}
        for place, future in futures.items():
            what = f"the offset of {place.topic}-{place.partition} cannot be read"
            found[place.topic, place.partition] = (await self._principal.answer(future, what)).offset
        return found

    def _take(self, messages: Sequence[Any]) -> None:
        touched: set[Place] = set()
        for message in messages:
            error = message.error()
            place = (message.topic(), message.partition())
            if error is not None:
                self._note_error(error, place, message)
                continue
            window = self._windows.get(place)
            if window is not None:
                window.add(record_of(message))
                touched.add(place)
        for place in touched:
            for subscriber in self._subscribers.get(place, ()):
                subscriber.wake()

    def _note_error(self, error: Any, place: tuple[Any, Any], message: Any) -> None:
        if error.code() == PARTITION_EOF:
            if place in self._windows:
                self._windows[place].advance(message.offset())
        elif not is_passing(error):
            topic, _ = place
            what = f"topic {topic!r} cannot be read" if topic else "the subscription cannot go on"
            self._fail(topic, failure_of(error, what))

    def _fail(self, topic: str | None, failure: GatewayFailed) -> None:
        """End all subscribers of the topic; of None: all."""
        for place, subscribers in self._subscribers.items():
            if topic is None or place[0] == topic:
                for subscriber in tuple(subscribers):
                    subscriber.fail(failure)

    async def close(self) -> None:
        while self._changes:
            await asyncio.wait(set(self._changes))
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        for window in self._windows.values():
            window.clear()
        self._windows.clear()
        if self._thread is not None:
            await self._thread.close()
