"""Sends consumers that name their rack to a proxy in it, which reads the same log (KIP-392).

Only the proxy that clients see as a partition's leader redirects, and only once in a while per connection and partition: a
consumer that comes back, because it cannot reach the other proxy or does not know it, is served here. Consumers stay with the
proxy that they were sent to for minutes (Java and librdkafka: five), and then ask the leader again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage, Node
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.live_proxies import proxies_of, rendezvous
from bmq.proxy.topic_views import client_leader

if TYPE_CHECKING:
    from bmq.protocol.request_context import RequestContext
    from bmq.proxy.services import Services

NOWHERE: Final = -1
_REPLICAS_ONLY: Final = frozenset({"apache-kafka-java"})
"""Clients that follow a redirect only to a node that is a replica of the partition in the metadata (Cluster.nodeIfOnline)."""

Redirects = OrderedDict[tuple[int | str, TopicPartition], float]


class PreferredReadReplicas:
    """Remembers the redirects of all connections of this proxy, with the event loop's times."""

    def __init__(self, counts: FetchCounts, *, again_ms: int, redirects_max: int) -> None:
        self._counts = counts
        self._again_s = again_ms / 1000
        self._redirects_max = redirects_max
        self._redirected: Redirects = OrderedDict()

    def reader(self, rack: str, context: RequestContext, services: Services) -> PreferredReadReplica | None:
        """The redirects for one fetch of a consumer in this rack; None without a nearer proxy."""
        if rack == services.node.rack:
            return None
        image = services.controller.image
        near = proxies_of(image).in_rack(rack)
        return PreferredReadReplica(self, near, image, context, services) if near else None

    def send(self, key: tuple[int | str, TopicPartition], now_s: float) -> bool:
        """Whether to redirect this reader now; if so, remembers it."""
        redirected_s = self._redirected.get(key)
        if redirected_s is not None and now_s - redirected_s < self._again_s:
            return False
        self._counts.sent_to_rack += 1
        self._redirected[key] = now_s
        self._redirected.move_to_end(key)
        if len(self._redirected) > self._redirects_max:
            self._redirected.popitem(last=False)
        return True


class PreferredReadReplica:
    """The redirects of one fetch. A partition's decision stays the same over all looks of the fetch."""

    __slots__ = ("_all", "_context", "_found", "_image", "_near", "_services")

    def __init__(
        self,
        replicas: PreferredReadReplicas,
        near: tuple[Node, ...],
        image: MetadataImage,
        context: RequestContext,
        services: Services,
    ) -> None:
        self._all = replicas
        self._near = near
        self._image = image
        self._context = context
        self._services = services
        self._found: dict[TopicPartition, int] = {}

    def replica(self, key: TopicPartition) -> int:
        """The proxy to which to redirect for this partition; NOWHERE for none."""
        found = self._found.get(key)
        if found is None:
            found = self._choose(key)
            if found != NOWHERE:
                context = self._context
                reader = context.client_host if context.peer is None else id(context.peer)
                if not self._all.send((reader, key), self._services.loop.time()):
                    found = NOWHERE
            self._found[key] = found
        return found

    def _choose(self, key: TopicPartition) -> int:
        partition = self._image.partition(*key)
        if partition is None or client_leader(self._image, key, partition) != self._services.node.node_id:
            return NOWHERE
        replicas = [node for node in self._near if node.node_id in partition.replicas]
        if not replicas and self._context.client_software_name in _REPLICAS_ONLY:
            return NOWHERE
        return rendezvous(key, replicas or self._near)
