"""Dead letters (KIP-1191) of share groups and of retry topics: which records become one, and the headers that say so. Pure.

Header names, values and texts are Kafka's (4.4). All values are UTF-8 text.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

TOPIC_HEADER: Final = "__dlq.errors.topic"
PARTITION_HEADER: Final = "__dlq.errors.partition"
OFFSET_HEADER: Final = "__dlq.errors.offset"
GROUP_HEADER: Final = "__dlq.errors.group"
DELIVERY_COUNT_HEADER: Final = "__dlq.errors.delivery.count"
MESSAGE_HEADER: Final = "__dlq.errors.message"
HEADERS: Final = (
    TOPIC_HEADER,
    PARTITION_HEADER,
    OFFSET_HEADER,
    GROUP_HEADER,
    DELIVERY_COUNT_HEADER,
    MESSAGE_HEADER,
)
"""In the order in which they are written, before the record's own."""

TOPIC_CONFIG: Final = "errors.deadletterqueue.group.enable"
"""The topic config without which no share group's dead letters are written into a topic."""


class DeadReason(IntEnum):
    """Why a record is given up. Numbers are those of our field `reason` in the records of a share partition."""

    REJECTED = 0
    DELIVERY_COUNT = 1

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS: Final = {
    DeadReason.REJECTED: "Offset rejected by client.",
    DeadReason.DELIVERY_COUNT: "Offset delivery count exceeded the threshold.",
}


class DeadLetterTerms(NamedTuple):
    """What a group wants. `is_copying`: keys, values and headers go into the dead letter, too. `is_dropping`: a record whose
    dead letter cannot be written is given up all the same, after some tries.
    """

    topic: str
    is_copying: bool = True
    is_dropping: bool = False


class DeadRecords(NamedTuple):
    """Records `first` … `last` of a partition, given up by a group after equally many deliveries."""

    group_id: str
    topic_id: UUID
    partition: int
    first: int
    last: int
    delivery_count: int
    reason: DeadReason
    terms: DeadLetterTerms


def headers_of(dead: DeadRecords, topic: str, offset: int) -> Sequence[tuple[str, bytes]]:
    """`topic`: the name of the one that the record is in."""
    return letter_headers(topic, dead.partition, offset, dead.group_id, dead.delivery_count, dead.reason)


def letter_headers(
    topic: str, partition: int, offset: int, group_id: str, delivery_count: int, reason: DeadReason
) -> Sequence[tuple[str, bytes]]:
    """The headers of a dead letter, in their order."""
    values = (topic, partition, offset, group_id, delivery_count, reason.text)
    return [(name, str(value).encode()) for name, value in zip(HEADERS, values, strict=True)]
