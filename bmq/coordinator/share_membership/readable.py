"""Which topics share groups read: those with a log. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bmq.coordinator.topics import Topic, Topics
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


def readable_topic(topics: Topics, name: str) -> Topic | None:
    """None: there is no such topic, or it is a view."""
    topic = topics.topics.get(name)
    return None if topic is None or topic.view is not None else topic


def require_readable(names: Iterable[str], topics: Topics) -> None:
    """Raises KafkaError INVALID_REQUEST for a view. Topics that do not exist may be named, as in Kafka."""
    for name in names:
        topic = topics.topics.get(name)
        if topic is not None and topic.view is not None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"'{name}' is a view: consumer groups read it, and share groups read only its topic.",
            )
