"""The REST API of a cluster node: its own view, and on the active controller the operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from bmq.admin.drivers.settings import NodeCommand, driver_of
from bmq.admin.operations import Operations, OperationsConfig
from bmq.admin.ports import NodeLoad
from bmq.log.clock import Clock
from bmq.log.store import SegmentStore
from bmq.server.client_access import rest_access
from bmq.server.node import NodeServer
from bmq.server.own_logs import OwnLogs
from bmq.server.rest_sources import rest_pages, rest_sources
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
        config = OperationsConfig(roles=settings.scale.roles, register_wait_ms=settings.scale.register_wait_ms)
        self.operations = Operations(lambda: server.controller, driver, clock, rng, config)
        access = rest_access(settings, lambda: server.image)
        sources = rest_sources(server, settings, access, store, clock, scheme, logs, lambda: server.is_serving)
        self.pages = rest_pages(replace(sources, loads=self._loads, operations=lambda: self.operations))

    def _loads(self) -> Mapping[int, NodeLoad] | None:
        controller = self._server.controller
        return None if controller is None else controller.loads()

    async def close(self) -> None:
        """End operators' tasks. Operators can order them again from the next active controller."""
        await self.operations.close()
