"""What a fetch needs to know of its client."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import Access, TopicRights
from bmq.proxy.preferred_read_replica import PreferredReadReplica
from bmq.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from bmq.protocol.request_context import Throttle
    from bmq.proxy.consumer_pace import ConsumerPace
    from bmq.proxy.lanes.fetch_lens import FetchLens

_CONSUMER_ID: Final = -1
_DEBUGGING_ID: Final = -2
_REPLICA_STATE_FROM: Final = 15
"""The version of Fetch since which the replica's id is in a field of its own."""


class Rights(Protocol):
    """Which topics a fetch may read. `granted`: names that need not be asked for."""

    @property
    def granted(self) -> Set[str]: ...

    def allow(self, name: str | None, topic_id: UUID | None) -> bool: ...


class ReplicaRights:
    """Of a fetch that calls itself a replica's: a right over the cluster, so all topics or none (KafkaApis)."""

    granted: Set[str] = frozenset()

    def __init__(self, access: Access, context: RequestContext) -> None:
        self._is_allowed = access.allows(context, ApiKey.FETCH, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)

    def allow(self, name: str | None, topic_id: UUID | None) -> bool:
        """Implements Rights.allow."""
        return self._is_allowed


class Reader(NamedTuple):
    """The client of a fetch. `rights` None: it may read everything. `lens` None: it sees everything."""

    near: PreferredReadReplica | None = None
    pace: ConsumerPace | None = None
    rights: Rights | None = None
    throttle: Throttle | None = None
    lens: FetchLens | None = None


NOBODY: Final = Reader()


def is_of_replica(request: FetchRequest, version: int) -> bool:
    """Whether the client calls itself a follower."""
    replica_id = request.replica_state.replica_id if version >= _REPLICA_STATE_FROM else request.replica_id
    return replica_id not in (_CONSUMER_ID, _DEBUGGING_ID)


def rights_of(access: Access, context: RequestContext, request: FetchRequest, image: MetadataImage) -> Rights | None:
    """None: there is no authorizer."""
    if not access.is_on:
        return None
    if is_of_replica(request, context.api_version):
        return ReplicaRights(access, context)
    return TopicRights(access, context, ApiKey.FETCH, Operation.READ, image)
