"""The cluster as clients see it: nodes to connect to, leaders, replicas, topics. Shared by many handlers.

Clients know only proxies (live_proxies.py). For them a partition's leader is its owner's node if that has a proxy, else the proxy
that stands in for it. Any proxy serves any partition; another choice costs a hop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import NO_LEADER, ROLE_PROXY, MetadataImage, Node, PartitionImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.topic_names import validate_name
from bmq.proxy.live_proxies import Proxies, proxies_of

if TYPE_CHECKING:
    from bmq.proxy.services import Services


def client_leader(image: MetadataImage, key: TopicPartition, partition: PartitionImage) -> int:
    """The node to which clients send requests for a partition; NO_LEADER if it has no owner, or there is no proxy.

    It is the partition's home proxy, unless that has just restarted: clients may not reconnect to it for a while.
    """
    proxies = proxies_of(image)
    home = _home(proxies, image, key, partition)
    return proxies.stand_in(key, image.nodes[home].rack) if home in proxies.returning else home


def home_proxy(image: MetadataImage, key: TopicPartition, partition: PartitionImage) -> int:
    """The owner's node, or the proxy that stands in for it.

    A stand-in is in the owner's rack if that has a proxy, since it forwards all produces to the owner. If the owner is
    not among the live nodes, the stand-in queues produces until there is a new one. NO_LEADER when the partition has no
    owner, or there is no proxy.
    """
    return _home(proxies_of(image), image, key, partition)


def _home(proxies: Proxies, image: MetadataImage, key: TopicPartition, partition: PartitionImage) -> int:
    leader = partition.leader
    if leader in proxies.by_id:
        return leader
    if leader == NO_LEADER:
        return NO_LEADER
    owner = image.nodes.get(leader)
    return proxies.stand_in(key, None if owner is None else owner.rack)


def client_controller(image: MetadataImage) -> int:
    """The node for clients' controller requests: the controller's if it has a proxy, else any; every proxy forwards."""
    proxies = proxies_of(image)
    return image.controller_id if image.controller_id in proxies.by_id else proxies.anyone()


def client_nodes(image: MetadataImage, departed: Iterable[Node] = ()) -> list[Node]:
    """The nodes clients may connect to, followed by those of `departed` that had a proxy."""
    return [*proxies_of(image).by_id.values(), *(node for node in departed if ROLE_PROXY in node.roles)]


def leader_error(leader: int) -> ErrorCode:
    """The error beside a `client_leader`: LEADER_NOT_AVAILABLE when there is none."""
    return ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE


def offline_replicas(partition: PartitionImage, image: MetadataImage) -> tuple[int, ...]:
    """Replicas whose node is not live."""
    nodes = image.nodes
    for replica in partition.replicas:
        if replica not in nodes:
            return tuple(replica for replica in partition.replicas if replica not in nodes)
    return ()


async def created_topic_error(name: str, services: Services) -> ErrorCode:
    """Create a missing topic. Returns the code for the answer; NONE if the image has the topic now."""
    try:
        await services.controller.auto_create_topic(name)
    except BmqError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            return error.code
    return ErrorCode.NONE


def is_valid_name(name: str) -> bool:
    """Whether this is a valid topic name."""
    try:
        validate_name(name)
    except BmqError:
        return False
    return True
