"""The client of a fetch: its rights, and the records that it sees."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import Access, TopicGrants, TopicRights
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
    """Which topics a fetch may read. `names`: topics that are known to be allowed."""

    @property
    def names(self) -> Set[str]: ...

    def allow(self, name: str | None, /) -> bool:
        """Whether it may read this topic; None: the topic has an id that nobody knows."""


class ReplicaRights:
    """The rights of a fetch with a replica's id: by the right over the cluster it may read all topics or none (KafkaApis)."""

    names: Set[str] = frozenset()

    def __init__(self, access: Access, context: RequestContext) -> None:
        self._is_allowed = access.allows(context, ApiKey.FETCH, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)

    def allow(self, name: str | None) -> bool:
        """Implements Rights.allow."""
        return self._is_allowed


class Reader(NamedTuple):
    """The client of a fetch. `rights` None: it may read all topics. `lane_filter` None: it sees all records.

    `is_replica`: the fetch has a replica's id.
    """

    near: PreferredReadReplica | None = None
    pace: ConsumerPace | None = None
    rights: Rights | TopicGrants | None = None
    throttle: Throttle | None = None
    lane_filter: LaneFetchFilter | None = None
    is_replica: bool = False


NOBODY: Final = Reader()


def is_of_replica(request: FetchRequest, version: int) -> bool:
    """Whether the request has a replica's id, as a follower's has."""
    replica_id = request.replica_state.replica_id if version >= _REPLICA_STATE_FROM else request.replica_id
    return replica_id not in (_CONSUMER_ID, _DEBUGGING_ID)


def asking(rights: Rights | TopicGrants) -> Rights:
    """The rights by which one fetch asks for topics that its client's grants do not have."""
    return TopicRights(rights, ApiKey.FETCH) if isinstance(rights, TopicGrants) else rights
