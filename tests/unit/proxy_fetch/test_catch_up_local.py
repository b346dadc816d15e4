"""Catch-up reads of a segment in a local directory while it grows, is closed, renamed away and deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from bmq.local.store import LocalStore
from bmq.log.partition_log import Location, TopicPartition
from bmq.log.store import Durability
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import Record, encode_batch
from bmq.proxy.catch_up import CatchUp
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.read_cache import ReadCache
from tests.fakes.partition_log import FakePartitionLog

pytestmark = pytest.mark.unit


async def test_a_local_segment_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    random = Random(3)
    await store.make_directories("p/1.open")
    writer = await store.create_segment(
        "p/1.open/0.log", holder="me", durability=Durability.HFLUSH, segment_bytes=2**20
    )
    log = FakePartitionLog(TopicPartition(UUID(int=1), 0))
    directory = "p/1.open"
    locate_in_fake = log.locate

    async def locate(offset: int) -> Location:
        return replace(await locate_in_fake(offset), path=f"{directory}/0.log", file_id=writer.file_id)

    log.locate = locate  # type: ignore[method-assign]
    config = FetchSettings(read_chunk_bytes=4096, read_cache_bytes_max=20_000)
    cache = ReadCache(store, config, FetchCounts())
    catch_up = CatchUp(cache, config)

    async def read_all() -> bytes:
        offset, found = 0, b""
        while offset < log.high_watermark:
            limit = random.randrange(10_000)
            done = catch_up.read_cached(log, offset, limit, log.high_watermark) or await catch_up.read(
                log, offset, limit, log.high_watermark
            )
            found += b"".join(done.views)
            assert done.next_offset > offset
            offset = done.next_offset
        return found

    for _ in range(4):
        for _ in range(40):
            records = [
                Record(None, random.randbytes(random.randrange(400)), (), 1) for _ in range(random.randint(1, 3))
            ]
            log.append(memoryview(encode_batch(records)), lambda _: None)
            await writer.append([log.batches[-1].data])
        assert await read_all() == b"".join(batch.data for batch in log.batches)
    await writer.close()
    await store.rename("p/1.open", "p/1")
    directory = "p/1"
    written = b"".join(batch.data for batch in log.batches)
    assert await read_all() == written
    await store.delete("p/1", recursive=True)
    with pytest.raises(BmqError):
        await read_all()
    await cache.close()
    await store.close()
