"""Topics as a group of a new protocol looks at them: which of those it names exist, and a hash that tells when any has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final
from uuid import UUID

import xxhash

from bmq.coordinator.topics import Topics

NO_HASH: Final = 0
"""Of no topic, or of a group that was not compared with its topics yet."""

_HASHED_TOPIC: Final = Struct(">i")


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[UUID]:
    """Of the topics that exist."""
    known = topics.topics
    return frozenset(known[name].topic_id for name in names if name in known)


def partition_counts(names: Iterable[str], topics: Topics) -> Mapping[UUID, int]:
    """Of the topics that exist."""
    known = topics.topics
    return {known[name].topic_id: len(known[name].partitions) for name in names if name in known}


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A signed 64-bit number that is another one when a topic of these comes, goes or grows; NO_HASH for no topic (KIP-1101).

    Kafka hashes the racks of the replicas too. Replicas hold no data here and move with every balance, so theirs are left
    out: a group would rebalance for nothing, since no assignor looks at racks.
    """
    known = topics.topics
    existing = sorted(name for name in names if name in known)
    if not existing:
        return NO_HASH
    hashed = xxhash.xxh3_64()
    for name in existing:
        topic = known[name]
        encoded = name.encode()
        hashed.update(topic.topic_id.bytes)
        hashed.update(_HASHED_TOPIC.pack(len(encoded)))
        hashed.update(encoded)
        hashed.update(_HASHED_TOPIC.pack(len(topic.partitions)))
    unsigned = hashed.intdigest()
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned
