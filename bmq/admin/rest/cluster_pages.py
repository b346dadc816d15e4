"""Pages that show the metadata image: cluster, nodes, topics, partitions, and their leader history."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request

from bmq.admin.orders import node_of, partition_of, topic_of
from bmq.admin.rest.authorization import sees_topic
from bmq.admin.rest.parameters import NodeId, PartitionNumber, TopicName, TopicPrefix
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import (
    ClusterView,
    HistoryView,
    NodeView,
    PartitionView,
    StateChangeView,
    TopicPage,
    TopicView,
    change_view,
    led_by_node,
    node_view,
    partition_view,
    topic_line,
    topic_view,
    url_of,
)
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import NO_LEADER, MetadataImage, TopicImage

TOPICS_MAX: Final = 1_000
CHANGES_MAX: Final = 1_000
_PARTITIONS_AT_A_TIME: Final = 500
"""Number of partitions whose history is read before others may use the event loop."""


def cluster_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    def nodes_of(image: MetadataImage) -> list[NodeView]:
        led, loads = led_by_node(image), sources.loads() or {}
        return [
            node_view(image, node, led.get(node_id, 0), loads.get(node_id)) for node_id, node in image.nodes.items()
        ]

    @pages.get("/v1/cluster")
    async def cluster() -> ClusterView:
        """Nodes, sizes and how many partitions are in which state."""
        image = sources.image()
        controller = image.nodes.get(image.controller_id)
        return ClusterView(
            cluster_id=image.cluster_id,
            answered_by=sources.node_id,
            controller_id=image.controller_id,
            controller_rest=url_of(controller.rest, sources.scheme)
            if controller is not None and controller.rest
            else None,
            metadata_offset=image.offset,
            nodes=nodes_of(image),
            topics=len(image.topics),
            partitions=image.partition_count,
            partitions_without_leader=led_by_node(image).get(NO_LEADER, 0),
            partition_states=dict(sources.partition_states()),
        )

    @pages.get("/v1/nodes")
    async def nodes() -> list[NodeView]:
        """Every live node."""
        return nodes_of(sources.image())

    @pages.get("/v1/nodes/{node_id}", responses=errors(404, 422))
    async def node(node_id: NodeId) -> NodeView:
        """One live node."""
        image = sources.image()
        found = node_of(image, node_id)
        return node_view(image, found, led_by_node(image).get(node_id, 0), (sources.loads() or {}).get(node_id))

    @pages.get("/v1/topics", responses=errors(422))
    async def topics(
        request: Request,
        prefix: TopicPrefix = "",
        after: Annotated[TopicPrefix, Query(description="Only names that follow this one")] = "",
        limit: Annotated[int, Query(ge=1, le=TOPICS_MAX)] = 100,
    ) -> TopicPage:
        """Topics in the order of their names, internal ones too, page by page."""
        images = sources.image().topics
        wanted = (
            name for name in images if name > after and name.startswith(prefix) and sees_topic(request.scope, name)
        )
        names = heapq.nsmallest(limit + 1, wanted)
        shown = names[:limit]
        return TopicPage(
            topics=[topic_line(images[name]) for name in shown],
            next_after=shown[-1] if len(names) > limit else None,
        )

    @pages.get("/v1/topics/{name}", responses=errors(404, 422))
    async def topic(name: TopicName) -> TopicView:
        """One topic with its partitions, their owners and epochs, and the configs set for it."""
        return topic_view(topic_of(sources.image(), name))

    @pages.get("/v1/topics/{name}/partitions/{number}", responses=errors(404, 422))
    async def partition(name: TopicName, number: PartitionNumber) -> PartitionView:
        """One partition: who owns it, who may, how far it is known to be, and who owned it before."""
        topic = topic_of(sources.image(), name)
        found = partition_of(topic, number)
        high_watermark = sources.high_watermark(TopicPartition(topic.topic_id, number))
        return partition_view(topic, found, high_watermark, await _newest(sources, ((topic, number),), CHANGES_MAX))

    @pages.get("/v1/history", responses=errors(404, 422))
    async def history(
        topic: Annotated[TopicPrefix | None, Query(min_length=1, description="Only of this topic")] = None,
        partition: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Only of this partition")] = None,
        limit: Annotated[int, Query(ge=1, le=CHANGES_MAX)] = 100,
    ) -> HistoryView:
        """Which node led which partition from when on, and why; the newest changes of each partition are kept."""
        image = sources.image()
        topics = image.topics.values() if topic is None else (topic_of(image, topic),)
        if topic is not None and partition is not None:
            partition_of(topic_of(image, topic), partition)
        wanted = (
            (each, one.partition)
            for each in topics
            for one in each.partitions
            if partition is None or one.partition == partition
        )
        return HistoryView(changes=await _newest(sources, wanted, limit))

    return pages


async def _newest(sources: RestSources, of: Iterable[tuple[TopicImage, int]], limit: int) -> list[StateChangeView]:
    """The newest changes first."""
    history = sources.history()
    if history is None:
        return []
    newest: list[tuple[int, int, str, int, StateChangeView]] = []
    for count, (topic, number) in enumerate(of, 1):
        for change in history.of(topic.topic_id, number):
            entry = (
                change.timestamp_ms,
                change.leader_epoch,
                topic.name,
                number,
                change_view(topic.name, number, change),
            )
            newest.append(entry)
        if count % _PARTITIONS_AT_A_TIME == 0:
            newest = _first(newest, limit)
            await asyncio.sleep(0)
    return [entry[-1] for entry in _first(newest, limit)]


def _first(
    entries: list[tuple[int, int, str, int, StateChangeView]], limit: int
) -> list[tuple[int, int, str, int, StateChangeView]]:
    return heapq.nlargest(limit, entries, key=lambda entry: entry[:4])
