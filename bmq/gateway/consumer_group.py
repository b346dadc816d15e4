"""This gateway's membership of one consumer group: its records go to the group's streams, and offsets are committed.

librdkafka is the member. Records that no stream has taken yet wait here, bounded by bytes; so do those that a stream
holds, since a released record is delivered again from here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from functools import partial
from typing import Any, Final, cast

import structlog
from confluent_kafka import KafkaException, TopicPartition

from bmq.gateway.cluster_config import group_config
from bmq.gateway.consumer_thread import ConsumerThread
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord, Place
from bmq.gateway.offset_tracker import OffsetTracker
from bmq.gateway.principal import Principal
from bmq.gateway.received import failure_of, is_passing, record_of
from bmq.gateway.source import Settlement
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.subscription import Subscription

REVOKE_WAIT_S: Final = 5.0
CHECK_S: Final = 1.0
_ABSENT: Final = GatewayFailed(
    "FAILED_PRECONDITION", "the record belongs to another member of the group now, which gets it again"
)

_log = structlog.get_logger("bmq.gateway")
Held = tuple[str, int, int]
Delivered = tuple[HeldRecord, Subscriber, float]
"""A record, the stream that holds it, and since when."""


class ConsumerGroup:
    """One group of one user. The first stream makes it, the last one ends it."""

    def __init__(self, principal: Principal, subscription: Subscription) -> None:
        self.subscription = subscription
        self.failure: GatewayFailed | None = None
        self.opened = asyncio.Event()
        """The group has given this gateway its partitions, if any are left, or has said why not."""
        self._loop = asyncio.get_running_loop()
        self._settings = principal.settings
        self._streams: deque[Subscriber] = deque()
        self._ready: deque[HeldRecord] = deque()
        self._held: dict[Held, Delivered] = {}
        self._trackers: dict[Place, OffsetTracker] = {}
        self._used_bytes = 0
        self._is_paused = False
        self._commit: asyncio.Task[None] | None = None
        self._pacing: set[asyncio.Future[None]] = set()
        config = {
            **principal.config,
            **group_config(principal.settings, subscription.group, is_earliest=subscription.is_earliest),
        }
        self._thread = ConsumerThread(config, self._take, name="group")
        self._begun = asyncio.ensure_future(
            self._thread.order(
                lambda consumer: consumer.subscribe(
                    list(subscription.topics),
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                    on_lost=self._on_lost,
                )
            )
        )
        self._begun.add_done_callback(self._note_beginning)
        self._check = self._loop.call_later(CHECK_S, self._take_back_late)

    def _note_beginning(self, begun: asyncio.Future[None]) -> None:
        if not begun.cancelled() and (error := begun.exception()) is not None:
            self._fail(GatewayFailed("UNKNOWN", f"group {self.subscription.group!r} cannot be joined: {error}"))

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    def join(self, subscriber: Subscriber) -> None:
        self._streams.append(subscriber)

    def poll(self, subscriber: Subscriber, count_max: int, bytes_max: int) -> Sequence[HeldRecord]:
        """Hand records to this stream, and at most its share while others wait for some."""
        others = sum(one.is_waiting and one.wanted > 0 for one in self._streams if one is not subscriber)
        count_max = min(count_max, max(1, len(self._ready) // (others + 1)))
        found: list[HeldRecord] = []
        size = 0
        while self._ready and len(found) < count_max and size < bytes_max:
            record = self._ready[0]
            if found and size + record.size_bytes > bytes_max:
                break
            self._ready.popleft()
            found.append(record)
            size += record.size_bytes
            self._held[record.topic, record.partition, record.offset] = (record, subscriber, self._loop.time())
        if self._ready:
            self._wake_waiting()
        return found

    def wanted_changed(self) -> None:
        """Records that are here are taken by `poll`; the consumer reads on by itself."""

    async def settle(
        self, subscriber: Subscriber, how: Settlement, records: Sequence[HeldRecord]
    ) -> Sequence[GatewayFailed | None]:
        """None for each that was held; the commit follows soon."""
        results: list[GatewayFailed | None] = []
        for record in records:
            key = (record.topic, record.partition, record.offset)
            held = self._held.get(key)
            if held is None or held[1] is not subscriber:
                results.append(_ABSENT)
                continue
            del self._held[key]
            results.append(None)
            if how is Settlement.RELEASE:
                self._again(record)
            else:
                self._used_bytes -= record.size_bytes
                self._trackers[record.place].settle(record.offset)
        self._go_on()
        return results

    async def leave(self, subscriber: Subscriber) -> None:
        """What the stream held goes to others."""
        self._streams.remove(subscriber)
        for record, holder, _ in sorted(self._held.values(), key=lambda one: one[0].offset, reverse=True):
            if holder is subscriber:
                del self._held[record.topic, record.partition, record.offset]
                self._again(record)
        self._go_on()

    async def close(self) -> None:
        """Commit what is settled, if that takes no longer than REVOKE_WAIT_S, and leave the group."""
        self._check.cancel()
        await asyncio.wait({self._begun})
        if self._commit is not None:
            await asyncio.wait({self._commit}, timeout=REVOKE_WAIT_S)
            self._commit.cancel()
            await asyncio.wait({self._commit})
        await self._thread.close()
        self._ready.clear()

    def _go_on(self, *, has_come: bool = False) -> None:
        self._commit_soon()
        self._pace(has_come=has_come)
        self._wake_waiting()

    def _again(self, record: HeldRecord) -> None:
        self._ready.appendleft(record._replace(delivery_count=record.delivery_count + 1))

    def _wake_waiting(self) -> None:
        """Wake as many streams as have credit for what is ready, the one that waits longest first."""
        left = len(self._ready)
        for _ in range(len(self._streams)):
            if left <= 0:
                return
            subscriber = self._streams[0]
            self._streams.rotate(-1)
            if subscriber.is_waiting and subscriber.wanted > 0:
                left -= subscriber.wanted
                subscriber.wake()

    # --- records

    def _take(self, messages: Sequence[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is not None:
                if not is_passing(error):
                    self._fail(failure_of(error, f"group {self.subscription.group!r} cannot go on"))
                continue
            record = record_of(message, 1)
            tracker = self._trackers.setdefault(record.place, OffsetTracker())
            tracker.receive(record.offset)
            if self.subscription.takes(record):
                self._ready.append(record)
                self._used_bytes += record.size_bytes
            else:
                tracker.settle(record.offset)
        self._go_on(has_come=True)

    def _fail(self, failure: GatewayFailed) -> None:
        self.failure = self.failure or failure
        self.opened.set()
        for subscriber in tuple(self._streams):
            subscriber.fail(failure)

    def _pace(self, *, has_come: bool) -> None:
        """Pause all partitions while too much waits here; the member stays in the group.

        `has_come`: records came, so that a partition that was assigned in the meantime may not be paused yet.
        """
        is_full = self._used_bytes > self._settings.group_bytes_max
        is_low = self._used_bytes * 2 < self._settings.group_bytes_max
        if (is_full and (has_come or not self._is_paused)) or (is_low and self._is_paused):
            self._is_paused = is_full
            pacing = asyncio.ensure_future(self._thread.order(_pause_all if is_full else _resume_all))
            self._pacing.add(pacing)
            pacing.add_done_callback(self._end_pacing)

    def _end_pacing(self, pacing: asyncio.Future[None]) -> None:
        self._pacing.discard(pacing)
        if not pacing.cancelled() and (error := pacing.exception()) is not None:
            _log.warning("gateway_group_not_paced", group=self.subscription.group, reason=str(error))

    def _take_back_late(self) -> None:
        """Records that nobody settled in time go to another stream."""
        self._check = self._loop.call_later(CHECK_S, self._take_back_late)
        before = self._loop.time() - self._settings.settle_wait_max_ms / 1000
        late = [one for one in self._held.values() if one[2] <= before]
        self._withdraw(late)
        for record, _, _ in sorted(late, key=lambda one: one[0].offset, reverse=True):
            self._again(record)
        if late:
            self._go_on()
        else:
            self._commit_soon()

    def _withdraw(self, gone: Sequence[Delivered]) -> None:
        """Take these from the streams that hold them, once for each stream: that looks at all that a stream holds."""
        by_subscriber: dict[Subscriber, list[HeldRecord]] = {}
        for record, subscriber, _ in gone:
            del self._held[record.topic, record.partition, record.offset]
            by_subscriber.setdefault(subscriber, []).append(record)
        for subscriber, records in by_subscriber.items():
            subscriber.deliveries.withdraw(records)

    # --- commits and partitions that go away

    def _commit_soon(self) -> None:
        if (self._commit is None or self._commit.done()) and self._to_commit():
            self._commit = asyncio.ensure_future(self._commit_all())

    def _to_commit(self) -> Mapping[Place, int]:
        found = {place: tracker.to_commit for place, tracker in self._trackers.items()}
        return {place: offset for place, offset in found.items() if offset is not None}

    async def _commit_all(self) -> None:
        while offsets := self._to_commit():
            trackers = {place: self._trackers[place] for place in offsets}
            try:
                await self._thread.order(partial(_commit, offsets))
            except KafkaException as error:
                await asyncio.sleep(CHECK_S)
                if is_passing(error.args[0]):
                    continue
                _log.info("gateway_commit_refused", group=self.subscription.group, reason=str(error.args[0]))
                return  # tried again once a second, until the group is closed
            except RuntimeError:  # closed
                return
            for place, offset in offsets.items():
                trackers[place].committed(offset)

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Called by the consumer's thread. LATEST is where the log ends now, and not a moment later."""
        if partitions and not self.subscription.is_earliest:
            try:
                consumer.incremental_assign(_from_now_on(consumer, partitions))
            except KafkaException as error:
                _log.info("gateway_group_begins_later", group=self.subscription.group, reason=str(error.args[0]))
        self._on_loop(self._opened)

    def _opened(self) -> Mapping[Place, int]:
        self.opened.set()
        return {}

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Called by the consumer's thread: commit what is settled before another member gets the partitions."""
        offsets = self._on_loop(lambda: self._forget([(one.topic, one.partition) for one in partitions]))
        if offsets:
            try:
                _commit(offsets, consumer)
            except KafkaException as error:
                _log.info("gateway_commit_refused", group=self.subscription.group, reason=str(error.args[0]))

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Called by the consumer's thread: others have the partitions already."""
        self._on_loop(lambda: self._forget([(one.topic, one.partition) for one in partitions]))

    def _on_loop(self, function: Callable[[], Mapping[Place, int]]) -> Mapping[Place, int]:
        answer: Future[Mapping[Place, int]] = Future()
        try:
            self._loop.call_soon_threadsafe(lambda: answer.set_result(function()))
            return answer.result(REVOKE_WAIT_S)
        except (RuntimeError, NoAnswer):  # the loop has ended, or does not come to it
            return {}

    def _forget(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Give these partitions up; what may be committed of them."""
        gone = set(places)
        offsets = {place: offset for place, offset in self._to_commit().items() if place in gone}
        for place in gone:
            self._trackers.pop(place, None)
        kept = [record for record in self._ready if record.place not in gone]
        self._ready = deque(kept)
        self._withdraw([one for one in self._held.values() if one[0].place in gone])
        self._used_bytes = sum(one.size_bytes for one in kept) + sum(one[0].size_bytes for one in self._held.values())
        return offsets


def _pause_all(consumer: Any) -> None:
    consumer.pause(consumer.assignment())


def _resume_all(consumer: Any) -> None:
    consumer.resume(consumer.assignment())


def _commit(offsets: Mapping[Place, int], consumer: Any) -> None:
    consumer.commit(offsets=[TopicPartition(*place, offset) for place, offset in offsets.items()], asynchronous=False)


def _from_now_on(consumer: Any, partitions: Sequence[Any]) -> Sequence[Any]:
    """The committed offset of each partition, or its end where nothing is committed. Raises KafkaException."""
    found = consumer.committed(list(partitions), timeout=REVOKE_WAIT_S)
    for one in found:
        if one.offset < 0:
            one.offset = consumer.get_watermark_offsets(one, timeout=REVOKE_WAIT_S)[1]
    return cast("Sequence[Any]", found)
