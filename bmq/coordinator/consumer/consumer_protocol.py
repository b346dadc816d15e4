"""The clients' own "consumer" protocol, which the classic group protocol carries as bytes: subscriptions, assignments.

Source: ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json of Apache Kafka, versions 0 to 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final
from uuid import UUID

from bmq.coordinator.consumer.partition_sets import Target
from bmq.coordinator.topics import Topics
from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import Format, FormatField, codec_of

VERSION_MAX: Final = 3
_INT16: Final = Struct(">h")
_NEVER_FLEXIBLE: Final = VERSION_MAX + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions:
    """Partitions of a topic."""

    topic: str = ""
    partitions: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A consumer's subscription as sent in JoinGroup. `owned`: partitions it has not given up."""

    topics: Sequence[str] = ()
    user_data: bytes | None = None
    owned: Sequence[NamedPartitions] = ()
    generation: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A consumer's assignment."""

    assigned: Sequence[NamedPartitions] = ()
    user_data: bytes | None = None


_PARTITIONS: Final = Format(
    NamedPartitions,
    VERSION_MAX,
    _NEVER_FLEXIBLE,
    (FormatField("topic", "string"), FormatField("partitions", "int32", is_array=True)),
)
_SUBSCRIPTION: Final = Format(
    Subscription,
    VERSION_MAX,
    _NEVER_FLEXIBLE,
    (
        FormatField("topics", "string", is_array=True),
        FormatField("user_data", "bytes", nullable_since=0),
        FormatField("owned", entity=_PARTITIONS, is_array=True, since=1),
        FormatField("generation", "int32", since=2),
        FormatField("rack_id", "string", since=3, nullable_since=3),
    ),
)
_ASSIGNMENT: Final = Format(
    Assignment,
    VERSION_MAX,
    _NEVER_FLEXIBLE,
    (
        FormatField("assigned", entity=_PARTITIONS, is_array=True),
        FormatField("user_data", "bytes", nullable_since=0),
    ),
)


def version_of(data: bytes) -> int:
    """Version of a subscription or an assignment; later versions only append fields. Raises MalformedMessage."""
    try:
        version: int = _INT16.unpack_from(data)[0]
    except struct_error as error:
        raise MalformedMessage("consumer protocol data without a version") from error
    if version < 0:
        raise MalformedMessage(f"consumer protocol data of version {version}")
    return min(version, VERSION_MAX)


def decode_subscription(data: bytes) -> Subscription:
    """Raises MalformedMessage."""
    subscription: Subscription = codec_of(_SUBSCRIPTION, version_of(data)).read(data, _INT16.size)
    return subscription


def decode_assignment(data: bytes) -> Assignment:
    """Empty data gives an empty assignment. Raises MalformedMessage."""
    if not data:
        return Assignment()
    assignment: Assignment = codec_of(_ASSIGNMENT, version_of(data)).read(data, _INT16.size)
    return assignment


def encode_assignment(owned: Mapping[UUID, Iterable[int]], topics: Topics, version: int) -> bytes:
    """A member's partitions by topic name; deleted topics are left out."""
    named = [
        NamedPartitions(topic=topic.name, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in owned.items()
        if (topic := topics.topics_by_id.get(topic_id)) is not None
    ]
    out = bytearray(_INT16.pack(version))
    message = Assignment(assigned=sorted(named, key=lambda part: part.topic))
    codec_of(_ASSIGNMENT, version).write(out, message)
    return bytes(out)


def by_id(named: Iterable[NamedPartitions], topics: Topics) -> Target:
    """By topic id; topics that do not exist are left out."""
    found: dict[UUID, frozenset[int]] = {}
    for part in named:
        topic = topics.topics.get(part.topic)
        if topic is not None and part.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(part.partitions)
    return found
