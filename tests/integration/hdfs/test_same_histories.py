"""The fake store is HDFS in what the simulation relies on: the same seeded histories of two clients end the same on both."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from random import Random

import pytest

from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.store import SegmentStore
from tests.fakes.store import FakeStore
from tests.unit.log_store.rivals import CLIENTS, Players, draw_history

pytestmark = [pytest.mark.contract, pytest.mark.safety]

SEEDS = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 25


@pytest.fixture
async def hdfs_clients(hdfs_config: HdfsConfig) -> AsyncIterator[list[SegmentStore]]:
    clients = [await HdfsStore.open(hdfs_config, Random(number)) for number in range(CLIENTS)]
    try:
        yield list(clients)
    finally:
        for client in clients:
            await client.close()


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_history_ends_the_same_on_the_fake_and_on_hdfs(seed: int, hdfs_clients: list[SegmentStore]) -> None:
    fake = FakeStore(Random(seed))
    fakes: list[SegmentStore] = [fake.client(f"client-{number}") for number in range(CLIENTS)]
    await Players([fakes, hdfs_clients]).play(draw_history(seed))
