"""The REST API: health, metrics and a read-only view of the cluster. OpenAPI at /openapi.json, pages at /docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import FastAPI, HTTPException, Path, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel

from bmq.controller.image import MetadataImage, PartitionImage, TopicImage

_TOPIC_NAME: Final = r"^[a-zA-Z0-9._-]{1,249}$"


class Health(BaseModel):
    """`ready` once produces are accepted."""

    ready: bool


class NodeView(BaseModel):
    node_id: int
    host: str
    port: int
    rack: str | None


class ClusterView(BaseModel):
    cluster_id: str
    controller_id: int
    metadata_offset: int
    nodes: list[NodeView]
    topics: int
    partitions: int
    partition_states: dict[str, int]


class PartitionView(BaseModel):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


class TopicView(BaseModel):
    name: str
    topic_id: str
    is_internal: bool
    partitions: list[PartitionView]
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class RestSources:
    """What the pages show; functions, so that each request sees the present."""

    is_ready: Callable[[], bool]
    image: Callable[[], MetadataImage]
    partition_states: Callable[[], Mapping[str, int]]
    registry: CollectorRegistry


def _partition_view(partition: PartitionImage) -> PartitionView:
    return PartitionView(
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
    )


def _topic_view(topic: TopicImage) -> TopicView:
    return TopicView(
        name=topic.name,
        topic_id=str(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=[_partition_view(partition) for partition in topic.partitions],
        configs=dict(topic.configs),
    )


def rest_application(sources: RestSources) -> FastAPI:
    """The ASGI application; bmq/cli runs it."""
    app = FastAPI(title="bmq", version="1", description="Operate a bmq cluster.")

    @app.get("/v1/health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        """200 once produces are accepted, 503 before and while stopping."""
        ready = sources.is_ready()
        response.status_code = 200 if ready else 503
        return Health(ready=ready)

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        """Prometheus text format."""
        return Response(generate_latest(sources.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/cluster")
    async def cluster() -> ClusterView:
        """Nodes, sizes and how many partitions are in which state."""
        image = sources.image()
        return ClusterView(
            cluster_id=image.cluster_id,
            controller_id=image.controller_id,
            metadata_offset=image.offset,
            nodes=[
                NodeView(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in image.nodes.values()
            ],
            topics=len(image.topics),
            partitions=sum(len(topic.partitions) for topic in image.topics.values()),
            partition_states=dict(sources.partition_states()),
        )

    @app.get("/v1/topics")
    async def topics() -> list[str]:
        """Names of all topics, internal ones too, sorted."""
        return sorted(sources.image().topics)

    @app.get("/v1/topics/{name}", responses={404: {}, 422: {}})
    async def topic(name: Annotated[str, Path(pattern=_TOPIC_NAME, max_length=249)]) -> TopicView:
        """One topic with its partitions, their owners and epochs, and the configs set for it."""
        found = sources.image().topics.get(name)
        if found is None:
            raise HTTPException(404, f"there is no topic {name}")
        return _topic_view(found)

    return app
