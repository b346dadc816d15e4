"""Hands the REST API its sources: this process's server, store and logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from prometheus_client import REGISTRY

from bmq.admin.channel_watch import ChannelWatch
from bmq.admin.delayed_records import DelayedRecords
from bmq.admin.group_explainer import GroupExplainer
from bmq.admin.index_queries import IndexQueries
from bmq.admin.ports import KafkaRequests, StateChanges, TableController
from bmq.admin.redrives import Redrives
from bmq.admin.rest.health_pages import health_reasons
from bmq.admin.rest.sources import RestSources
from bmq.broker.manager import PartitionManager
from bmq.console.assets import Assets
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.log.store import SegmentStore
from bmq.metadata.image import MetadataImage
from bmq.protocol.request_context import RequestMethod
from bmq.proxy.access import Access
from bmq.proxy.services import LaneDecisions
from bmq.server.late_rest_pages import Application, RestPages
from bmq.server.own_health import HealthOfServer, own_health
from bmq.server.own_logs import OwnLogs
from bmq.server.rest_requests import why_no_requests
from bmq.server.settings import Settings


class InspectedServer(HealthOfServer, Protocol):
    """A server whose parts REST shows: NodeServer, StandaloneServer. A part is None until it can be asked."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def history(self) -> StateChanges | None: ...
    @property
    def controller(self) -> TableController | None: ...
    @property
    def redrives(self) -> Redrives | None: ...
    @property
    def manager(self) -> PartitionManager | None: ...
    @property
    def explainer(self) -> GroupExplainer | None: ...
    @property
    def delayed_records(self) -> DelayedRecords | None: ...
    @property
    def lanes(self) -> LaneDecisions | None: ...
    @property
    def transactions(self) -> TransactionCoordinator | None: ...
    @property
    def create_topics(self) -> RequestMethod | None: ...
    @property
    def channel_watch(self) -> ChannelWatch: ...
    @property
    def kafka_requests(self) -> KafkaRequests | None: ...
    def partition_states(self) -> Mapping[str, int]: ...
    def high_watermark(self, topic_partition: TopicPartition) -> int | None: ...
    async def refresh_metrics(self) -> None: ...


def rest_sources(
    server: InspectedServer,
    settings: Settings,
    access: Access,
    store: SegmentStore,
    clock: Clock,
    scheme: str,
    logs: OwnLogs,
    is_ready: Callable[[], bool],
) -> RestSources:
    """All sources that every server has. Arguments as in RestSources."""
    index_queries = IndexQueries(settings.index_service)
    return RestSources(
        is_ready,
        lambda: server.image,
        server.partition_states,
        REGISTRY,
        node_id=settings.node_id,
        store=lambda: store,
        history=lambda: server.history,
        high_watermark=server.high_watermark,
        now_ms=clock.now_ms,
        table_controller=lambda: server.controller,
        redrives=lambda: server.redrives,
        partitions=lambda: server.manager,
        groups=lambda: server.explainer,
        delayed=lambda: server.delayed_records,
        lanes=lambda: server.lanes,
        transactions=lambda: server.transactions,
        create_topics=lambda: server.create_topics,
        channel_watch=lambda: server.channel_watch,
        kafka=lambda: server.kafka_requests,
        health=lambda: own_health(lambda: server, store, logs.errors, clock),
        refresh_metrics=server.refresh_metrics,
        access=access,
        scheme=scheme,
        index_queries=lambda: index_queries,
        logs=lambda: logs.recent,
        why_no_requests=why_no_requests(settings, has_authorizer=access.is_on),
    )


def rest_pages(sources: RestSources) -> RestPages:
    """The pages, which are built when they are first asked for: their imports are slow (see late_rest_pages.py)."""

    def build() -> Application:
        from bmq.admin.rest.application import rest_application

        return rest_application(sources, assets=assets)

    assets = Assets()
    return RestPages(
        build, sources.is_ready, lambda: () if sources.access.is_on else health_reasons(sources), assets=assets
    )
