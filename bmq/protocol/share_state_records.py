"""Records of `__share_group_state` as Kafka writes them (KIP-932): a snapshot of a share partition, or what has changed.

Key: an int16 type and the group, topic id and partition; value: an int16 version (0) and a flexible body; no value behind a
snapshot's key deletes the state. States: 0 available, 2 acknowledged, 3 archiving, 4 archived. Kafka never writes that a
record is acquired. Here the delivery is counted when the record is acquired, with state 0; our own tagged field `locks`
says who holds it until when. A record in back-off is available, too, and has our tagged field `due_ms`; one whose dead
letter is being written may have our `reason`. A reader that skips these fields sees Kafka's state, in which the record is available again.

Source: share-coordinator/src/main/resources/common/message of Apache Kafka 4.3, ShareSnapshot….json, ShareUpdate….json.
Decisions only. The classes of changes are not frozen: one is made for each fetch and each acknowledgement, and a frozen one
takes three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.formats import Format, FormatField
from bmq.protocol.record_types import RecordTypes, value_format

_NO_UUID: Final = UUID(int=0)
_OWN_TAG: Final = 10_000
"""Far from the tags that Kafka may add."""
_ACTIVE_MEMBER_TAG: Final = 10_010
_ACTIVE_EPOCH_TAG: Final = 10_011


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotKey:
    """Key of a share partition's whole state (ShareSnapshotKey)."""

    group: str
    topic_id: UUID = _NO_UUID
    partition: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateKey:
    """Key of a change of a share partition's state (ShareUpdateKey)."""

    group: str
    topic_id: UUID = _NO_UUID
    partition: int = 0


@dataclass(slots=True, kw_only=True)
class StateBatch:
    """The records `first_offset` … `last_offset` have this state and delivery count.

    `due_ms`: available records are not given before this time (wall clock). `reason`: why archiving ones are (DeadReason).
    """

    first_offset: int = -1
    last_offset: int = -1
    delivery_state: int = 0
    delivery_count: int = 0
    due_ms: int = 0
    reason: int = 0


@dataclass(slots=True, kw_only=True)
class LockedRecords:
    """Records that a member has until `deadline_ms` (wall clock), by a share session at an incarnation of a proxy."""

    first_offset: int = -1
    last_offset: int = -1
    deadline_ms: int = 0
    member_id: str = ""
    node_id: int = -1
    node_epoch: int = -1
    session: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotValue:
    """The whole state. `start_offset` -1: not found yet. `locks`: of records that are in `state_batches` as available.

    `active_member`: who alone may acquire, in a group whose partitions have one such member, since the group's epoch
    `active_epoch`; -1: nobody was named.
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    create_timestamp: int = 0
    write_timestamp: int = 0
    state_batches: Sequence[StateBatch] = ()
    delivery_complete_count: int = -1
    locks: Sequence[LockedRecords] = ()
    active_member: str = ""
    active_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class UpdateValue:
    """What has changed. `start_offset`, `active_epoch` -1: that has not. A state ends a lock; `locks` come after the
    states.
    """

    snapshot_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    state_batches: Sequence[StateBatch] = ()
    delivery_complete_count: int = -1
    locks: Sequence[LockedRecords] = ()
    active_member: str = ""
    active_epoch: int = -1


StateKey = SnapshotKey | UpdateKey
StateValue = SnapshotValue | UpdateValue


def _key(message_class: type) -> Format:
    fields = (
        FormatField("group", "string"),
        FormatField("topic_id", "uuid", default=_NO_UUID),
        FormatField("partition", "int32"),
    )
    return Format(message_class, 0, 1, fields)


def _int64(*names: str) -> tuple[FormatField, ...]:
    return tuple(FormatField(name, "int64") for name in names)


_BATCHES: Final = FormatField(
    "state_batches",
    entity=value_format(
        StateBatch,
        *_int64("first_offset", "last_offset"),
        FormatField("delivery_state", "int8"),
        FormatField("delivery_count", "int16"),
        FormatField("due_ms", "int64", tag=_OWN_TAG, default=0),
        FormatField("reason", "int8", tag=_OWN_TAG + 1, default=0),
    ),
    is_array=True,
)
_COMPLETE: Final = FormatField("delivery_complete_count", "int32", tag=0, default=-1)
_LOCKS: Final = FormatField(
    "locks",
    entity=value_format(
        LockedRecords,
        *_int64("first_offset", "last_offset", "deadline_ms"),
        FormatField("member_id", "string"),
        FormatField("node_id", "int32"),
        *_int64("node_epoch", "session"),
    ),
    is_array=True,
    tag=_OWN_TAG,
    default=(),
)
_ACTIVE: Final = (
    FormatField("active_member", "string", tag=_ACTIVE_MEMBER_TAG, default=""),
    FormatField("active_epoch", "int32", tag=_ACTIVE_EPOCH_TAG, default=-1),
)
RECORD_TYPES: Final[RecordTypes[StateKey, StateValue]] = RecordTypes(
    "a share partition",
    {
        0: (
            _key(SnapshotKey),
            value_format(
                SnapshotValue,
                FormatField("snapshot_epoch", "int32"),
                FormatField("state_epoch", "int32"),
                FormatField("leader_epoch", "int32"),
                *_int64("start_offset", "create_timestamp", "write_timestamp"),
                _BATCHES,
                _COMPLETE,
                _LOCKS,
                *_ACTIVE,
            ),
        ),
        1: (
            _key(UpdateKey),
            value_format(
                UpdateValue,
                FormatField("snapshot_epoch", "int32"),
                FormatField("leader_epoch", "int32"),
                FormatField("start_offset", "int64"),
                _BATCHES,
                _COMPLETE,
                _LOCKS,
                *_ACTIVE,
            ),
        ),
    },
)

encode_key = RECORD_TYPES.encode_key
encode_value = RECORD_TYPES.encode_value
decode_key = RECORD_TYPES.decode_key
decode_value = RECORD_TYPES.decode_value
