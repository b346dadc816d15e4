"""The delivery of markers by itself: what becomes of transactions between their end and the turn in which it begins."""

from __future__ import annotations

import asyncio
from random import Random
from typing import cast

import pytest

from bmq.coordinator.transactions.marker_delivery import ANSWER_TURNS, MarkerDelivery
from bmq.coordinator.transactions.transaction import Partition
from bmq.log.transactions import TransactionMarker
from tests.unit.coordinator.transactions.world import FAST, World, virtual

pytestmark = pytest.mark.unit

MARKER = TransactionMarker(1_000, 0, 0, is_commit=True, transaction_version=2)


def delivery_of(world: World, failures: list[BaseException]) -> MarkerDelivery:
    return MarkerDelivery(world.markers, lambda: world.topics, lambda: True, Random(1), FAST, failures.append)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_delivery_that_is_closed_before_it_begins_writes_nothing() -> None:
    async def main() -> None:
        world = World()
        failures: list[BaseException] = []
        done: list[str] = []
        delivery = delivery_of(world, failures)
        delivery.begin("id", MARKER, [("t", 0), ("u", 1)], lambda: done.append("id"))
        assert delivery.waiting_count == 2
        await turns(ANSWER_TURNS - 1)
        delivery.close()
        await asyncio.sleep(10)
        assert (world.markers.tried, done, failures, delivery.waiting_count) == ([], [], [], 0)

    virtual(main)


def test_markers_that_cannot_be_begun_are_told_of() -> None:
    """Kept quiet, their transaction would hang until the shard has another owner."""

    async def main() -> None:
        world = World()
        failures: list[BaseException] = []
        delivery = delivery_of(world, failures)
        partitions = cast("list[Partition]", [("t", 0), (None, 1)])  # not to be sorted
        delivery.begin("id", MARKER, partitions, lambda: None)
        await asyncio.sleep(1)
        assert [type(failure) for failure in failures] == [TypeError]
        delivery.close()

    virtual(main)
