"""One share group of one user: its streams, the records acquired for them, and who settles what.

The cluster keeps the state. The gateway acquires exactly as many records as its streams have credit for, so that a
stream that is slow, or goes away, keeps no record from others that it did not ask for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.kafka_links import KafkaLinks
from bmq.gateway.principal import Principal
from bmq.gateway.share_member import ShareMember, SharePlace
from bmq.gateway.share_records import ACCEPT, REJECT, RELEASE
from bmq.gateway.share_session import Ack, ShareSession
from bmq.gateway.source import Settlement
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.subscription import Subscription

RECORDS_PER_FETCH_MAX: Final = 2_000
_KINDS: Final = {Settlement.ACKNOWLEDGE: ACCEPT, Settlement.RELEASE: RELEASE, Settlement.REJECT: REJECT}


class ShareGroup:
    """The first stream makes it, the last one ends it."""

    def __init__(self, principal: Principal, subscription: Subscription) -> None:
        self.subscription = subscription
        self.failure: GatewayFailed | None = None
        self.opened = asyncio.Event()
        """The cluster has said where the group begins, if any stream has credit, or why it does not."""
        self._settings = principal.settings
        self._loop = asyncio.get_running_loop()
        self._links = KafkaLinks(principal.settings, principal.credentials)
        self._streams: deque[Subscriber] = deque()
        self._ready: deque[HeldRecord] = deque()
        self._held: dict[tuple[str, int, int], tuple[Subscriber, float]] = {}
        self._locked_until_s: dict[tuple[str, int, int], float] = {}
        self._reserved = 0
        self._sessions: dict[int, ShareSession] = {}
        self._leader_of: dict[SharePlace, int] = {}
        self._member = ShareMember(self._links, subscription.group, subscription.topics, self._rearrange, self._fail)

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    def join(self, subscriber: Subscriber) -> None:
        self._streams.append(subscriber)

    # --- what streams want

    def wanted_changed(self) -> None:
        for session in self._sessions.values():
            session.wake()

    def reserve(self) -> int:
        """Of Demand: a session's part of what streams want beyond what is here or on its way."""
        wanted = sum(one.wanted for one in self._streams) - len(self._ready) - self._reserved
        if wanted <= 0:
            return 0
        part = min(RECORDS_PER_FETCH_MAX, -(-wanted // max(1, len(self._sessions))))
        self._reserved += part
        return part

    def arrived(self, reserved: int, records: Sequence[HeldRecord], lock_ms: int, *, is_whole: bool) -> None:
        """Of Demand."""
        self._reserved -= reserved
        if is_whole:
            self.opened.set()
        until_s = self._loop.time() + lock_ms / 1000
        for record in records:
            if self.subscription.takes(record):
                self._ready.append(record)
                self._locked_until_s[record.topic, record.partition, record.offset] = until_s
            else:
                self._ack(record, ACCEPT)
        self._release_surplus()
        self._wake_waiting()
        if len(records) < reserved:
            self.wanted_changed()

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
            key = (record.topic, record.partition, record.offset)
            self._held[key] = (subscriber, self._locked_until_s.pop(key))
        if self._ready:
            self._wake_waiting()
        return found

    def _wake_waiting(self) -> None:
        left = len(self._ready)
        for _ in range(len(self._streams)):
            if left <= 0:
                return
            subscriber = self._streams[0]
            self._streams.rotate(-1)
            if subscriber.is_waiting and subscriber.wanted > 0:
                left -= subscriber.wanted
                subscriber.wake()

    def _release_surplus(self) -> None:
        """Streams that asked for these records have gone: others of the group may have them."""
        surplus = len(self._ready) - sum(one.wanted for one in self._streams)
        for _ in range(surplus):
            record = self._ready.pop()
            self._locked_until_s.pop((record.topic, record.partition, record.offset), None)
            self._ack(record, RELEASE)

    # --- what streams say

    async def settle(
        self, subscriber: Subscriber, how: Settlement, records: Sequence[HeldRecord]
    ) -> Sequence[GatewayFailed | None]:
        """Returns when the cluster has answered."""
        results: list[GatewayFailed | None] = [None] * len(records)
        waits: dict[int, asyncio.Future[GatewayFailed | None]] = {}
        for index, record in enumerate(records):
            key = (record.topic, record.partition, record.offset)
            held = self._held.get(key)
            if held is None or held[0] is not subscriber or held[1] <= self._loop.time():
                if held is not None and held[0] is subscriber:
                    del self._held[key]
                results[index] = GatewayFailed(
                    "FAILED_PRECONDITION", "the record's lock has ended; the group gets it again"
                )
                continue
            del self._held[key]
            waits[index] = self._loop.create_future()
            self._ack(record, _KINDS[how], waits[index])
        for index, wait in waits.items():
            results[index] = await wait
        return results

    def _ack(self, record: HeldRecord, kind: int, done: asyncio.Future[GatewayFailed | None] | None = None) -> None:
        topic_id = next((one for one, name in self._member.names.items() if name == record.topic), None)
        place = None if topic_id is None else (topic_id, record.partition)
        session = None if place is None else self._sessions.get(self._leader_of.get(place, -1))
        if session is None or place is None:
            if done is not None:
                done.set_result(
                    GatewayFailed("ABORTED", "the partition has another owner; the record is delivered again")
                )
            return
        session.acknowledge(Ack(place, record.offset, kind, done))

    async def leave(self, subscriber: Subscriber) -> None:
        """What the stream held is released."""
        self._streams.remove(subscriber)
        for key, (holder, _) in list(self._held.items()):
            if holder is subscriber:
                del self._held[key]
                self._ack(HeldRecord(*key, -1, None, None, ()), RELEASE)
        self._release_surplus()
        self._wake_waiting()

    # --- the cluster

    def _rearrange(self) -> None:
        """One session for each server that leads some of our partitions."""
        by_leader = self._member.by_leader()
        for node, places in by_leader.items():
            if node not in self._sessions:
                self._sessions[node] = ShareSession(
                    node, self._member, self._links, self, self._settings.delivery_bytes_max, self._fail
                )
            for place in places:
                self._leader_of[place] = node
        for node, session in self._sessions.items():
            session.assign(by_leader.get(node, frozenset()))
        if by_leader and not any(one.wanted for one in self._streams):
            self.opened.set()

    def _fail(self, failure: GatewayFailed) -> None:
        self.failure = self.failure or failure
        self.opened.set()
        for subscriber in tuple(self._streams):
            subscriber.fail(failure)

    async def close(self) -> None:
        """Release what is acquired, end the sessions, leave the group."""
        for session in self._sessions.values():
            await session.close()
        await self._member.close()
        await self._links.close()
