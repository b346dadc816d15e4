"""Groups of one user: how many all users may have, and that they are closed whatever else goes on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bmq.gateway import groups
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.groups import Groups
from bmq.gateway.settings import GatewaySettings
from bmq.gateway.shared_bounds import SharedBounds
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.subscription import Subscription

pytestmark = pytest.mark.unit


class Group:
    """In place of ConsumerGroup. It closes when the test says so."""

    may_close: asyncio.Event

    def __init__(self, principal: Any, subscription: Subscription) -> None:
        self.subscription = subscription
        self.failure = None
        self.opened = asyncio.Event()
        self.opened.set()
        self.stream_count = 0
        self.closed = 0

    def join(self, subscriber: Subscriber) -> None:
        self.stream_count += 1

    async def leave(self, subscriber: Subscriber) -> None:
        self.stream_count -= 1

    async def close(self) -> None:
        self.closed += 1
        await self.may_close.wait()


class Topics:
    async def partition_count(self, topic: str) -> int:
        return 1


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedBounds:
    monkeypatch.setattr(groups, "ConsumerGroup", Group)
    monkeypatch.setattr(Group, "may_close", asyncio.Event(), raising=False)
    Group.may_close.set()
    return SharedBounds(GatewaySettings(groups_max=2))


def groups_of_a_user(shared: SharedBounds) -> Groups:
    principal: Any = SimpleNamespace(part=lambda kind: Topics(), shared=shared, settings=shared.settings)
    return Groups(principal)


def named(name: str) -> Subscription:
    return Subscription(("t",), name, False, True, None, None)


def subscriber() -> Subscriber:
    return Subscriber(10, lambda: None)


async def test_the_number_of_groups_of_all_users_is_bounded(shared: SharedBounds) -> None:
    one, two = groups_of_a_user(shared), groups_of_a_user(shared)
    first = await one.join(named("a"), subscriber())
    await two.join(named("a"), subscriber())
    with pytest.raises(GatewayFailed, match="2 groups are open") as failed:
        await one.join(named("b"), subscriber())
    assert failed.value.status == "RESOURCE_EXHAUSTED"
    assert one._changing.keys() == {"a"}
    await one.join(named("a"), subscriber())  # a group that is open takes more streams
    await first.close()
    assert shared.groups.count == 2
    await one.close()
    await one.join(named("b"), subscriber())
    await one.close()
    await two.close()
    assert shared.groups.count == 0


async def test_a_group_that_cannot_be_made_takes_no_place(
    shared: SharedBounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "ConsumerGroup", lambda *_: 1 / 0)
    one = groups_of_a_user(shared)
    with pytest.raises(ZeroDivisionError):
        await one.join(named("a"), subscriber())
    assert (shared.groups.count, one._groups, one._changing) == (0, {}, {})


async def test_a_stream_may_leave_while_all_groups_are_closed(shared: SharedBounds) -> None:
    one = groups_of_a_user(shared)
    first, second = await one.join(named("a"), subscriber()), await one.join(named("b"), subscriber())
    made = list(one._groups.values())
    Group.may_close.clear()
    closing = asyncio.ensure_future(one.close())
    await asyncio.sleep(0)
    leaving = [asyncio.ensure_future(source.close()) for source in (first, second)]
    for _ in range(5):
        await asyncio.sleep(0)
    Group.may_close.set()
    await asyncio.wait_for(asyncio.gather(closing, *leaving), 30)
    assert ([group.closed for group in made], shared.groups.count) == ([1, 1], 0)  # type: ignore[union-attr]
