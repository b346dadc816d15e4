"""The partitions that a node owns, with their sizes where the node itself answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel

from bmq.admin.orders import node_of, partitions_of
from bmq.admin.rest.parameters import NodeId
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.log.partition_log import TopicPartition

PARTITIONS_SHOWN_MAX: Final = 10_000
_AT_A_TIME: Final = 1_000
"""Partitions that are measured before others may use the event loop."""


class OwnedPartition(BaseModel):
    """`size_bytes`: of its log; null where another node owns it, or it is not started."""

    topic: str
    partition: int
    leader_epoch: int
    size_bytes: int | None


class OwnedPartitionPage(BaseModel):
    """In the order of topics and partitions, `count` in all. `stored_bytes`: of the started ones together; null where another node
    is asked. `next_skip`: what to ask for next as `skip`; null on the last page.
    """

    node_id: int
    count: int
    stored_bytes: int | None
    partitions: list[OwnedPartition]
    next_skip: int | None


def node_partition_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get("/v1/nodes/{node_id}/partitions", responses=errors(404, 422))
    async def partitions(
        node_id: NodeId,
        skip: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=PARTITIONS_SHOWN_MAX)] = 1_000,
    ) -> OwnedPartitionPage:
        """The partitions of a live node. Sizes are known to the node itself."""
        image = sources.image()
        node_of(image, node_id)
        owned = [(topic, one) for topic, one in partitions_of(image) if one.leader == node_id]
        owned.sort(key=lambda pair: (pair[0].name, pair[1].partition))
        sizes = await _sizes(sources) if node_id == sources.node_id else None
        return OwnedPartitionPage(
            node_id=node_id,
            count=len(owned),
            stored_bytes=None if sizes is None else sum(sizes.values()),
            partitions=[
                OwnedPartition(
                    topic=topic.name,
                    partition=one.partition,
                    leader_epoch=one.leader_epoch,
                    size_bytes=(sizes or {}).get(TopicPartition(topic.topic_id, one.partition)),
                )
                for topic, one in owned[skip : skip + limit]
            ],
            next_skip=skip + limit if skip + limit < len(owned) else None,
        )

    return pages


async def _sizes(sources: RestSources) -> Mapping[TopicPartition, int] | None:
    """The sizes of the started partitions of this process; None until they can be asked."""
    manager = sources.partitions()
    if manager is None:
        return None
    sizes = {}
    for count, runtime in enumerate(list(manager.owned()), 1):
        files = runtime.inspect().files
        if files is not None:
            sizes[runtime.topic_partition] = files.size_bytes
        if count % _AT_A_TIME == 0:
            await asyncio.sleep(0)
    return sizes
