"""Fetch of views: only what passes, at the base's offsets, with batches without records for the rest."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.local_store.file_part import LocalFilePart, OpenFile
from bmq.log.partition_log import AbortedTransaction
from bmq.metadata.image import MetadataImage, ViewImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader, batches, verify_crc
from bmq.proxy.catch_up import CatchUpResult
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.view_reads import SCAN_BYTES_MAX, _Filtering
from bmq.records.record_filter import IS_IN_C
from bmq.records.skipped_offsets import skipped_offsets
from tests.support.produced_batch import produced_batch
from tests.support.shown_records import shown_records
from tests.unit.proxy_fetch.cluster import TOPIC_ID, FetchCluster, image_of, results, topic, want

pytestmark = pytest.mark.unit

VIEW_ID = UUID(int=0xCA)
NEVER_MS = 60_000
Make = Callable[..., "ViewCluster"]


def with_views(**filters: str) -> MetadataImage:
    base = topic("t", TOPIC_ID, 3)
    views = [
        replace(base, name=name, topic_id=UUID(int=VIEW_ID.int + number), view=ViewImage("t", TOPIC_ID, text))
        for number, (name, text) in enumerate(filters.items())
    ]
    return replace(image_of(base, *views), views={one.topic_id: one for one in views})


class ViewCluster(FetchCluster):
    def __init__(self, text: str = "tag = 'a'", **named: Any) -> None:
        super().__init__(**named)
        self.controller.image = with_views(v=text)

    def put(
        self,
        tags: str,
        *,
        compression: Compression = Compression.NONE,
        attributes: int = 0,
        producer_id: int = -1,
        partition: int = 0,
        value: bytes = b"v",
    ) -> None:
        """One batch of a base partition, a record for each tag."""
        records = [Record(b"k", value, (("bmq-tag", tag.encode()),), 1000) for tag in tags]
        batch = encode_batch(records, compression=compression, attributes=attributes, producer_id=producer_id)
        log = self.log(partition)
        log.append(produced_batch(log.topic_partition, memoryview(batch), lambda _: None))


def wanted(offset: int = 0, topic_id: UUID = VIEW_ID, **named: Any) -> Any:
    return want({0: offset}, topic_id=topic_id, name="v", **named)


def seen(records: bytes | None) -> list[int]:
    return [
        record.offset for position, _ in batches(records or b"") for record in shown_records(records or b"", position)
    ]


def next_offset(records: bytes) -> int:
    found = 0
    for position, header in batches(records):
        verify_crc(records, position, header)
        found = header.end_offset
    return found


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[ViewCluster] = []

    def one(*args: Any, **named: Any) -> ViewCluster:
        made.append(ViewCluster(*args, **named))
        return made[-1]

    yield one
    for cluster in made:
        await cluster.fetcher.close()


async def until_waiting(cluster: FetchCluster) -> None:
    async with asyncio.timeout(10):
        while not len(cluster.fetcher.shared.deadlines):  # noqa: ASYNC110  (nothing tells of it)
            await asyncio.sleep(0)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
@pytest.mark.parametrize("tail_start_offset", [0, 1000])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
async def test_only_what_passes_comes_at_its_offsets(
    make: Make, version: int, tail_start_offset: int, compression: Compression
) -> None:
    cluster = make()
    for tags in ("ab", "bb", "b", "aa", "ba", "b"):
        cluster.put(tags, compression=compression)
    cluster.log().tail_start_offset = tail_start_offset
    found = results(await cluster.fetch(wanted(), version))[0]
    assert found.error_code == 0 and (found.high_watermark, found.last_stable_offset) == (10, 10)
    assert seen(found.records) == [0, 5, 6, 8]
    assert [(one.base_offset, one.end_offset, one.record_count) for _, one in batches(found.records)] == [
        (0, 2, 1),
        (2, 5, 1),
        (5, 7, 2),
        (7, 9, 1),
        (9, 10, 1),
    ], "batches of nothing have a control record"
    base = results(await cluster.fetch(want({0: 0}), version))[0]
    assert seen(base.records) == list(range(10))
    whole = results(await cluster.fetch(wanted(8), version))[0]
    assert seen(whole.records) == [8] and next_offset(whole.records) == 10


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=12),
    st.integers(60, 400),
    st.booleans(),
)
def test_a_reader_meets_every_passing_record_once_whatever_the_limits(
    tags: list[str], partition_max_bytes: int, is_in_store: bool
) -> None:
    async def story() -> None:
        cluster = ViewCluster()
        for some in tags:
            cluster.put(some)
        if is_in_store:
            cluster.log().tail_start_offset = 10_000
        end, offset, met = len("".join(tags)), 0, list[int]()
        while offset < end:
            answer = await cluster.fetch(wanted(offset, partition_max_bytes=partition_max_bytes))
            records = results(answer)[0].records
            assert records, "each answer moves on"
            met += [one for one in seen(records) if one >= offset]
            assert next_offset(records) > offset
            offset = next_offset(records)
        await cluster.fetcher.close()
        assert met == [place for place, tag in enumerate("".join(tags)) if tag == "a"]

    asyncio.run(story())


async def test_nothing_that_passes_keeps_a_fetch_waiting_until_its_time_is_over(make: Make) -> None:
    cluster = make()
    cluster.put("bb")
    answer = cluster.send(wanted(max_wait_ms=NEVER_MS), 18)
    await until_waiting(cluster)
    cluster.put("bbb")
    await until_waiting(cluster)
    assert not answer.done()
    cluster.fetcher.stop_waiting()
    records = results(await asyncio.wait_for(answer, 10))[0].records
    assert seen(records) == [] and next_offset(records) == 5
    assert len(list(batches(records))) == 1


async def test_what_passes_ends_the_wait_with_all_offsets_in_front_of_it(make: Make) -> None:
    cluster = make()
    cluster.put("bb")
    answer = cluster.send(wanted(max_wait_ms=NEVER_MS), 18)
    await until_waiting(cluster)
    cluster.put("bab")
    records = results(await asyncio.wait_for(answer, 10))[0].records
    assert seen(records) == [3]
    assert [(one.base_offset, one.end_offset) for _, one in batches(records)] == [(0, 2), (2, 5)]


async def test_records_that_come_while_a_view_is_read_are_not_slept_through(make: Make) -> None:
    cluster = make()
    cluster.put("bb")
    reads = cluster.fetcher.shared.view_reads
    began, go_on = asyncio.Event(), asyncio.Event()

    async def held(work: Callable[[], Any]) -> Any:
        found = work()
        began.set()
        await go_on.wait()
        return found

    reads._run_aside = held
    answer = cluster.send(wanted(max_wait_ms=NEVER_MS), 18)
    await began.wait()
    cluster.put("a")
    go_on.set()
    assert seen(results(await asyncio.wait_for(answer, 10))[0].records) == [2]


async def test_a_fetch_that_waits_reads_on_where_it_stopped(make: Make) -> None:
    cluster = make()
    log = cluster.log()
    cluster.put("b" * 5)
    answer = cluster.send(wanted(max_wait_ms=NEVER_MS), 18)
    await until_waiting(cluster)
    asked: list[int] = []
    original = log.tail_read

    def tail_read(offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        asked.append(offset)
        return original(offset, length_bytes_max, bound_offset)

    log.tail_read = tail_read  # type: ignore[method-assign]
    cluster.put("a")
    await asyncio.wait_for(answer, 10)
    assert min(asked) == 5


async def test_another_reader_of_the_view_filters_nothing_again(make: Make) -> None:
    cluster = make()
    for _ in range(4):
        cluster.put("ab" * 300)
    calls: list[int] = []
    reads = cluster.fetcher.shared.view_reads
    original = reads._run_aside

    async def counted(work: Callable[[], Any]) -> Any:
        calls.append(1)
        return await original(work)

    reads._run_aside = counted
    first = results(await cluster.fetch(wanted()))[0].records
    assert len(calls) == 2, "the filter is made ready, and looks"
    assert results(await cluster.fetch(wanted()))[0].records == first
    assert len(calls) == 2
    assert 0 < reads.remembered_bytes < 100_000


@pytest.mark.parametrize(
    ("text", "records", "compression", "is_aside"),
    [
        ("tag = 'a'", 1_000, Compression.NONE, not IS_IN_C),
        ("tag = 'a'", 1_001, Compression.NONE, True),
        ("tag = 'a'", 1_000, Compression.LZ4, True),
        ("tag <> 'b'", 100, Compression.NONE, False),
        ("tag <> 'b'", 1_000, Compression.NONE, True),
    ],
)
async def test_what_takes_long_is_filtered_away_from_the_event_loop(
    make: Make, text: str, records: int, compression: Compression, is_aside: bool
) -> None:
    cluster = make(text)
    cluster.put("a")
    await cluster.fetch(wanted())
    aside = in_single_steps(cluster)
    cluster.put("b" * (records - 1) + "a", compression=compression)
    assert seen(results(await cluster.fetch(wanted(1)))[0].records) == [records]
    assert bool(aside) is is_aside


def asked_of(cluster: ViewCluster) -> list[int]:
    """The offsets that the log is asked for from now on."""
    log, asked = cluster.log(), list[int]()
    original = log.tail_read

    def tail_read(offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        asked.append(offset)
        return original(offset, length_bytes_max, bound_offset)

    log.tail_read = tail_read  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("tail_start_offset", [0, 10_000])
async def test_another_reader_of_a_sparse_view_does_not_read_the_base(make: Make, tail_start_offset: int) -> None:
    cluster = make()
    for tags in ("b" * 40, "a", "b" * 30 + "a" + "b" * 30, "b" * 50):
        cluster.put(tags)
    cluster.log().tail_start_offset = tail_start_offset
    first = results(await cluster.fetch(wanted()))[0].records
    assert seen(first) == [40, 71]
    asked = asked_of(cluster)
    assert results(await cluster.fetch(wanted()))[0].records == first
    inside = results(await cluster.fetch(wanted(20)))[0].records
    assert [(one.base_offset, one.end_offset) for _, one in batches(inside)] == [
        (20, 40),
        (40, 41),
        (41, 102),
        (102, 152),
    ]
    assert asked == []
    cluster.put("ba")
    assert seen(results(await cluster.fetch(wanted(41)))[0].records) == [71, 153]
    assert asked == [152]


def puts_into_a_file(
    cluster: ViewCluster, path: Path, threads: ThreadPoolExecutor, step_bytes_max: int = 2**30
) -> None:
    """The batches that the log has lie in a file of the local store; reads take so much of it at once."""
    stored = [bytes(one.data) for one in cluster.log().batches]
    path.write_bytes(b"".join(stored))
    starts = [sum(map(len, stored[:number])) for number in range(len(stored) + 1)]
    firsts = [BatchHeader.parse(one).base_offset for one in stored]
    ends = [BatchHeader.parse(one).end_offset for one in stored]

    def read_in_file(log: Any, offset: int, length_bytes_max: int, bound_offset: int) -> CatchUpResult | None:
        first = last = bisect_right(firsts, offset) - 1
        room = min(length_bytes_max, step_bytes_max)
        while last + 1 < len(stored) and starts[last + 2] - starts[first] <= room and ends[last + 1] <= bound_offset:
            last += 1
        length = starts[last + 1] - starts[first]
        part = LocalFilePart(OpenFile(path), starts[first], length, asyncio.get_running_loop(), threads)
        return CatchUpResult((part,), ends[last])

    cluster.log().tail_start_offset = 10_000
    cluster.fetcher.shared.catch_up.read_in_file = read_in_file  # type: ignore[method-assign]


async def test_what_passes_as_a_whole_is_sent_as_the_base_would_be(make: Make, tmp_path: Path) -> None:
    """Batches lie in a file of the local store. The next reader of the view has no filter in its way."""
    cluster = make()
    for tags in ("a" * 600, "b", "a" * 600, "ab", "a" * 600):
        cluster.put(tags, value=b"x" * 100)
    with ThreadPoolExecutor(1) as threads:
        puts_into_a_file(cluster, tmp_path / "log", threads)
        aside = in_single_steps(cluster)
        first = results(await cluster.fetch(wanted()))[0].records
        expected = [one for one in range(1803) if one not in (600, 1202)]
        assert seen(first) == expected and next_offset(first) == 1803
        scans = len(aside)
        assert scans == 2, "the filter is made ready, and looks at all of it at once"
        assert results(await cluster.fetch(wanted()))[0].records == first
        assert seen(results(await cluster.fetch(wanted(601, partition_max_bytes=1)))[0].records) == expected[600:1200]
        assert len(aside) == scans


async def test_what_a_file_has_before_a_damaged_batch_is_sent(make: Make, tmp_path: Path) -> None:
    """Nothing is remembered where compaction has passed, so this fetch alone can send it."""
    cluster = make()
    for _ in range(2):
        cluster.put("a" * 600, value=b"x" * 100)
    log = cluster.log()
    log.compacted_offset = 10_000
    broken = bytearray(log.batches[-1].data)
    broken[61] = 120  # the first record's length
    log.batches[-1] = replace(log.batches[-1], data=bytes(broken))
    with ThreadPoolExecutor(1) as threads:
        puts_into_a_file(cluster, tmp_path / "log", threads, step_bytes_max=1)
        found = results(await cluster.fetch(wanted()))[0]
        assert found.error_code == ErrorCode.NONE and seen(found.records) == list(range(600))
        found = results(await cluster.fetch(wanted(600)))[0]
        assert found.error_code == ErrorCode.CORRUPT_MESSAGE and not found.records


async def test_what_is_not_committed_is_not_shown_from_memory(make: Make) -> None:
    cluster = make()
    cluster.put("b" * 40)
    cluster.put("b" * 10)
    cluster.put("b" * 30 + "a")
    assert next_offset(results(await cluster.fetch(wanted()))[0].records) == 81
    for stable, end in ((50, 50), (40, 40)):
        cluster.log().last_stable_offset_bound = stable
        asked = asked_of(cluster)
        records = results(await cluster.fetch(wanted(isolation_level=1)))[0].records
        assert seen(records) == [] and next_offset(records) == end and asked == []


async def test_compaction_makes_ranges_forgotten(make: Make) -> None:
    cluster = make()
    cluster.put("b" * 40)
    cluster.put("b" * 40)
    log = cluster.log()
    await cluster.fetch(wanted())
    asked = asked_of(cluster)
    log.compacted_offset = 40
    await cluster.fetch(wanted())
    await cluster.fetch(wanted())
    assert asked == [0, 0], "what compaction has passed is read each time"
    log.compacted_offset = -1
    await cluster.fetch(wanted())
    await cluster.fetch(wanted())
    assert asked == [0, 0, 0]


async def test_the_log_is_asked_about_compaction_from_time_to_time(make: Make) -> None:
    cluster = make()
    cluster.put("b" * 40)
    log, reads = cluster.log(), cluster.fetcher.shared.view_reads
    now_s = 0.0
    reads._elapsed_s = lambda: now_s
    await cluster.fetch(wanted())
    asked, located = asked_of(cluster), list[int]()
    original = log.locate

    async def locate(offset: int) -> Any:
        located.append(offset)
        return await original(offset)

    log.locate = locate  # type: ignore[method-assign]
    for later_s in (1.0, 16.0, 17.0, 30.0, 32.0):
        now_s = later_s
        await cluster.fetch(wanted(3))
    assert located == [3, 3] and asked == []


def in_single_steps(cluster: ViewCluster) -> list[int]:
    """Each slice of a filtering ends after one step. Returns a list that gets an entry for each slice."""
    reads, now, slices = cluster.fetcher.shared.view_reads, count(), list[int]()

    async def one_step(work: Callable[[], Any]) -> Any:
        slices.append(1)
        await asyncio.sleep(0)
        return work()

    reads._elapsed_s = lambda: float(next(now))
    reads._run_aside = one_step
    return slices


async def test_a_long_filtering_does_not_hold_others_back(make: Make) -> None:
    cluster = make()
    cluster.controller.image = with_views(v="tag <> 'a'", w="tag <> 'b'")
    slices = in_single_steps(cluster)
    cluster.put("ab" * 5_000)
    cluster.put("abba", partition=1, compression=Compression.LZ4)
    long = asyncio.ensure_future(cluster.fetch(wanted()))
    async with asyncio.timeout(10):
        while not slices:  # noqa: ASYNC110  (nothing tells of it)
            await asyncio.sleep(0)
    begun = len(slices)
    for name, topic_id, offsets in (("v", VIEW_ID, [1, 2]), ("w", UUID(int=VIEW_ID.int + 1), [0, 3])):
        other = want({1: 0}, topic_id=topic_id, name=name)
        assert seen(results(await cluster.fetch(other))[1].records) == offsets
    assert not long.done() and len(slices) < begun + 20
    assert seen(results(await long)[0].records) == list(range(1, 10_000, 2))
    assert len(slices) > 35


async def test_readers_of_one_long_batch_filter_it_once(make: Make) -> None:
    cluster = make("tag <> 'a'")
    slices = in_single_steps(cluster)
    cluster.put("ab" * 1_000)
    answers = await asyncio.gather(*(cluster.fetch(wanted()) for _ in range(3)))
    assert [seen(results(one)[0].records) for one in answers] == [list(range(1, 2_000, 2))] * 3
    assert len(slices) <= 8 + 1 + 2, "the batch once, and a step of each reader that came meanwhile"


async def test_two_long_filterings_are_not_in_memory_together(make: Make) -> None:
    cluster = make()
    cluster.controller.image = with_views(v="tag <> 'a'", w="tag <> 'b'")
    in_single_steps(cluster)
    cluster.put("ab" * 2_000, compression=Compression.LZ4)
    opened: list[int] = []
    original = _Filtering.rewind

    def rewound(job: _Filtering) -> None:
        opened.append(1)
        original(job)
        assert job._steps is None

    with patch.object(_Filtering, "rewind", rewound):
        other = want({0: 0}, topic_id=UUID(int=VIEW_ID.int + 1), name="w")
        one, two = await asyncio.gather(cluster.fetch(wanted()), cluster.fetch(other))
    assert seen(results(one)[0].records) == list(range(1, 4_000, 2))
    assert seen(results(two)[0].records) == list(range(0, 4_000, 2))
    assert opened == [1]


async def test_without_room_to_remember_the_answer_is_the_same(make: Make) -> None:
    cluster = make(config=FetchSettings(view_cache_bytes_max=300))
    for tags in ("ab", "bb", "a"):
        cluster.put(tags)
    for _ in range(2):
        assert seen(results(await cluster.fetch(wanted()))[0].records) == [0, 4]
    assert cluster.fetcher.shared.view_reads.remembered_bytes <= 300


@pytest.mark.parametrize(
    ("one", "two", "of_one", "of_two"),
    [
        ("tag = 'a'", "tag <> 'a'", [0, 3], [1, 2]),
        ("tag = 'a'", "tag = 'b'", [0, 3], [1]),
        ("tag <> 'b'", "tag <> 'c'", [0, 2, 3], [0, 1, 3]),
    ],
)
async def test_two_views_of_one_base_do_not_share_what_they_remember(
    make: Make, one: str, two: str, of_one: list[int], of_two: list[int]
) -> None:
    cluster = make()
    cluster.controller.image = with_views(v=one, w=two)
    cluster.put("abca")
    assert seen(results(await cluster.fetch(wanted()))[0].records) == of_one
    other = want({0: 0}, topic_id=UUID(int=VIEW_ID.int + 1), name="w")
    assert seen(results(await cluster.fetch(other))[0].records) == of_two


async def test_a_long_run_of_nothing_is_answered_in_bounded_work(make: Make) -> None:
    cluster = make(config=FetchSettings(fetch_max_bytes=1024))
    log = cluster.log()
    records = [Record(None, b"z" * 1_000_000, (("bmq-tag", b"b"),), 1000)]
    for _ in range(SCAN_BYTES_MAX // 1_000_000 + 6):
        log.append(produced_batch(log.topic_partition, memoryview(encode_batch(records)), lambda _: None))
    answer = results(await cluster.fetch(wanted(max_wait_ms=NEVER_MS)))[0]
    assert seen(answer.records) == []
    assert 1 <= next_offset(answer.records) <= SCAN_BYTES_MAX // 1_000_000 + 1
    assert len(answer.records) == len(skipped_offsets(0, 20, 1))


async def test_sessions_move_on_and_other_partitions_do_not_hold_runs_back(make: Make) -> None:
    cluster = make()
    cluster.put("bb")
    cluster.produce(1)
    request = want({0: 0, 1: 0}, topic_id=TOPIC_ID)
    request.topics.append(wanted().topics[0])  # type: ignore[attr-defined]
    response = await cluster.fetch(request)
    (view,) = [part for part in response.responses if part.topic_id == VIEW_ID]
    assert next_offset(view.partitions[0].records) == 2


async def test_committed_reads_get_markers_and_aborted_transactions(make: Make) -> None:
    cluster = make()
    log = cluster.log()
    cluster.put("ab", attributes=TRANSACTIONAL, producer_id=9)
    cluster.put("b")
    cluster.put("a")
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 1), producer_id=9, producer_epoch=0, timestamp_ms=1
    )
    log.append(produced_batch(log.topic_partition, memoryview(marker), lambda _: None))
    log.aborted = [(AbortedTransaction(9, 0), 5)]
    found = results(await cluster.fetch(wanted(isolation_level=1)))[0]
    assert [one.base_offset for _, one in batches(found.records) if one.is_control and one.has_producer_id] == [4]
    data = [
        record.offset
        for place, one in batches(found.records)
        if not one.is_control
        for record in shown_records(found.records, place)
    ]
    assert data == [0, 3]
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions] == [(9, 0)]
    plain = results(await cluster.fetch(wanted()))[0]
    assert plain.aborted_transactions is None


async def test_damaged_records_are_corrupt_and_not_left_out(make: Make) -> None:
    cluster = make()
    cluster.put("ab")
    log = cluster.log()
    broken = bytearray(log.batches[-1].data)
    broken[61] = 120  # the first record's length
    log.batches[-1] = (
        log.batches[-1]._replace(data=bytes(broken))
        if hasattr(log.batches[-1], "_replace")
        else replace(log.batches[-1], data=bytes(broken))
    )
    found = results(await cluster.fetch(wanted()))[0]
    assert found.error_code == ErrorCode.CORRUPT_MESSAGE and not found.records


async def test_offsets_are_the_bases_and_deleting_records_is_refused(make: Make) -> None:
    cluster = make()
    cluster.put("bbb")
    for timestamp, offset in ((-1, 3), (-2, 0), (1000, 0)):
        asked = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(name="v", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
            ],
        )
        answer = await cluster.ask(ApiKey.LIST_OFFSETS, 8, asked)
        assert answer.topics[0].partitions[0].offset == offset
    delete = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="v", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])]
    )
    refused = (await cluster.ask(ApiKey.DELETE_RECORDS, 2, delete)).topics[0].partitions[0]
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert cluster.log().log_start_offset == 0


async def test_a_view_without_a_base_is_unknown(make: Make) -> None:
    cluster = make()
    image = cluster.controller.image
    view = replace(image.topics["v"], partitions=(), view=ViewImage("t", None, "TRUE"))
    cluster.controller.image = replace(
        image, topics={**image.topics, "v": view}, topics_by_id={**image.topics_by_id, VIEW_ID: view}
    )
    found = results(await cluster.fetch(wanted()))[0]
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
