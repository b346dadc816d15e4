"""The coordinator's narrow view of topics in the cluster's metadata image. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from bmq.protocol.request_context import RequestContext

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"


class Topic(Protocol):
    """One incarnation of a topic."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sequence[object]: ...
    @property
    def view(self) -> object | None:
        """Not None: the topic shows another one's records, and cannot be written."""


class Topics(Protocol):
    """All existing topics; bmq.metadata.image.MetadataImage implements this."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...
    @property
    def topics_by_id(self) -> Mapping[UUID, Topic]: ...
    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """Configs set for groups, by group id, whether the groups exist or not."""

    @property
    def offset(self) -> int:
        """Grows with every change of the metadata."""


CurrentTopics = Callable[[], Topics]
MayDescribe = Callable[[RequestContext, str], bool]
"""Whether the client of a request may know of a topic. No refusal is audited: the client has not named the topic."""


def find_topic(topics: Topics, name: str, topic_id: UUID | None) -> Topic | None:
    """By id where the request has one (OffsetCommit and OffsetFetch 10), else by name."""
    return topics.topics.get(name) if topic_id is None else topics.topics_by_id.get(topic_id)


class TopicChanges(NamedTuple):
    """`names`: topics that appeared, vanished, or changed their partition count; `created`: those that appeared."""

    names: frozenset[str]
    created: frozenset[str]


def changes(old: Topics, new: Topics) -> TopicChanges:
    """The topic changes that groups have to look at after a new image."""
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
