"""Records for one subscriber without a group: all of them, from a position on, out of memory that subscribers share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from confluent_kafka.admin import OffsetSpec

from bmq.gateway.catch_up import CatchUp
from bmq.gateway.failure import GatewayFailed, invalid
from bmq.gateway.held_records import HeldRecord, Place
from bmq.gateway.known_topics import KnownTopics
from bmq.gateway.principal import Principal
from bmq.gateway.source import Settlement
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.subscription import Subscription
from bmq.gateway.tail_hub import TailHub

SCANNED_MAX: Final = 1_000
"""Records that one poll looks at; then other streams have their turn."""
NO_OFFSET: Final = -1


class PlainSource:
    """Made by `open_plain`. It reads each partition in order, and begins with another one at each poll."""

    def __init__(
        self, principal: Principal, subscription: Subscription, subscriber: Subscriber, positions: dict[Place, int]
    ) -> None:
        self._principal = principal
        self._hub = principal.part(TailHub)
        self._subscription = subscription
        self._subscriber = subscriber
        self._positions = positions
        self._places = list(positions)
        self._next = 0
        self._catch_up: CatchUp | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._scanned = 0

    def poll(self, count_max: int, bytes_max: int) -> Sequence[HeldRecord]:
        found: list[HeldRecord] = []
        self._scanned = 0
        size = 0
        behind: dict[Place, int] = {}
        for step in range(len(self._places)):
            place = self._places[(self._next + step) % len(self._places)]
            while len(found) < count_max and size < bytes_max and self._scanned < SCANNED_MAX:
                record = self._next_record(place, behind)
                if record is None:
                    break
                if not self._subscription.takes(record):
                    self._positions[place] = record.offset + 1
                    continue
                if found and size + record.size_bytes > bytes_max:
                    size = bytes_max
                    break
                self._positions[place] = record.offset + 1
                found.append(record)
                size += record.size_bytes
        self._next = (self._next + 1) % len(self._places)
        self._arrange(behind)
        if self._scanned >= SCANNED_MAX and not found:
            asyncio.get_running_loop().call_soon(self._subscriber.wake)
        return found

    def _next_record(self, place: Place, behind: dict[Place, int]) -> HeldRecord | None:
        """The record at the place's position; None while it is not here."""
        position = self._positions[place]
        window = self._hub.window(place)
        reader = self._catch_up if self._catch_up is not None and self._catch_up.reads(place) else None
        if position >= window.low:
            if reader is not None:
                reader.done(place)
            if position > window.high:
                return None
            records = window.read(position, 1)
            if not records:
                self._positions[place] = window.high
                return None
            self._scanned += 1
            return records[0]
        if reader is None:
            behind[place] = position
            return None
        while (item := reader.peek(place)) is not None:
            reader.take(place)
            self._scanned += 1
            if isinstance(item, int):
                self._positions[place] = max(self._positions[place], item)
                return self._next_record(place, behind)
            if item.offset >= position:
                return item
        return None

    def _arrange(self, behind: dict[Place, int]) -> None:
        """Have the places read that fell behind the windows; a reader that has nothing to read ends."""
        reader = self._catch_up
        if behind:
            if reader is not None:
                behind |= {place: self._positions[place] for place in self._places if reader.reads(place)}
                self._end(reader)
            self._catch_up = CatchUp(self._principal, self._subscriber, behind)
        elif reader is not None and reader.is_over:
            self._end(reader)
            self._catch_up = None

    def _end(self, reader: CatchUp) -> None:
        task = asyncio.ensure_future(reader.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def wanted_changed(self) -> None:
        self._subscriber.wake()

    async def settle(self, how: Settlement, records: Sequence[HeldRecord]) -> Sequence[GatewayFailed | None]:
        raise invalid("a subscription without a group has nothing to settle")

    async def close(self) -> None:
        self._hub.leave(self._subscriber, self._places)
        if self._catch_up is not None:
            self._end(self._catch_up)
        while self._closing:
            await asyncio.wait(set(self._closing))


async def open_plain(principal: Principal, subscription: Subscription, subscriber: Subscriber) -> PlainSource:
    """Find where each partition begins for this subscriber. Raises GatewayFailed."""
    topics, hub = principal.part(KnownTopics), principal.part(TailHub)
    counts = {topic: await topics.partition_count(topic) for topic in subscription.topics}
    places = [(topic, partition) for topic, count in counts.items() for partition in range(count)]
    try:
        await hub.join(subscriber, places)
        positions = {place: hub.window(place).high for place in places}
        if subscription.timestamp_ms is not None:
            found = await hub.offsets(places, OffsetSpec.for_timestamp(subscription.timestamp_ms))
            positions |= {place: offset for place, offset in found.items() if offset != NO_OFFSET}
        elif subscription.is_earliest:
            positions = dict(await hub.offsets(places, OffsetSpec.earliest()))
    except BaseException:
        hub.leave(subscriber, places)
        raise
    return PlainSource(principal, subscription, subscriber, positions)
