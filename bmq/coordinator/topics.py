"""What the coordinator has to know of topics: a narrow view of the cluster's metadata image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"


class Topic(Protocol):
    """One incarnation of a topic."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sequence[object]: ...


class Topics(Protocol):
    """All topics there are now; bmq.metadata.image.MetadataImage is one."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...
    @property
    def topics_by_id(self) -> Mapping[UUID, Topic]: ...


CurrentTopics = Callable[[], Topics]


def find_topic(topics: Topics, name: str, topic_id: UUID | None) -> Topic | None:
    """By id where the request has one (OffsetCommit and OffsetFetch 10), else by name."""
    return topics.topics.get(name) if topic_id is None else topics.topics_by_id.get(topic_id)
