"""A new-protocol group's view of topics: which of its topics exist, and a hash that detects changes to them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final
from uuid import UUID

import xxhash

from bmq.coordinator.topics import Topics

NO_HASH: Final = 0
"""Hash of no topics, or of a group that has not compared its topics yet."""

_HASHED_TOPIC: Final = Struct(">i")


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[UUID]:
    """Ids of those topics that exist."""
    known = topics.topics
    return frozenset(known[name].topic_id for name in names if name in known)


def partition_counts(names: Iterable[str], topics: Topics) -> Mapping[UUID, int]:
    """Partition counts of those topics that exist."""
    known = topics.topics
    return {known[name].topic_id: len(known[name].partitions) for name in names if name in known}


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A signed 64-bit hash that changes when one of these topics appears, vanishes or grows; NO_HASH for none
    (KIP-1101).

    Kafka also hashes the replicas' racks. Here replicas hold no data and move whenever leadership is balanced, so
    including racks would cause pointless rebalances; no assignor looks at racks.
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
