"""What a fetch needs to know of its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bmq.proxy.access import TopicRights
from bmq.proxy.preferred_read_replica import PreferredReadReplica

if TYPE_CHECKING:
    from bmq.protocol.request_context import Throttle
    from bmq.proxy.consumer_pace import ConsumerPace


class Reader(NamedTuple):
    """The client of a fetch. `rights` None: it may read everything."""

    near: PreferredReadReplica | None = None
    pace: ConsumerPace | None = None
    rights: TopicRights | None = None
    throttle: Throttle | None = None


NOBODY: Final = Reader()
