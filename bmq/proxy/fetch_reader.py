"""The client of a fetch: its rights, and the records that it sees."""

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
    from bmq.proxy.lanes.lane_fetch_filter import LaneFetchFilter

_CONSUMER_ID: Final = -1
_DEBUGGING_ID: Final = -2
_REPLICA_STATE_FROM: Final = 15
"""The first version of Fetch that has the replica's id in the field replica_state."""


class Rights(Protocol):
    """Which topics a fetch may read. `granted`: names of topics that are known to be allowed."""

    @property
    def granted(self) -> Set[str]: ...

    def allow(self, name: str | None, topic_id: UUID | None) -> bool: ...


class ReplicaRights:
    """The rights of a fetch with a replica's id: by the right over the cluster it may read all topics or none (KafkaApis)."""

    granted: Set[str] = frozenset()

    def __init__(self, access: Access, context: RequestContext) -> None:
        self._is_allowed = access.allows(context, ApiKey.FETCH, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)

    def allow(self, name: str | None, topic_id: UUID | None) -> bool:
        """Implements Rights.allow."""
        return self._is_allowed


class Reader(NamedTuple):
    """The client of a fetch. `rights` None: it may read all topics. `lane_filter` None: it sees all records."""

    near: PreferredReadReplica | None = None
    pace: ConsumerPace | None = None
    rights: Rights | None = None
    throttle: Throttle | None = None
    lane_filter: LaneFetchFilter | None = None


NOBODY: Final = Reader()


def is_of_replica(request: FetchRequest, version: int) -> bool:
    """Whether the request has a replica's id, as a follower's has."""
    replica_id = request.replica_state.replica_id if version >= _REPLICA_STATE_FROM else request.replica_id
    return replica_id not in (_CONSUMER_ID, _DEBUGGING_ID)


def rights_of(access: Access, context: RequestContext, request: FetchRequest, image: MetadataImage) -> Rights | None:
    """The rights of this fetch's client; None without an authorizer."""
    if not access.is_on:
        return None
    if is_of_replica(request, context.api_version):
        return ReplicaRights(access, context)
    return TopicRights(access, context, ApiKey.FETCH, Operation.READ, image)
