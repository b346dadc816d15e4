"""A fetch with a mark: it sees its group's records, and nothing at all where the shard cannot say which these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.log.lanes.names import LaneGroup, LaneRefused
from bmq.log.partition_log import TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_fetch import FetchResult
from bmq.protocol.lane_messages import (
    DecidedInterval,
    DecidedPartition,
    LaneDecideRequest,
    LaneDecideResponse,
    LaneListRequest,
    LaneListResponse,
)
from bmq.protocol.record_batch import rewrite
from bmq.protocol.request_context import RequestContext
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.fetch_session import Interest
from bmq.proxy.filtered_batch_cache import FilteredBatchCache
from bmq.proxy.lanes.lane_fetch_filter import LaneFetchFilter, lane_filter_of
from bmq.proxy.services import Services
from tests.support.shown_records import shown_records

pytestmark = pytest.mark.unit

TOPIC = UUID(int=7)
OPEN = DecidedInterval(lane="blue", start=12, end=2**63 - 1, kept=2**63 - 1)


@dataclass
class Place:
    """The part of an Interest that is used."""

    partition: int
    fetch_offset: int = 10
    view: object = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(TOPIC, self.partition)


ran_aside: list[object] = []


async def run_aside(work: Any) -> Any:
    """As asyncio.to_thread."""
    ran_aside.append(work)
    return work()


class Decisions:
    """As bmq.proxy.services.LaneDecisions. Partition 1 has an error of its own."""

    def __init__(
        self,
        interval: DecidedInterval = OPEN,
        *,
        error: ErrorCode | None = None,
        raises: Exception | None = None,
    ) -> None:
        self.asked: list[LaneDecideRequest] = []
        self._interval = interval
        self._error = error
        self._raises = raises

    async def decide(self, request: LaneDecideRequest) -> LaneDecideResponse:
        self.asked.append(request)
        if self._raises is not None:
            raise self._raises
        if self._error is not None:
            return LaneDecideResponse(error_code=self._error)
        return LaneDecideResponse(
            partitions=[
                DecidedPartition(
                    topic_id=one.topic_id,
                    partition=one.partition,
                    error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE if one.partition == 1 else 0,
                    intervals=[self._interval],
                )
                for one in request.partitions
            ]
        )

    async def list(self, request: LaneListRequest) -> LaneListResponse:
        raise NotImplementedError


def records(codec: Compression = Compression.NONE) -> memoryview:
    lanes = ["blue", "", "blue", "blue", ""]
    found = [Record(None, b"v", (("x-lane", lane.encode()),) if lane else ()) for lane in lanes]
    data = encode_batch(found, compression=codec)
    rewrite(data, 0, 10, 0)
    return memoryview(data)


async def seen(lane: str, decisions: Decisions, count: int = 1) -> list[FetchResult]:
    results = [FetchResult(number, 0, 15, 15, 0, [records()]) for number in range(count)]
    results.append(FetchResult(count, 0, 10, 10, 0))
    places = [Place(number) for number in range(count + 1)]
    done: list[bool] = []
    lane_filter = LaneFetchFilter(LaneGroup("g", lane), decisions, BatchOpener(run_aside), FilteredBatchCache(1 << 20))
    await lane_filter.filter_results(cast("list[Interest]", places), results, lambda: done.append(True))
    assert done == [True]
    return results


def offsets(result: FetchResult) -> list[int]:
    return [record.offset for part in result.records or () for record in shown_records(cast(Any, part))]


@pytest.mark.parametrize(("lane", "wanted"), [("", [10, 11, 14]), ("blue", [12, 13]), ("red", [])])
async def test_group_sees_its_records(lane: str, wanted: list[int]) -> None:
    decisions = Decisions()
    result, empty = await seen(lane, decisions)
    assert offsets(result) == wanted and result[:5] == (0, 0, 15, 15, 0) and empty.records == ()
    (asked,) = decisions.asked
    assert (asked.group_id, asked.lane) == ("g", lane)
    assert [(one.partition, one.first, one.last) for one in asked.partitions] == [(0, 10, 14)]


@pytest.mark.parametrize(
    ("decisions", "code"),
    [
        (Decisions(error=ErrorCode.NOT_COORDINATOR), ErrorCode.OFFSET_NOT_AVAILABLE),
        (Decisions(raises=KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)), ErrorCode.OFFSET_NOT_AVAILABLE),
        (Decisions(raises=ValueError("a bug")), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_nothing_goes_out_that_was_not_decided(decisions: Decisions, code: ErrorCode) -> None:
    result, empty = await seen("", decisions)
    assert (result.error_code, result.records) == (code, ()) and empty.error_code == 0


async def test_one_partitions_error_is_its_own() -> None:
    first, second, _ = await seen("", Decisions(), count=2)
    assert offsets(first) == [10, 11, 14] and (second.error_code, second.records) == (78, ())


async def test_compressed_batches_are_opened_aside() -> None:
    ran_aside.clear()
    results = [FetchResult(0, 0, 15, 15, 0, [records(Compression.LZ4)])]
    lane_filter = LaneFetchFilter(LaneGroup("g", ""), Decisions(), BatchOpener(run_aside), FilteredBatchCache(1 << 20))
    await lane_filter.filter_results(cast("list[Interest]", [Place(0)]), results, lambda: None)
    assert offsets(results[0]) == [10, 11, 14] and len(ran_aside) == 1


async def test_what_one_member_had_opened_the_next_has_at_once() -> None:
    remembered = FilteredBatchCache(1 << 20)

    async def fetched(lane: str, closed: DecidedInterval = OPEN) -> list[int]:
        decisions = Decisions(closed)
        results = [FetchResult(0, 0, 15, 15, 0, [records(Compression.LZ4)])]
        lane_filter = LaneFetchFilter(LaneGroup("g", lane), decisions, BatchOpener(run_aside), remembered)
        await lane_filter.filter_results(cast("list[Interest]", [Place(0)]), results, lambda: None)
        return offsets(results[0])

    ran_aside.clear()
    assert await fetched("") == [10, 11, 14] and await fetched("blue") == [12, 13] and await fetched("red") == []
    assert len(ran_aside) == 3
    assert await fetched("") == [10, 11, 14] and await fetched("blue") == [12, 13] and await fetched("red") == []
    assert len(ran_aside) == 3 and remembered.used_bytes
    far = DecidedInterval(lane="blue", start=12, end=20, kept=16)
    assert await fetched("", far) == [10, 11, 14] and await fetched("blue", far) == [12, 13]
    assert len(ran_aside) == 3, "what is decided about the batch is the same"
    ended = DecidedInterval(lane="blue", start=12, end=13, kept=12)
    assert await fetched("", ended) == [10, 11, 13, 14] and await fetched("blue", ended) == []
    assert len(ran_aside) == 5


async def test_views_are_not_read_with_a_mark() -> None:
    results = [FetchResult(0, 0, 15, 15, 0, [records()])]
    decisions = Decisions()
    lane_filter = LaneFetchFilter(
        LaneGroup("g", "blue"), decisions, BatchOpener(run_aside), FilteredBatchCache(1 << 20)
    )
    await lane_filter.filter_results(cast("list[Interest]", [Place(0, view=object())]), results, lambda: None)
    assert (results[0].error_code, results[0].records) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    assert not decisions.asked


async def test_damaged_batch_is_an_error() -> None:
    damaged = bytearray(records())
    damaged[61] = 0xFF
    results = [FetchResult(0, 0, 15, 15, 0, [memoryview(damaged)])]
    await LaneFetchFilter(
        LaneGroup("g", ""), Decisions(), BatchOpener(run_aside), FilteredBatchCache(1 << 20)
    ).filter_results(cast("list[Interest]", [Place(0)]), results, lambda: None)
    assert (results[0].error_code, results[0].records) == (ErrorCode.CORRUPT_MESSAGE, ())


class OnlyLanes:
    """The part of Services that is used."""

    lanes = Decisions()


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "consumer-g@blue-1"])
def test_client_without_a_mark_sees_everything(client_id: str | None) -> None:
    assert (
        lane_filter_of(
            RequestContext(12, client_id, "h"), cast(Services, OnlyLanes()), BatchOpener(), FilteredBatchCache(0)
        )
        is None
    )


@pytest.mark.parametrize("client_id", ["lanes:", "lanes:@blue", "lanes:g@a@b", "lanes:g@a/b"])
def test_mark_of_no_group_is_refused(client_id: str) -> None:
    with pytest.raises(LaneRefused):
        lane_filter_of(
            RequestContext(12, client_id, "h"), cast(Services, OnlyLanes()), BatchOpener(), FilteredBatchCache(0)
        )
