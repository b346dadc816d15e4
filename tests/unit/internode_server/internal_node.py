"""A node's internal listener on a real socket (or in the simulated network) over fakes, with links to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import Any

from bmq.internode_client.link import Link
from bmq.internode_client.link_tls import LinkTls
from bmq.internode_server import handlers as internal_handlers
from bmq.internode_server.local_roles import LocalController
from bmq.internode_server.services import InternalServices
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import INTERNAL_APIS, ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.proxy.limits import BETWEEN_NODES, ProxyLimits
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import Services
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from tests.fakes.partition_log import FakePartitions
from tests.unit.proxy.harness import TOPIC_ID, Client, FakeController, image_of, services_over, topic_image

internal_handlers.load_all()  # a listener serves what is registered when it begins


class FakeLeadership:
    """Active or not, as a test says."""

    def __init__(self, controller: Any) -> None:
        self.active: Any = controller
        self.epoch = 5


Answer = Callable[[Any, RequestContext], Awaitable[Any]]


class RecordingHandler:
    """Notes every request of its route; the test's `answer` answers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[ApiKey, Any, RequestContext]] = []
        self.answer: Answer | None = None

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        self.asked.append((api_key, request, context))
        assert self.answer is not None
        return await self.answer(request, context)


class RecordingController(RecordingHandler, FakeController):
    """The same for the controller's."""

    def __init__(self, image: MetadataImage) -> None:
        RecordingHandler.__init__(self)
        FakeController.__init__(self, image)


@dataclass
class InternalNode:
    server: KafkaServer
    services: InternalServices
    controller: RecordingController
    groups: RecordingHandler
    leadership: FakeLeadership
    partitions: FakePartitions
    host: str
    port: int
    links: list[Link] = field(default_factory=list)

    async def link(self, tls: LinkTls | None = None) -> Link:
        self.links.append(await Link.open(self.host, self.port, client_id="node-2", tls=tls))
        return self.links[-1]

    async def client(self) -> Client:
        """Raw frames instead of a link."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**26)
        return Client(reader, writer)

    async def stop(self) -> None:
        for link in self.links:
            link.close()
            await link.wait_gone()
        await self.server.stop(0)
        await asyncio.sleep(0)


def internal_over(services: Services, leadership: FakeLeadership, groups: RecordingHandler) -> InternalServices:
    given = {one.name: getattr(services, one.name) for one in fields(Services)}
    here = LocalController(leadership, lambda: services.controller.image)
    given |= {"controller": here, "groups": groups, "is_between_nodes": True}
    return InternalServices(**given, leadership=leadership, manager=None, releases=None, known=None)  # type: ignore[arg-type]


async def start_internal_node(
    limits: ProxyLimits = BETWEEN_NODES,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    partition_count: int = 2,
    stalls: StallWatch | None = None,
    listener_socket: ListenerSocket | None = None,
) -> InternalNode:
    """Topic "t" with its partitions, all led here; the active controller is here too."""
    partitions = FakePartitions()
    for number in range(partition_count):
        partitions.add(TOPIC_ID, number, leader_epoch=3)
    controller = RecordingController(image_of(topic_image("t", TOPIC_ID, partition_count)))
    stats, groups, leadership = ProxyStats(), RecordingHandler(), FakeLeadership(controller)
    services = internal_over(services_over(controller, partitions, stats), leadership, groups)
    server = KafkaServer(limits, stats, apis=INTERNAL_APIS, is_ordered=False, stalls=stalls)
    bound_host, bound_port = await server.bind(host, port, listener_socket)
    await server.serve(services)
    return InternalNode(server, services, controller, groups, leadership, partitions, bound_host, bound_port)
