"""The files of a partition and their DataNodes: the one page that asks the store."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query

from bmq.admin.orders import partition_of, topic_of
from bmq.admin.rest.parameters import PartitionNumber, TopicName
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import SegmentLine, SegmentPage, segment_line
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.partition_view import PartitionView, SegmentView, locate_segments, view_partition
from bmq.log.store import FileMissing, SegmentStore

STORE_WAIT_S: Final = 3.0
SEGMENTS_MAX: Final = 500
LISTINGS_MAX: Final = 4


def segment_pages(sources: RestSources, store_wait_s: float = STORE_WAIT_S) -> APIRouter:
    pages = APIRouter()
    listings = asyncio.Semaphore(LISTINGS_MAX)

    @pages.get("/v1/topics/{name}/partitions/{number}/segments", responses=errors(404, 422, 503, 504))
    async def segments(
        name: TopicName,
        number: PartitionNumber,
        skip: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=SEGMENTS_MAX)] = 100,
    ) -> SegmentPage:
        """The files that hold the partition, in the order of the log: offsets, lengths, and the DataNodes that have them."""
        topic = topic_of(sources.image(), name)
        partition_of(topic, number)
        store = sources.store()
        if store is None:
            raise ProblemError(503, "this node has no store open yet; ask again in a moment")
        directory = partition_directory(TopicPartition(topic.topic_id, number))
        try:
            async with asyncio.timeout(store_wait_s), listings:
                view = await _view(store, directory)
                shown = view.segments[skip : skip + limit] if view is not None else ()
                lines = await _lines(store, shown)
        except TimeoutError:
            raise ProblemError(504, f"the store did not answer within {store_wait_s:g} s") from None
        count = 0 if view is None else len(view.segments)
        manifest = None if view is None else view.manifest
        return SegmentPage(
            topic=name,
            partition=number,
            count=count,
            log_start_offset=None if manifest is None else manifest.log_start_offset,
            segments=lines,
            next_skip=skip + limit if skip + limit < count else None,
        )

    return pages


async def _view(store: SegmentStore, directory: str) -> PartitionView | None:
    """None for a partition that is assigned and was never written."""
    try:
        return await view_partition(store, directory)
    except FileMissing:
        return None


async def _lines(store: SegmentStore, segments: tuple[SegmentView, ...]) -> list[SegmentLine]:
    located = await locate_segments(store, segments)
    return [segment_line(segment, nodes) for segment, nodes in zip(segments, located, strict=True)]
