"""Filters fetches of consumers whose client id has the mark of a group with lanes: they see that group's records only.

The records were read below the high watermark before the base group's shard is asked, so its answer about them is final. If the
shard cannot be reached, the partition gets OFFSET_NOT_AVAILABLE, on which clients retry; no unfiltered records are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from bmq.log.lanes.group_filter import GroupFilter, filter_batches, narrowed_to_batch
from bmq.log.lanes.intervals import Interval
from bmq.log.lanes.names import LaneGroup, LaneRefused, lane_group_of, marked_group_of
from bmq.log.lanes.record_lane import DEFAULT_HEADER
from bmq.log.partition_log import TopicPartition
from bmq.protocol.compression import BadCompressedData, Buffer
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.hot_fetch import FetchResult
from bmq.protocol.lane_messages import DecidedPartition, LaneDecideRequest, LanePartition
from bmq.protocol.parts import MEMORY
from bmq.protocol.record_batch import CorruptRecords, batches
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.fetch_session import Interest
from bmq.proxy.filtered_batch_cache import ALL_PASS, AllPass, FilteredBatchCache
from bmq.records.records_twin import Damage

if TYPE_CHECKING:
    from bmq.protocol.request_context import RequestContext
    from bmq.proxy.services import LaneDecisions, Services

_HEADER: Final = DEFAULT_HEADER.encode()
_log = structlog.get_logger("bmq.proxy")


def lane_filter_of(
    context: RequestContext, services: Services, opener: BatchOpener, remembered: FilteredBatchCache
) -> LaneFetchFilter | None:
    """The filter of this client's fetches; None if it sees all records. `opener`, `remembered`: those of the process.

    Raises LaneRefused for a mark that names no valid group.
    """
    marked = marked_group_of(context.client_id)
    if marked is None:
        return None
    group = lane_group_of(marked)
    if services.lanes is None:
        raise LaneRefused("this listener serves no lanes")
    return LaneFetchFilter(group, services.lanes, opener, remembered)


class LaneFetchFilter:
    """The filter of one group, for one fetch."""

    def __init__(
        self, group: LaneGroup, decisions: LaneDecisions, opener: BatchOpener, remembered: FilteredBatchCache
    ) -> None:
        self._group = group
        self._decisions = decisions
        self._opener = opener
        self._remembered = remembered

    async def filter_results(
        self, interests: Sequence[Interest], results: list[FetchResult], done: Callable[[], None]
    ) -> None:
        """Replace the records in `results`, one for each interest, by those that the group sees; then call `done`."""
        try:
            await self._filter_results(interests, results)
        except Exception:  # noqa: BLE001 any bug is answered or logged, and no unfiltered records are sent
            _log.exception("lane_filter_failed", group=self._group.group_id)
            for place, result in enumerate(results):
                if result.records:
                    results[place] = _failed(result, ErrorCode.UNKNOWN_SERVER_ERROR)
        done()

    async def _filter_results(self, interests: Sequence[Interest], results: list[FetchResult]) -> None:
        asked: dict[TopicPartition, int] = {}
        parts = []
        for place, (interest, result) in enumerate(zip(interests, results, strict=True)):
            # Views cannot have lanes: consumers commit offsets of the view, but records that a lane leaves over are the base's.
            if interest.view is not None:
                results[place] = _failed(result, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif result.records and interest.topic_partition is not None:
                topic_id, number = interest.topic_partition
                asked[interest.topic_partition] = place
                first, last = interest.fetch_offset, result.high_watermark - 1
                parts.append(LanePartition(topic_id=topic_id, partition=number, first=first, last=last))
        if not parts:
            return
        request = LaneDecideRequest(group_id=self._group.base, lane=self._group.lane, partitions=parts)
        try:
            answer = await self._decisions.decide(request)
            code = ErrorCode(answer.error_code)
        except BmqError as error:
            answer, code = None, error.code
        decided: dict[TopicPartition, DecidedPartition] = {}
        if answer is not None and code is ErrorCode.NONE:
            decided = {TopicPartition(one.topic_id, one.partition): one for one in answer.partitions}
        else:
            _log.info("lanes_not_asked", group=self._group.base, error=code.name)
        for topic_partition, place in asked.items():
            results[place] = await self._seen(topic_partition, results[place], decided.get(topic_partition))

    async def _seen(self, source: TopicPartition, result: FetchResult, decided: DecidedPartition | None) -> FetchResult:
        if decided is None or decided.error_code:
            return _failed(result, ErrorCode.OFFSET_NOT_AVAILABLE)
        intervals = [Interval(one.lane, one.start, one.end, one.kept) for one in decided.intervals]
        views = []
        for part in result.records or ():
            assert isinstance(part, MEMORY), "a fetch with a mark reads into memory"
            views.append(memoryview(part))
        try:
            whole = views[0] if len(views) == 1 else memoryview(b"".join(views))  # a batch may span parts
            group_filter = GroupFilter(self._group.lane, _HEADER, intervals)
            seen = await self._filtered(source, group_filter, whole)
        except (BadCompressedData, CorruptRecords, Damage) as error:
            _log.warning("batch_not_opened", group=self._group.group_id, partition=result.partition, error=str(error))
            return _failed(result, ErrorCode.CORRUPT_MESSAGE)
        return result._replace(records=seen)

    async def _filtered(self, source: TopicPartition, group_filter: GroupFilter, whole: memoryview) -> list[Buffer]:
        """The batches as the group sees them, from the cache or filtered now. Raises as `filter_batches` does."""
        keys: dict[int, Hashable] = {}
        known: dict[int, Buffer | None] = {}
        attributes = size_bytes = 0
        for place, header in batches(whole):
            decides = narrowed_to_batch(group_filter, header)
            if decides is None:
                continue
            key = (source, decides, header.base_offset, header.crc, header.size_bytes)
            found = self._remembered.get(key)
            if found is None:
                keys[place] = key
                attributes |= header.attributes
                size_bytes += header.size_bytes
            else:
                known[place] = None if isinstance(found, AllPass) else found
        seen = await self._opener.open(attributes, size_bytes, partial(filter_batches, group_filter, whole, known))
        for place, one in seen.opened.items():
            self._remembered.put(keys[place], ALL_PASS if one is None else one)
        return seen.parts


def _failed(result: FetchResult, code: ErrorCode) -> FetchResult:
    return FetchResult(result.partition, code)
