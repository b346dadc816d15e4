"""A reader that comes to the end of a file finds the beginning of the next one in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from bmq.log.partition_log import Location, TopicPartition
from bmq.log.store import StorageUnavailable
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.catch_up import CatchUp
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.read_cache import ReadCache
from tests.fakes.partition_log import FakePartitionLog
from tests.fakes.store import FakeStore
from tests.support.produced_batch import produced_batch
from tests.unit.proxy_fetch.running import run_along

pytestmark = pytest.mark.unit

PER_FILE = 40
BATCH_BYTES = len(encode_batch([Record(None, bytes(300), (), 1_000)]))
CHUNK_BYTES = 1_024


class ManyFiles:
    """A partition of three closed files of 40 batches each. `located`: what was looked up; `failures`: of the next looks."""

    def __init__(self) -> None:
        store = FakeStore()
        self.located: list[int] = []
        self.failures: list[Exception] = []
        self.parts: list[FakePartitionLog] = []
        for number in range(3):
            part = FakePartitionLog(
                TopicPartition(UUID(int=1), 0), store=store, leader_epoch=number, first_offset=number * PER_FILE
            )
            for offset in range(number * PER_FILE, (number + 1) * PER_FILE):
                value = offset.to_bytes(4, "big") * 75
                records = memoryview(encode_batch([Record(None, value, (), 1_000)]))
                part.append(produced_batch(part.topic_partition, records, lambda _: None))
            self.parts.append(part)
        self._locates = [part.locate for part in self.parts]
        self.log = self.parts[-1]
        self.log.locate = self._locate  # type: ignore[method-assign]
        config = FetchSettings(read_chunk_bytes=CHUNK_BYTES)
        self.counts = FetchCounts()
        self.cache = ReadCache(store.client("reader"), config, self.counts)
        self.catch_up = CatchUp(self.cache, config, lambda: 0.0, run_along)

    async def _locate(self, offset: int) -> Location:
        self.located.append(offset)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        return replace(await self._locates[offset // PER_FILE](offset), is_closed=True)

    def expected(self, offset: int, next_offset: int) -> bytes:
        batches = [batch for part in self.parts for batch in part.batches]
        return b"".join(batch.data for batch in batches[offset:next_offset])

    async def read(self, offset: int, bound_offset: int, batches: int = 3) -> tuple[int, bool]:
        """Where they end, and whether they were in memory."""
        limit = batches * BATCH_BYTES
        cached = self.catch_up.read_cached(self.log, offset, limit, bound_offset)
        found = cached or await self.catch_up.read(self.log, offset, limit, bound_offset)
        assert b"".join(found.views) == self.expected(offset, found.next_offset)  # type: ignore[arg-type]
        for _ in range(20):
            await asyncio.sleep(0)
        return found.next_offset, cached is not None


async def test_the_next_file_is_there_before_its_reader() -> None:
    files = ManyFiles()
    offset, waited = 0, []
    while offset < 3 * PER_FILE:
        following, was_cached = await files.read(offset, 3 * PER_FILE)
        if not was_cached:
            waited.append(offset)
        offset = following
    assert waited == [0, 3]  # it is known as one that reads on when it comes for the second time
    assert files.located == [0, PER_FILE, 2 * PER_FILE]
    await files.cache.close()


async def test_nothing_is_looked_up_at_or_past_the_bound() -> None:
    files = ManyFiles()
    offset = 0
    while offset < PER_FILE:
        offset, _ = await files.read(offset, PER_FILE)
    assert offset == PER_FILE and files.located == [0]
    await files.cache.close()


@pytest.mark.parametrize("failure", [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), StorageUnavailable("not now")])
async def test_a_look_ahead_that_fails_is_made_again_by_the_reader(failure: Exception) -> None:
    files = ManyFiles()
    offset, _ = await files.read(0, 3 * PER_FILE)
    files.failures = [failure]
    while offset < 2 * PER_FILE:
        offset, _ = await files.read(offset, 3 * PER_FILE)
    assert not files.failures and files.located.count(PER_FILE) == 2
    await files.cache.close()


async def test_of_many_readers_at_the_end_of_a_file_one_looks() -> None:
    files = ManyFiles()
    offset, _ = await files.read(0, 3 * PER_FILE)
    assert files.located == [0]
    await asyncio.gather(*(files.read(offset, 3 * PER_FILE, PER_FILE - offset - 1) for _ in range(10)))
    assert files.located == [0, PER_FILE]
    await files.cache.close()
