"""The REST API of a cluster node: its own view, and on the active controller the operations."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from prometheus_client import CollectorRegistry

from bmq.admin.drivers.settings import NodeCommand, driver_of
from bmq.admin.index_queries import IndexQueries
from bmq.admin.operations import Operations, OperationsConfig
from bmq.admin.ports import NodeLoad, StateChanges
from bmq.admin.redrives import Redrives
from bmq.admin.rest.sources import RestSources
from bmq.log.clock import Clock
from bmq.log.store import SegmentStore
from bmq.server.client_access import rest_access
from bmq.server.node import NodeServer
from bmq.server.own_health import own_health
from bmq.server.own_logs import OwnLogs
from bmq.server.process import rest_pages
from bmq.server.rest_requests import why_no_requests
from bmq.server.setting_checks import is_any_address
from bmq.server.settings import Settings, split_address


class NodeRest:
    """`pages` exist at once and answer "not ready" until the node serves. Close it before the node is stopped."""

    def __init__(
        self,
        server: NodeServer,
        settings: Settings,
        store: SegmentStore,
        clock: Clock,
        rng: Random,
        registry: CollectorRegistry,
        scheme: str,
        logs: OwnLogs,
    ) -> None:
        self._server = server
        command = NodeCommand(
            store=settings.store,
            zookeeper=settings.zookeeper,
            host=split_address(
                settings.internal_advertised if is_any_address(settings.internal) else settings.internal
            )[0],
            rack=settings.rack,
        )
        driver = driver_of(settings.scale, command.of)
        self.operations = Operations(
            lambda: server.controller, driver, clock, rng, OperationsConfig(roles=settings.scale.roles)
        )
        index_queries = IndexQueries(settings.index_service)
        access = rest_access(settings, lambda: server.image)
        sources = RestSources(
            lambda: server.is_serving,
            lambda: server.image,
            server.partition_states,
            registry,
            node_id=settings.node_id,
            store=lambda: store,
            history=self._history,
            loads=self._loads,
            high_watermark=server.high_watermark,
            now_ms=clock.now_ms,
            operations=lambda: self.operations,
            table_controller=lambda: server.controller,
            redrives=self._redrives,
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
        self.pages = rest_pages(sources)

    def _redrives(self) -> Redrives | None:
        roles = self._server.inspect()
        return None if roles is None else roles.redrives

    def _history(self) -> StateChanges | None:
        return self._server.history

    def _loads(self) -> Mapping[int, NodeLoad] | None:
        controller = self._server.controller
        return None if controller is None else controller.loads()

    async def close(self) -> None:
        """End operators' tasks. Operators can order them again from the next active controller."""
        await self.operations.close()
