"""What handlers may use: the roles behind the proxy, as small protocols. bmq/cli passes the real ones, tests pass fakes."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from bmq.log.clock import Clock
from bmq.log.store import SegmentStore
from bmq.metadata.image import MetadataImage, Node
from bmq.proxy.appender import Appender, Partitions
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.stats import ProxyStats

if TYPE_CHECKING:
    from bmq.proxy.dispatch import RequestContext
    from bmq.proxy.fetcher import Fetcher


class Controller(Protocol):
    """The active controller. Methods take and return messages of bmq.protocol.messages."""

    @property
    def image(self) -> MetadataImage: ...

    async def create_topics(self, request: Any, *, principal: str) -> Any: ...
    async def delete_topics(self, request: Any) -> Any: ...
    async def create_partitions(self, request: Any) -> Any: ...
    async def describe_configs(self, request: Any) -> Any: ...
    async def incremental_alter_configs(self, request: Any) -> Any: ...
    async def alter_configs(self, request: Any) -> Any: ...
    async def elect_leaders(self, request: Any) -> Any: ...
    async def alter_partition_reassignments(self, request: Any) -> Any: ...
    async def list_partition_reassignments(self, request: Any) -> Any: ...

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic with the defaults, as Metadata with allow_auto_topic_creation does. Raises KafkaError."""

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids never given before (durable)."""


class Groups(Protocol):
    """The group coordinators: one in this process, or all of the cluster's. Messages in and out, as with Controller."""

    async def prepare(self, group_id: str) -> Node | None:
        """Have the group's coordinator ready; the node clients find it at, None: this one. Raises KafkaError."""

    async def join_group(self, request: Any, context: RequestContext) -> Any: ...
    async def sync_group(self, request: Any, context: RequestContext) -> Any: ...
    async def heartbeat(self, request: Any, context: RequestContext) -> Any: ...
    async def leave_group(self, request: Any, context: RequestContext) -> Any: ...
    async def list_groups(self, request: Any, context: RequestContext) -> Any: ...
    async def describe_groups(self, request: Any, context: RequestContext) -> Any: ...
    async def delete_groups(self, request: Any, context: RequestContext) -> Any: ...
    async def offset_commit(self, request: Any, context: RequestContext) -> Any: ...
    async def offset_fetch(self, request: Any, context: RequestContext) -> Any: ...
    async def offset_delete(self, request: Any, context: RequestContext) -> Any: ...


@dataclass(slots=True)
class Services:
    """Handed to every handler. `loop` is the time; `node` is who we are to clients.

    `departed`: nodes that were in the image until a moment ago; the same object while nothing changes.
    """

    node: Node
    store: SegmentStore
    partitions: Partitions
    controller: Controller
    groups: Groups
    clock: Clock
    appender: Appender
    fetcher: Fetcher
    producer_ids: ProducerIds
    stats: ProxyStats
    loop: AbstractEventLoop
    is_auto_create_enabled: bool = True
    departed: Callable[[], tuple[Node, ...]] = tuple
    is_between_nodes: bool = False  # the listener that other nodes use: clients' rights were checked at theirs
