"""The groups that one user's streams read in: one membership for each group, however many streams there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bmq.gateway.consumer_group import ConsumerGroup
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.known_topics import KnownTopics
from bmq.gateway.principal import Principal
from bmq.gateway.share_group import ShareGroup
from bmq.gateway.source import Settlement
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.subscription import Subscription

Group = ConsumerGroup | ShareGroup


class Groups:
    """Part of a Principal."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self._groups: dict[str, Group] = {}
        self._changing: dict[str, asyncio.Lock] = {}

    async def join(self, subscription: Subscription, subscriber: Subscriber) -> GroupSource:
        """Raises GatewayFailed: FAILED_PRECONDITION where the group's other streams here ask for something else,
        RESOURCE_EXHAUSTED for one group too many.
        """
        topics = self._principal.part(KnownTopics)
        for topic in subscription.topics:
            await topics.partition_count(topic)
        name = subscription.group
        lock = self._changing.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                group = self._groups.get(name)
                if group is None:
                    group = self._groups[name] = self._made(subscription)
                else:
                    _require_same(group.subscription, subscription)
                    if group.failure is not None:
                        raise group.failure
                group.join(subscriber)
        finally:
            self._forget_lock(name, lock)
        source = GroupSource(self, name, group, subscriber)
        try:
            async with asyncio.timeout(self._principal.settings.start_wait_max_ms / 1000):
                await group.opened.wait()
        except TimeoutError:
            return source  # it has no partition yet; records come when it has
        except BaseException:
            await source.close()
            raise
        return source

    def _made(self, subscription: Subscription) -> Group:
        places = self._principal.shared.groups
        if not places.take():
            raise GatewayFailed(
                "RESOURCE_EXHAUSTED", f"{places.count_max} groups are open through this gateway; try later"
            )
        try:
            kind = ShareGroup if subscription.is_share_group else ConsumerGroup
            return kind(self._principal, subscription)
        except BaseException:
            places.give_back()
            raise

    async def _end(self, group: Group) -> None:
        try:
            await group.close()
        finally:
            self._principal.shared.groups.give_back()

    def _forget_lock(self, name: str, lock: asyncio.Lock) -> None:
        if name not in self._groups and self._changing.get(name) is lock and not lock.locked():
            del self._changing[name]

    async def leave(self, name: str, group: Group, subscriber: Subscriber) -> None:
        """The last stream of a group ends the membership."""
        await group.leave(subscriber)
        lock = self._changing.setdefault(name, asyncio.Lock())
        async with lock:
            if group.stream_count == 0 and self._groups.get(name) is group:
                del self._groups[name]
                await self._end(group)
        self._forget_lock(name, lock)

    async def close(self) -> None:
        while self._groups:
            await self._end(self._groups.popitem()[1])


class GroupSource:
    """What one stream sees of its group."""

    def __init__(self, groups: Groups, name: str, group: Group, subscriber: Subscriber) -> None:
        self._groups = groups
        self._name = name
        self._group = group
        self._subscriber = subscriber

    def poll(self, count_max: int, bytes_max: int) -> Sequence[HeldRecord]:
        return self._group.poll(self._subscriber, count_max, bytes_max)

    def wanted_changed(self) -> None:
        self._group.wanted_changed()
        self._subscriber.wake()

    async def settle(self, how: Settlement, records: Sequence[HeldRecord]) -> Sequence[GatewayFailed | None]:
        return await self._group.settle(self._subscriber, how, records)

    async def close(self) -> None:
        await asyncio.shield(asyncio.ensure_future(self._groups.leave(self._name, self._group, self._subscriber)))


def _require_same(first: Subscription, other: Subscription) -> None:
    if first.is_share_group != other.is_share_group:
        kind = "share group" if first.is_share_group else "consumer group"
        raise GatewayFailed("FAILED_PRECONDITION", f"group {first.group!r} is open here as a {kind}; use the same kind")
    if first.topics != other.topics or first.filter_text != other.filter_text:
        raise GatewayFailed(
            "FAILED_PRECONDITION",
            f"group {first.group!r} is open here with other topics or another filter; its streams must ask for the same",
        )
