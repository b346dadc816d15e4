"""Catch-up reads of a segment in a local directory while it grows, is closed, renamed away and deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from bmq.local_store.store import LocalStore
from bmq.log.partition_log import Location, Span, TopicPartition
from bmq.log.segment_index import IndexBuilder, span_from
from bmq.log.store import Durability
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.errors import BmqError
from bmq.protocol.parts import MEMORY
from bmq.protocol.record_batch import BatchHeader
from bmq.proxy.catch_up import CatchUp
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.read_cache import ReadCache
from tests.fakes.partition_log import FakePartitionLog
from tests.support.produced_batch import produced_batch
from tests.unit.proxy_fetch.running import run_along

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("is_sent_from_files", [False, True])
async def test_a_local_segment_is_read_as_it_was_written(tmp_path: Path, is_sent_from_files: bool) -> None:
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
    builder = IndexBuilder(1, 0, writer.file_id, 0, interval_bytes=700)

    def span(offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        location = Location(
            f"{directory}/0.log",
            writer.file_id,
            builder.position_of(offset),
            builder.valid_bytes,
            0,
            builder.end_offset,
            is_closed=False,
        )
        return span_from(location, builder.offsets, builder.positions, length_bytes_max, bound_offset)

    if is_sent_from_files:
        log.span = span  # type: ignore[method-assign]
    in_files = 0
    config = FetchSettings(read_chunk_bytes=4096, read_cache_bytes_max=20_000)
    cache = ReadCache(store, config, FetchCounts())
    catch_up = CatchUp(cache, config, lambda: 0.0, run_along)

    async def read_all() -> bytes:
        nonlocal in_files
        offset, found = 0, b""
        while offset < log.high_watermark:
            limit = random.randrange(10_000)
            bound = log.high_watermark
            done = catch_up.read_in_file(log, offset, limit, bound)
            if done is None:
                done = catch_up.read_cached(log, offset, limit, bound) or await catch_up.read(log, offset, limit, bound)
                taken = b"".join(bytes(view) for view in done.views if isinstance(view, MEMORY))
            else:
                in_files += 1
                (part,) = done.views
                assert not isinstance(part, MEMORY)
                taken = part.peek(0, len(part))
            first = next(batch for batch in log.batches if batch.end_offset > offset)
            assert taken.startswith(first.data)
            found += taken
            assert done.next_offset > offset
            offset = done.next_offset
        return found

    for _ in range(4):
        for _ in range(40):
            records = [
                Record(None, random.randbytes(random.randrange(400)), (), 1) for _ in range(random.randint(1, 3))
            ]
            log.append(produced_batch(log.topic_partition, memoryview(encode_batch(records)), lambda _: None))
            await writer.append([log.batches[-1].data])
            header = BatchHeader.parse(log.batches[-1].data)
            builder.add(header, header.base_offset, builder.valid_bytes)
        assert await read_all() == b"".join(batch.data for batch in log.batches)
    await writer.close()
    await store.rename("p/1.open", "p/1")
    directory = "p/1"
    written = b"".join(batch.data for batch in log.batches)
    assert await read_all() == written
    assert is_sent_from_files or not in_files
    first, second = log.batches[0], log.batches[1]
    in_the_middle = catch_up.read_in_file(log, first.end_offset, 10**6, log.high_watermark)
    if in_the_middle is not None:  # this kernel tells what is in the page cache
        (part,) = in_the_middle.views
        assert not isinstance(part, MEMORY)
        assert part.peek(0, len(part)) == written[len(first.data) :]
        assert len(part) >= len(second.data) and in_files
    await store.delete("p/1", recursive=True)
    with pytest.raises(BmqError):
        await read_all()
    await cache.close()
    await store.close()
