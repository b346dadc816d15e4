"""What is read back from the store is what was written, for any offset, limit, bound and chunk size; and never more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.log.partition_log import Location, TopicPartition
from bmq.log.store import Buffer, FileMissing
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import CorruptRecords
from bmq.proxy.catch_up import CatchUp, ExtentWalk
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.read_cache import ReadCache
from tests.fakes.partition_log import FakePartitionLog
from tests.fakes.store import FakeClient, FakeStore
from tests.support.produced_batch import produced_batch
from tests.unit.log.test_segment_reader import padded_file
from tests.unit.proxy_fetch.running import run_along

pytestmark = pytest.mark.unit


class CountingStore:
    """The reads of a fake store's client, held back on demand."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self.reads: list[tuple[int, int]] = []
        self.missing = 0
        self.gate: asyncio.Event | None = None

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        self.reads.append((position, length_bytes))
        if self.gate is not None:
            await self.gate.wait()
        if self.missing:
            self.missing -= 1
            raise FileMissing(path)
        return await self.client.read(path, file_id=file_id, position=position, length_bytes=length_bytes)


class Reader:
    """A log whose bytes are in the store alone, and the catch-up path over it."""

    def __init__(self, batch_sizes: list[tuple[int, int]], config: FetchSettings) -> None:
        fake = FakeStore()
        self.log = FakePartitionLog(TopicPartition(UUID(int=1), 0), store=fake)
        self.written: list[bytes] = []
        for count, value_bytes in batch_sizes:
            self.append(count, value_bytes)
        self.store = CountingStore(fake.client("reader"))
        self.fake = fake
        self.counts = FetchCounts()
        self.now_s = 0.0
        self.cache = ReadCache(self.store, config, self.counts)  # type: ignore[arg-type]
        self.catch_up = CatchUp(self.cache, config, lambda: self.now_s, run_along)

    def append(self, count: int, value_bytes: int) -> None:
        data = encode_batch([Record(None, b"v" * value_bytes, (), 1000) for _ in range(count)])
        self.log.append(produced_batch(self.log.topic_partition, memoryview(data), lambda _: None))

    def expected(self, offset: int, length_bytes_max: int, bound_offset: int) -> bytes:
        chosen = b""
        for batch in self.log.batches:
            if batch.end_offset <= offset:
                continue
            if batch.end_offset > bound_offset or (chosen and len(chosen) + len(batch.data) > length_bytes_max):
                break
            chosen += batch.data
        return chosen


@given(
    batch_sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 300)), min_size=1, max_size=25),
    chunk_bytes=st.integers(64, 1500),
    cache_bytes=st.integers(0, 5000),
    reads=st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 3000), st.integers(0, 10**6), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    withheld=st.integers(0, 3),
)
@example(batch_sizes=[(1, 0)] * 3, chunk_bytes=70, cache_bytes=0, reads=[(1, 0, 3, False)], withheld=0)
def test_reads_what_was_written(
    batch_sizes: list[tuple[int, int]],
    chunk_bytes: int,
    cache_bytes: int,
    reads: list[tuple[int, int, int, bool]],
    withheld: int,
) -> None:
    async def run() -> None:
        config = FetchSettings(read_chunk_bytes=chunk_bytes, read_cache_bytes_max=cache_bytes, read_cursors_max=4)
        reader = Reader(batch_sizes, config)
        # The last batches are in the file but not below the high watermark: nobody may see them (rule 13).
        reader.log.is_acknowledging = False
        for _ in range(withheld):
            reader.append(1, 50)
        log = reader.log
        valid_bytes = sum(len(b.data) for b in log.batches if b.end_offset <= log.high_watermark)
        following = 0
        for wish, limit, bound_wish, is_following in reads:
            high_watermark = log.high_watermark
            offset = following if is_following and following < high_watermark else wish % high_watermark
            bound_offset = min(high_watermark, offset + bound_wish % (high_watermark + 1))
            at_once = reader.catch_up.read_cached(log, offset, limit, bound_offset)
            done = await reader.catch_up.read(log, offset, limit, bound_offset)
            expected = reader.expected(offset, limit, bound_offset)
            assert b"".join(done.views) == expected  # type: ignore[arg-type]
            if expected:
                assert done.next_offset == max(b.end_offset for b in log.batches if expected.endswith(b.data))
                following = done.next_offset
            if at_once is not None:
                assert b"".join(at_once.views) == expected and at_once.next_offset == done.next_offset  # type: ignore[arg-type]
            assert reader.cache.bytes_used <= max(cache_bytes, 0)
        assert all(position + length <= valid_bytes for position, length in reader.store.reads)
        await reader.cache.close()

    asyncio.run(run())


def test_a_growing_file_is_read_to_its_new_end() -> None:
    async def run() -> None:
        reader = Reader([(1, 100)] * 3, FetchSettings(read_chunk_bytes=4096))
        first = await reader.catch_up.read(reader.log, 0, 10**6, 3)
        reader.append(2, 30)
        second = await reader.catch_up.read(reader.log, 3, 10**6, 5)
        again = await reader.catch_up.read(reader.log, 0, 10**6, 5)
        assert b"".join(first.views) + b"".join(second.views) == b"".join(again.views) == reader.expected(0, 10**6, 5)  # type: ignore[arg-type]
        await reader.cache.close()

    asyncio.run(run())


def test_misses_of_one_chunk_share_a_read_and_survive_a_reader_that_gives_up() -> None:
    async def run() -> None:
        reader = Reader([(1, 100)] * 5, FetchSettings(read_chunk_bytes=4096))
        reader.store.gate = asyncio.Event()
        tasks = [asyncio.create_task(reader.catch_up.read(reader.log, 0, 10**6, 5)) for _ in range(10)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(reader.store.reads) == 1
        tasks[0].cancel()
        reader.store.gate.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError)
        assert len(reader.store.reads) == 1
        for one in done[1:]:
            assert not isinstance(one, BaseException)
            assert b"".join(one.views) == reader.expected(0, 10**6, 5)  # type: ignore[arg-type]
        await reader.cache.close()

    asyncio.run(run())


def test_a_sequential_reader_is_read_ahead_of_within_the_budget() -> None:
    async def run() -> None:
        config = FetchSettings(read_chunk_bytes=1024, read_ahead_chunks_max=2, read_ahead_bytes_max=2048)
        reader = Reader([(1, 150)] * 60, config)
        offset, at_once = 0, 0
        random = Random(1)
        while offset < 60:
            limit = random.choice((300, 900, 1500))
            found = reader.catch_up.read_cached(reader.log, offset, limit, 60)
            at_once += found is not None
            done = found or await reader.catch_up.read(reader.log, offset, limit, 60)
            assert b"".join(done.views) == reader.expected(offset, limit, 60)  # type: ignore[arg-type]
            assert reader.cache.read_ahead_bytes <= 2048
            offset = done.next_offset
            for _ in range(20):
                await asyncio.sleep(0)
        assert at_once > 10
        assert reader.cache.read_ahead_bytes == 0
        # Every chunk once: what was read ahead was used.
        assert len(reader.store.reads) == len(set(reader.store.reads))
        await reader.cache.close()

    asyncio.run(run())


def test_a_file_that_is_gone_is_looked_up_again() -> None:
    async def run() -> None:
        reader = Reader([(1, 100)] * 5, FetchSettings(read_attempts_max=3))
        reader.store.missing = 2
        done = await reader.catch_up.read(reader.log, 1, 10**6, 5)
        assert b"".join(done.views) == reader.expected(1, 10**6, 5)  # type: ignore[arg-type]
        other = Reader([(1, 100)] * 5, FetchSettings(read_attempts_max=3))
        other.store.missing = 99
        with pytest.raises(KafkaError) as caught:
            await other.catch_up.read(other.log, 1, 10**6, 5)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR and len(other.store.reads) == 3
        await reader.cache.close()
        await other.cache.close()

    asyncio.run(run())


def test_where_a_reader_ended_is_remembered_for_a_while() -> None:
    """The file may have been replaced meanwhile, and nothing else would show that as long as its bytes are in the cache."""

    async def run() -> None:
        reader = Reader([(1, 100)] * 5, FetchSettings(read_cursor_age_ms=1_000))
        located: list[int] = []
        locate = reader.log.locate

        async def noted(offset: int) -> Location:
            located.append(offset)
            return await locate(offset)

        reader.log.locate = noted  # type: ignore[method-assign]
        offset = 0
        for passed_s, wanted in ((0.0, [0]), (0.6, [0]), (0.6, [0, 2]), (0.0, [0, 2]), (1.1, [0, 2, 4])):
            reader.now_s += passed_s
            done = await reader.catch_up.read(reader.log, offset, 1, 5)
            offset = done.next_offset
            assert located == wanted
        assert offset == 5
        reader.now_s += 1.1
        assert reader.catch_up.read_cached(reader.log, 1, 1, 5) is None
        await reader.cache.close()

    asyncio.run(run())


def test_a_reader_leaves_a_file_that_compaction_has_replaced() -> None:
    """It asks for a position below what has been compacted since it asked; above, its file is still the log's."""

    async def run() -> None:
        reader = Reader([(1, 100)] * 5, FetchSettings())
        located: list[int] = []
        locate = reader.log.locate

        async def noted(offset: int) -> Location:
            located.append(offset)
            return replace(await locate(offset), base_offset=2)

        reader.log.locate = noted  # type: ignore[method-assign]
        offset = 2
        for compacted_offset, wanted in ((-1, [2]), (2, [2]), (3, [2, 4])):
            reader.log.compacted_offset = compacted_offset
            done = await reader.catch_up.read(reader.log, offset, 1, 5)
            offset = done.next_offset
            assert located == wanted
        await reader.cache.close()

    asyncio.run(run())


def test_a_damaged_length_is_corrupt_and_ends() -> None:
    async def run() -> None:
        reader = Reader([(1, 100)] * 3, FetchSettings(read_chunk_bytes=128))
        file = reader.fake.namespace.file(reader.log.path)
        position = reader.log.batches[1].position + 8
        file.data[position : position + 4] = (0).to_bytes(4, "big")
        with pytest.raises(CorruptRecords):
            await reader.catch_up.read(reader.log, 0, 10**6, 3)
        await reader.cache.close()

    asyncio.run(run())


@given(
    groups=st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=3), min_size=1, max_size=8),
    alignments=st.lists(st.sampled_from([1, 512, 4096]), min_size=8, max_size=8),
    chunk_bytes=st.integers(64, 5_000),
    data=st.data(),
)
def test_padding_is_not_given(
    groups: list[list[int]], alignments: list[int], chunk_bytes: int, data: st.DataObject
) -> None:
    """Read after read, each from where the last one ended, with whatever limit: every batch once, and nothing else."""
    placed, file = padded_file(groups, alignments)
    end_offset = 2 * len(placed)
    valid_bytes = placed[-1][0] + len(placed[-1][1])
    number = data.draw(st.integers(0, len(placed) - 1))
    offset, position, found = 2 * number, 0, b""
    while offset < end_offset:
        bound_offset = data.draw(st.integers(offset // 2 + 1, len(placed))) * 2
        location = Location("p", 1, position, valid_bytes, 0, end_offset, True)
        walk = ExtentWalk(location, offset, data.draw(st.integers(0, 3_000)), bound_offset, chunk_bytes)
        chunks: dict[int, memoryview] = {}
        while (needed := walk.advance(chunks)) is not None:
            assert needed not in chunks
            chunks[needed] = memoryview(file[:valid_bytes])[needed * chunk_bytes : (needed + 1) * chunk_bytes]
        views = walk.views(chunks)
        assert views and walk.next_offset > offset
        found += b"".join(views)
        offset, position = walk.next_offset, walk.position
    assert found == b"".join(batch for _, batch in placed[number:])
