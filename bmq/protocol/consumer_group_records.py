"""Records of `__consumer_offsets` about consumer groups (KIP-848) as Kafka writes them, keys and values.

A key is an int16 type (3 to 8, 16) and classic strings, a value an int16 version (0) and a flexible body; no value
(a tombstone) deletes what the key names. Committed offsets and classic groups are in group_records.py.
Source: group-coordinator/src/main/resources/common/message of Apache Kafka, ConsumerGroup….json; assignment epochs of
partitions: KIP-1251.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.record_types import RecordTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKey:
    """Of a group's epoch: with it a group exists (ConsumerGroupMetadataKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochValue:
    """`metadata_hash`: of the topics the epoch was decided on."""

    epoch: int = 0
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsKey:
    """What Kafka before 4.1 kept of the subscribed topics. Only deleted here (ConsumerGroupPartitionMetadataKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey:
    """Of what a member says of itself (ConsumerGroupMemberMetadataKey)."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """A protocol that a member offered in JoinGroup, with its subscription."""

    name: str = ""
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """What is known of a member that speaks the classic protocol."""

    session_timeout_ms: int = 0
    protocols: Sequence[ClassicProtocol] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """What a member says of itself; `classic` is None for one of the new protocol."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: Sequence[str] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMember | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochKey:
    """Of the epoch of the target assignment (ConsumerGroupTargetAssignmentMetadataKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochValue:
    """`timestamp_ms`: when the target was computed; 0: the next one need not wait."""

    epoch: int = 0
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic. `assignment_epochs`: since which epoch each is the member's, in order; may be missing."""

    topic_id: UUID | None = None
    partitions: Sequence[int] = ()
    assignment_epochs: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKey:
    """Of what a member shall have (ConsumerGroupTargetAssignmentMemberKey)."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetValue:
    """What a member shall have."""

    topic_partitions: Sequence[TopicPartitions] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentKey:
    """Of what a member has (ConsumerGroupCurrentMemberAssignmentKey)."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentValue:
    """What a member has, and what it has yet to give back. `state`: see bmq.coordinator.consumer.member.MemberState."""

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 0
    assigned: Sequence[TopicPartitions] = ()
    pending_revocation: Sequence[TopicPartitions] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexKey:
    """Of what a regular expression matches (ConsumerGroupRegularExpressionKey)."""

    group: str
    regex: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexValue:
    """The topics a regular expression matches, by the metadata of `version`, looked up at `timestamp_ms`."""

    topics: Sequence[str] = ()
    version: int = 0
    timestamp_ms: int = 0


ConsumerKey = EpochKey | TopicsKey | MemberKey | TargetEpochKey | TargetKey | CurrentKey | RegexKey
ConsumerValue = EpochValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | RegexValue
ConsumerRecord = tuple[ConsumerKey, ConsumerValue | None]


def _key_format(message_class: type, *names: str) -> Format:
    return Format(message_class, 0, 1, tuple(FormatField(name, "string") for name in names))


def _value_format(message_class: type, *fields: FormatField) -> Format:
    return Format(message_class, 0, 0, fields)


_TARGET_PARTITIONS: Final = _value_format(
    TopicPartitions, FormatField("topic_id", "uuid"), FormatField("partitions", "int32", is_array=True)
)
_OWN_PARTITIONS: Final = _value_format(
    TopicPartitions,
    *_TARGET_PARTITIONS.fields,
    FormatField("assignment_epochs", "int32", is_array=True, tag=0, default=()),
)
_CLASSIC_PROTOCOL: Final = _value_format(
    ClassicProtocol, FormatField("name", "string"), FormatField("metadata", "bytes")
)
_CLASSIC_MEMBER: Final = _value_format(
    ClassicMember,
    FormatField("session_timeout_ms", "int32"),
    FormatField("protocols", entity=_CLASSIC_PROTOCOL, is_array=True),
)
_EPOCH: Final = _value_format(
    EpochValue, FormatField("epoch", "int32"), FormatField("metadata_hash", "int64", tag=0, default=0)
)
_MEMBER: Final = _value_format(
    MemberValue,
    FormatField("instance_id", "string", nullable_since=0),
    FormatField("rack_id", "string", nullable_since=0),
    FormatField("client_id", "string"),
    FormatField("client_host", "string"),
    FormatField("topic_names", "string", is_array=True),
    FormatField("topic_regex", "string", nullable_since=0),
    FormatField("rebalance_timeout_ms", "int32"),
    FormatField("server_assignor", "string", nullable_since=0),
    FormatField("classic", entity=_CLASSIC_MEMBER, nullable_since=0, tag=0),
)
_TARGET_EPOCH: Final = _value_format(
    TargetEpochValue, FormatField("epoch", "int32"), FormatField("timestamp_ms", "int64", tag=0, default=0)
)
_TARGET: Final = _value_format(TargetValue, FormatField("topic_partitions", entity=_TARGET_PARTITIONS, is_array=True))
_CURRENT: Final = _value_format(
    CurrentValue,
    FormatField("epoch", "int32"),
    FormatField("previous_epoch", "int32"),
    FormatField("state", "int8"),
    FormatField("assigned", entity=_OWN_PARTITIONS, is_array=True),
    FormatField("pending_revocation", entity=_OWN_PARTITIONS, is_array=True),
)
_REGEX: Final = _value_format(
    RegexValue,
    FormatField("topics", "string", is_array=True),
    FormatField("version", "int64"),
    FormatField("timestamp_ms", "int64"),
)
_RECORDS: Final[RecordTypes[ConsumerKey, ConsumerValue]] = RecordTypes(
    "a consumer group",
    {
        3: (_key_format(EpochKey, "group"), _EPOCH),
        4: (_key_format(TopicsKey, "group"), None),
        5: (_key_format(MemberKey, "group", "member_id"), _MEMBER),
        6: (_key_format(TargetEpochKey, "group"), _TARGET_EPOCH),
        7: (_key_format(TargetKey, "group", "member_id"), _TARGET),
        8: (_key_format(CurrentKey, "group", "member_id"), _CURRENT),
        16: (_key_format(RegexKey, "group", "regex"), _REGEX),
    },
)

encode_key = _RECORDS.encode_key
encode_value = _RECORDS.encode_value
decode_key = _RECORDS.decode_key
decode_value = _RECORDS.decode_value
is_consumer_key = _RECORDS.has
