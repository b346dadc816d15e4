"""What the coordinator has to know of topics: a narrow view of the cluster's metadata image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol
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
    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What was set for groups, by group id, whether there are such groups or not."""

    @property
    def offset(self) -> int:
        """Grows with every change of anything."""


CurrentTopics = Callable[[], Topics]


def find_topic(topics: Topics, name: str, topic_id: UUID | None) -> Topic | None:
    """By id where the request has one (OffsetCommit and OffsetFetch 10), else by name."""
    return topics.topics.get(name) if topic_id is None else topics.topics_by_id.get(topic_id)


class TopicChanges(NamedTuple):
    """`names`: of topics that came, went, or have another number of partitions; `created`: those that came."""

    names: frozenset[str]
    created: frozenset[str]


def changes(old: Topics, new: Topics) -> TopicChanges:
    """What consumer groups have to look at after a new image."""
    before, after = old.topics_by_id, new.topics_by_id
    if before is after:
        return TopicChanges(frozenset(), frozenset())
    created = {topic.name for topic_id, topic in after.items() if topic_id not in before}
    changed = {
        topic.name
        for topic_id, topic in before.items()
        if (now := after.get(topic_id)) is not topic and (now is None or len(now.partitions) != len(topic.partitions))
    }
    return TopicChanges(frozenset(created | changed), frozenset(created))
