"""HDFS keeps the promises of the port: the contract of every store, played by two clients of a real cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest

from bmq.hdfs.config import HdfsConfig, WriteMode
from bmq.hdfs.store import HdfsStore
from tests.unit.log_store.contract import Pair, StoreContract

pytestmark = [pytest.mark.contract, pytest.mark.safety]


async def _pair(config: HdfsConfig) -> AsyncIterator[Pair]:
    owner = await HdfsStore.open(config, Random(1))
    successor = await HdfsStore.open(config, Random(2))
    try:
        yield Pair(owner, successor)
    finally:
        await owner.close()
        await successor.close()


class TestHdfsStoreContract(StoreContract):
    @pytest.fixture
    async def pair(self, hdfs_config: HdfsConfig) -> AsyncIterator[Pair]:
        async for pair in _pair(hdfs_config):
            yield pair


class TestPipelinedHdfsStoreContract(StoreContract):
    """The same with one connection to a chain of DataNodes instead of one to each."""

    @pytest.fixture
    async def pair(self, hdfs_config: HdfsConfig) -> AsyncIterator[Pair]:
        async for pair in _pair(replace(hdfs_config, write_mode=WriteMode.PIPELINE)):
            yield pair
