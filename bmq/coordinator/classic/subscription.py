"""The topics inside a consumer's subscription: the only part of the clients' own protocol that a coordinator reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of these ConsumerProtocolSubscriptions (any version: topics come first); None if one does not parse."""
    topics: set[str] = set()
    for data in subscriptions:
        found = _topics_of(data)
        if found is None:
            return None
        topics.update(found)
    return frozenset(topics)


def _topics_of(data: bytes) -> list[str] | None:
    if len(data) < 6 or int.from_bytes(data[:2], "big", signed=True) < 0:
        return None
    count = int.from_bytes(data[2:6], "big", signed=True)
    position = 6
    topics = []
    # A topic takes at least two bytes, so a false count stops at the end of the data.
    for _ in range(count):
        start = position + 2
        length = int.from_bytes(data[position:start], "big", signed=True)
        position = start + length
        if length < 0 or position > len(data):
            return None
        try:
            topics.append(str(data[start:position], "utf-8"))
        except UnicodeDecodeError:
            return None
    return topics
