"""Records of `__consumer_offsets` about consumer groups (KIP-848) as Kafka writes them, keys and values.

A key is an int16 type (3 to 8, 16) and classic strings, a value an int16 version (0) and a flexible body; no value
(a tombstone) deletes what the key names. Committed offsets and classic groups are in group_records.py.
Source: group-coordinator/src/main/resources/common/message of Apache Kafka, ConsumerGroup….json; assignment epochs of
partitions: KIP-1251.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol import record_types
from bmq.protocol.formats import FormatField
from bmq.protocol.record_types import TARGET_EPOCH, RecordTypes, key_format, value_format

EpochKey = record_types.EpochKey
MemberKey = record_types.MemberKey
TargetEpochKey = record_types.TargetEpochKey
TargetEpochValue = record_types.TargetEpochValue
TargetKey = record_types.TargetKey
CurrentKey = record_types.CurrentKey


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochValue:
    """`metadata_hash`: of the topics the epoch was decided on."""

    epoch: int = 0
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsKey:
    """Subscribed topics as kept by Kafka before 4.1. Only deleted here (ConsumerGroupPartitionMetadataKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """A protocol that a member offered in JoinGroup, with its subscription."""

    name: str = ""
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """The classic-protocol part of a member that speaks that protocol."""

    session_timeout_ms: int = 0
    protocols: Sequence[ClassicProtocol] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """A member's own description; `classic` is None for a member of the new protocol."""

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
class TopicPartitions:
    """Partitions of a topic. `assignment_epochs`: the epoch each was assigned in, in order; may be missing."""

    topic_id: UUID | None = None
    partitions: Sequence[int] = ()
    assignment_epochs: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetValue:
    """A member's target assignment."""

    topic_partitions: Sequence[TopicPartitions] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentValue:
    """A member's current assignment, and partitions it must revoke.

    `state`: bmq.coordinator.consumer.member.MemberState.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 0
    assigned: Sequence[TopicPartitions] = ()
    pending_revocation: Sequence[TopicPartitions] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexKey:
    """Key of a resolved regular expression (ConsumerGroupRegularExpressionKey)."""

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


_TARGET_PARTITIONS: Final = value_format(
    TopicPartitions, FormatField("topic_id", "uuid"), FormatField("partitions", "int32", is_array=True)
)
_OWN_PARTITIONS: Final = value_format(
    TopicPartitions,
    *_TARGET_PARTITIONS.fields,
    FormatField("assignment_epochs", "int32", is_array=True, tag=0, default=()),
)
_CLASSIC_PROTOCOL: Final = value_format(
    ClassicProtocol, FormatField("name", "string"), FormatField("metadata", "bytes")
)
_CLASSIC_MEMBER: Final = value_format(
    ClassicMember,
    FormatField("session_timeout_ms", "int32"),
    FormatField("protocols", entity=_CLASSIC_PROTOCOL, is_array=True),
)
_EPOCH: Final = value_format(
    EpochValue, FormatField("epoch", "int32"), FormatField("metadata_hash", "int64", tag=0, default=0)
)
_MEMBER: Final = value_format(
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
_TARGET: Final = value_format(TargetValue, FormatField("topic_partitions", entity=_TARGET_PARTITIONS, is_array=True))
_CURRENT: Final = value_format(
    CurrentValue,
    FormatField("epoch", "int32"),
    FormatField("previous_epoch", "int32"),
    FormatField("state", "int8"),
    FormatField("assigned", entity=_OWN_PARTITIONS, is_array=True),
    FormatField("pending_revocation", entity=_OWN_PARTITIONS, is_array=True),
)
_REGEX: Final = value_format(
    RegexValue,
    FormatField("topics", "string", is_array=True),
    FormatField("version", "int64"),
    FormatField("timestamp_ms", "int64"),
)
RECORD_TYPES: Final[RecordTypes[ConsumerKey, ConsumerValue]] = RecordTypes(
    "a consumer group",
    {
        3: (key_format(EpochKey, "group"), _EPOCH),
        4: (key_format(TopicsKey, "group"), None),
        5: (key_format(MemberKey, "group", "member_id"), _MEMBER),
        6: (key_format(TargetEpochKey, "group"), TARGET_EPOCH),
        7: (key_format(TargetKey, "group", "member_id"), _TARGET),
        8: (key_format(CurrentKey, "group", "member_id"), _CURRENT),
        16: (key_format(RegexKey, "group", "regex"), _REGEX),
    },
)

encode_key = RECORD_TYPES.encode_key
encode_value = RECORD_TYPES.encode_value
decode_key = RECORD_TYPES.decode_key
decode_value = RECORD_TYPES.decode_value
is_consumer_key = RECORD_TYPES.has
