"""Records of `__consumer_offsets` about share groups (KIP-932) as Kafka writes them, keys and values.

A key is an int16 type (10 to 15) and classic strings, a value an int16 version (0) and a flexible body; no value (a
tombstone) deletes what the key names.
Source: group-coordinator/src/main/resources/common/message of Apache Kafka 4.3, ShareGroup….json. Decisions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol import record_types
from bmq.protocol.formats import Format, FormatField
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
class MemberValue:
    """A member's own description."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic."""

    topic_id: UUID | None = None
    partitions: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetValue:
    """A member's target assignment."""

    topic_partitions: Sequence[TopicPartitions] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentValue:
    """A member's current assignment. `state`: 0, as a member of a share group is always stable."""

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 0
    assigned_partitions: Sequence[TopicPartitions] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitionsKey:
    """Key of which share partitions have state (ShareGroupStatePartitionMetadataKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopic:
    """Partitions of a topic whose state is initialized, or is being so."""

    topic_id: UUID | None = None
    topic_name: str = ""
    partitions: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletingTopic:
    """A topic whose state is being deleted."""

    topic_id: UUID | None = None
    topic_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitionsValue:
    """Which share partitions have state, are getting it, or are losing it."""

    initializing: Sequence[StateTopic] = ()
    initialized: Sequence[StateTopic] = ()
    deleting: Sequence[DeletingTopic] = ()


ShareKey = EpochKey | MemberKey | TargetEpochKey | TargetKey | CurrentKey | StatePartitionsKey
ShareValue = EpochValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | StatePartitionsValue


def _list(name: str, entity: Format) -> FormatField:
    return FormatField(name, entity=entity, is_array=True)


_MEMBER: Final = value_format(
    MemberValue,
    FormatField("rack_id", "string", nullable_since=0),
    FormatField("client_id", "string"),
    FormatField("client_host", "string"),
    FormatField("subscribed_topic_names", "string", is_array=True),
)
_EPOCH: Final = value_format(EpochValue, FormatField("epoch", "int32"), FormatField("metadata_hash", "int64"))
_TOPIC_PARTITIONS: Final = value_format(
    TopicPartitions, FormatField("topic_id", "uuid"), FormatField("partitions", "int32", is_array=True)
)
_TARGET: Final = value_format(TargetValue, _list("topic_partitions", _TOPIC_PARTITIONS))
_CURRENT: Final = value_format(
    CurrentValue,
    FormatField("epoch", "int32"),
    FormatField("previous_epoch", "int32"),
    FormatField("state", "int8"),
    _list("assigned_partitions", _TOPIC_PARTITIONS),
)
_STATE_TOPIC: Final = value_format(
    StateTopic,
    FormatField("topic_id", "uuid"),
    FormatField("topic_name", "string"),
    FormatField("partitions", "int32", is_array=True),
)
_DELETING_TOPIC: Final = value_format(
    DeletingTopic, FormatField("topic_id", "uuid"), FormatField("topic_name", "string")
)
_STATE_PARTITIONS: Final = value_format(
    StatePartitionsValue,
    _list("initializing", _STATE_TOPIC),
    _list("initialized", _STATE_TOPIC),
    _list("deleting", _DELETING_TOPIC),
)
RECORD_TYPES: Final[RecordTypes[ShareKey, ShareValue]] = RecordTypes(
    "a share group",
    {
        10: (key_format(MemberKey, "group", "member_id"), _MEMBER),
        11: (key_format(EpochKey, "group"), _EPOCH),
        12: (key_format(TargetEpochKey, "group"), TARGET_EPOCH),
        13: (key_format(TargetKey, "group", "member_id"), _TARGET),
        14: (key_format(CurrentKey, "group", "member_id"), _CURRENT),
        15: (key_format(StatePartitionsKey, "group"), _STATE_PARTITIONS),
    },
)

encode_key = RECORD_TYPES.encode_key
encode_value = RECORD_TYPES.encode_value
decode_key = RECORD_TYPES.decode_key
decode_value = RECORD_TYPES.decode_value
is_share_key = RECORD_TYPES.has
