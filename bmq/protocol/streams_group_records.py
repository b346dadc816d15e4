"""Records of `__consumer_offsets` about streams groups (KIP-1071) as Kafka writes them, keys and values.

A key is an int16 type (17, 19 to 23) and classic strings, a value an int16 version (0) and a flexible body; no value
(a tombstone) deletes what the key names.
Source: group-coordinator/src/main/resources/common/message of Apache Kafka 4.3, StreamsGroup….json.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
class KeyValue:
    """A config, or a client's tag."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochValue:
    """`metadata_hash`: of the topics the epoch was decided on. `validated_topology_epoch`: epoch of the topology whose
    topics all existed then; -1: none. `assignment_configs`: configs for the assignor; None: written by an older server.
    """

    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    assignment_configs: Sequence[KeyValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address where a process answers interactive queries."""

    host: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """A member's own description."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIds:
    """Tasks of a subtopology. `assignment_epochs`: the epoch each was assigned in, in order; only for active tasks."""

    subtopology_id: str = ""
    partitions: Sequence[int] = ()
    assignment_epochs: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetValue:
    """A member's target assignment."""

    active: Sequence[TaskIds] = ()
    standby: Sequence[TaskIds] = ()
    warmup: Sequence[TaskIds] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentValue:
    """A member's current assignment, and tasks it must revoke.

    `state`: see bmq.coordinator.streams.member.MemberState.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 1
    active: Sequence[TaskIds] = ()
    standby: Sequence[TaskIds] = ()
    warmup: Sequence[TaskIds] = ()
    active_pending_revocation: Sequence[TaskIds] = ()
    standby_pending_revocation: Sequence[TaskIds] = ()
    warmup_pending_revocation: Sequence[TaskIds] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyKey:
    """Key of the group's topology (StreamsGroupTopologyKey)."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic made for the application. `partitions` 0: derived from other topics; always so for a changelog.

    `replication_factor` 0: the cluster's default.
    """

    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: Sequence[KeyValue] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup:
    """Topics that must have the same number of partitions: indexes into the lists of their subtopology."""

    source_topics: Sequence[int] = ()
    source_topic_regex: Sequence[int] = ()
    repartition_source_topics: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """An independent part of the topology, with as many tasks as its largest source topic has partitions."""

    subtopology_id: str = ""
    source_topics: Sequence[str] = ()
    source_topic_regex: Sequence[str] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_sink_topics: Sequence[str] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()
    copartition_groups: Sequence[CopartitionGroup] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyValue:
    """The application's topology: its subtopologies."""

    epoch: int = 0
    subtopologies: Sequence[Subtopology] = ()


StreamsKey = EpochKey | MemberKey | TargetEpochKey | TargetKey | CurrentKey | TopologyKey
StreamsValue = EpochValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | TopologyValue


def _list(name: str, entity: Format) -> FormatField:
    return FormatField(name, entity=entity, is_array=True)


_KEY_VALUE: Final = value_format(KeyValue, FormatField("key", "string"), FormatField("value", "string"))
_EPOCH: Final = value_format(
    EpochValue,
    FormatField("epoch", "int32"),
    FormatField("metadata_hash", "int64"),
    FormatField("validated_topology_epoch", "int32", tag=0, default=-1),
    FormatField("assignment_configs", entity=_KEY_VALUE, is_array=True, nullable_since=0, tag=1),
)
_ENDPOINT: Final = value_format(Endpoint, FormatField("host", "string"), FormatField("port", "uint16"))
_MEMBER: Final = value_format(
    MemberValue,
    FormatField("instance_id", "string", nullable_since=0),
    FormatField("rack_id", "string", nullable_since=0),
    FormatField("client_id", "string"),
    FormatField("client_host", "string"),
    FormatField("rebalance_timeout_ms", "int32"),
    FormatField("topology_epoch", "int32"),
    FormatField("process_id", "string"),
    FormatField("user_endpoint", entity=_ENDPOINT, nullable_since=0),
    _list("client_tags", _KEY_VALUE),
)
_TASK_IDS: Final = value_format(
    TaskIds, FormatField("subtopology_id", "string"), FormatField("partitions", "int32", is_array=True)
)
_OWN_TASK_IDS: Final = value_format(
    TaskIds,
    *_TASK_IDS.fields,
    FormatField("assignment_epochs", "int32", is_array=True, nullable_since=0, tag=0),
)
_TARGET: Final = value_format(
    TargetValue, _list("active", _TASK_IDS), _list("standby", _TASK_IDS), _list("warmup", _TASK_IDS)
)
_CURRENT: Final = value_format(
    CurrentValue,
    FormatField("epoch", "int32"),
    FormatField("previous_epoch", "int32"),
    FormatField("state", "int8"),
    _list("active", _OWN_TASK_IDS),
    _list("standby", _OWN_TASK_IDS),
    _list("warmup", _OWN_TASK_IDS),
    _list("active_pending_revocation", _OWN_TASK_IDS),
    _list("standby_pending_revocation", _OWN_TASK_IDS),
    _list("warmup_pending_revocation", _OWN_TASK_IDS),
)
_TOPIC_INFO: Final = value_format(
    TopicInfo,
    FormatField("name", "string"),
    FormatField("partitions", "int32"),
    FormatField("replication_factor", "int16"),
    _list("topic_configs", _KEY_VALUE),
)
_COPARTITION_GROUP: Final = value_format(
    CopartitionGroup,
    FormatField("source_topics", "int16", is_array=True),
    FormatField("source_topic_regex", "int16", is_array=True),
    FormatField("repartition_source_topics", "int16", is_array=True),
)
_SUBTOPOLOGY: Final = value_format(
    Subtopology,
    FormatField("subtopology_id", "string"),
    FormatField("source_topics", "string", is_array=True),
    FormatField("source_topic_regex", "string", is_array=True),
    _list("state_changelog_topics", _TOPIC_INFO),
    FormatField("repartition_sink_topics", "string", is_array=True),
    _list("repartition_source_topics", _TOPIC_INFO),
    _list("copartition_groups", _COPARTITION_GROUP),
)
_TOPOLOGY: Final = value_format(TopologyValue, FormatField("epoch", "int32"), _list("subtopologies", _SUBTOPOLOGY))
RECORD_TYPES: Final[RecordTypes[StreamsKey, StreamsValue]] = RecordTypes(
    "a streams group",
    {
        17: (key_format(EpochKey, "group"), _EPOCH),
        19: (key_format(MemberKey, "group", "member_id"), _MEMBER),
        20: (key_format(TargetEpochKey, "group"), TARGET_EPOCH),
        21: (key_format(TargetKey, "group", "member_id"), _TARGET),
        22: (key_format(CurrentKey, "group", "member_id"), _CURRENT),
        23: (key_format(TopologyKey, "group"), _TOPOLOGY),
    },
)

encode_key = RECORD_TYPES.encode_key
encode_value = RECORD_TYPES.encode_value
decode_key = RECORD_TYPES.decode_key
decode_value = RECORD_TYPES.decode_value
is_streams_key = RECORD_TYPES.has
