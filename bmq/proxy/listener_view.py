"""The cluster as the clients of one listener see it: each node at its address of that listener.

A node without the listener has no proxy for its clients: another proxy serves the partitions that it owns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bmq.metadata.image import ROLE_PROXY, MetadataImage, Node
from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.proxy.services import Controller, Services
from bmq.security.listener_security import ListenerSecurity


def at_listener(node: Node, name: str) -> Node:
    """The node, with its address at this listener."""
    for other, host, port in node.listeners:
        if other == name:
            return replace(node, host=host, port=port)
    return replace(node, host="", port=-1, roles=node.roles - {ROLE_PROXY})


class ListenerController:
    """Implements bmq.proxy.services.Controller for one listener: the image has the addresses of that listener."""

    def __init__(self, controller: Controller, name: str) -> None:
        self._controller = controller
        self._name = name
        self._of: MetadataImage | None = None
        self._seen = MetadataImage()

    @property
    def image(self) -> MetadataImage:
        image = self._controller.image
        if image is not self._of:
            self._seen = replace(
                image,
                nodes={node_id: at_listener(node, self._name) for node_id, node in image.nodes.items()},
                fenced_nodes={node_id: at_listener(node, self._name) for node_id, node in image.fenced_nodes.items()},
            )
            self._of = image
        return self._seen

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        return await self._controller.handle(api_key, request, context)

    async def auto_create_topic(self, name: str) -> None:
        await self._controller.auto_create_topic(name)

    async def allocate_producer_ids(self) -> range:
        return await self._controller.allocate_producer_ids()


class _Departed:
    """Nodes that have just gone, with their addresses at one listener; the same object while they are the same."""

    def __init__(self, departed: Callable[[], tuple[Node, ...]], name: str) -> None:
        self._departed = departed
        self._name = name
        self._of: tuple[Node, ...] = ()
        self._seen: tuple[Node, ...] = ()

    def __call__(self) -> tuple[Node, ...]:
        nodes = self._departed()
        if nodes is not self._of:
            self._of, self._seen = nodes, tuple(at_listener(node, self._name) for node in nodes)
        return self._seen


def services_at(services: Services, security: ListenerSecurity) -> Services:
    """The services for clients of another listener: the same but for the addresses in answers."""
    name = security.name
    return replace(
        services,
        security=security,
        node=at_listener(services.node, name),
        controller=ListenerController(services.controller, name),
        departed=_Departed(services.departed, name),
    )
