"""Records of `__consumer_offsets` as Kafka writes them: committed offsets and classic groups, keys and values.

A key begins with an int16 type (0 and 1: a committed offset, 2: a group), a value with an int16 version. A
key without a value (a tombstone) deletes what it names. Keys of other types (consumer, share and streams groups) come
back as UnknownKey, so that a log written by a newer server can still be replayed.
Source: group-coordinator/src/main/resources/common/message of Apache Kafka; topic id of a committed offset: KAFKA-19141.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import Format, FormatField
from bmq.protocol.record_types import decode_prefixed, encode_prefixed, prefix_of
from bmq.protocol.wire import Buffer

_INT32: Final = Struct(">i")
# The usual committed offset: version 4, no metadata (length and one), one tagged field, its tag, size and bytes.
_PLAIN_OFFSET: Final = Struct(">hqiBqBBB16s")
_PLAIN_MARKS: Final = (1, 1, 0, 16)
_ZERO_UUID: Final = bytes(16)
_TOPIC_IDS_MAX: Final = 4_096


class OffsetCommitKey(NamedTuple):
    """Key of a committed offset. Key types 0 and 1 have the same layout; we write 1.

    A tuple for speed, like its value: a failover makes very many of both while all groups of the shard wait.
    """

    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """A committed offset. `expire_timestamp_ms` is only in version 1 (the retention time of old OffsetCommits)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey:
    """A classic group."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """A member of a classic group; `subscription` is its metadata for the chosen protocol, both opaque."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """A classic group after a completed rebalance. `protocol` and `leader` are null when it is empty.

    `leader` is also null when a consumer group has become this one and its members still have to rejoin.
    """

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp_ms: int = -1
    members: Sequence[MemberMetadata] = ()


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key of a type that is not read here; `data` is all of it, type included."""

    key_type: int
    data: bytes


GroupKey = OffsetCommitKey | GroupMetadataKey | UnknownKey
GroupValue = OffsetCommitValue | GroupMetadataValue

_OFFSET_COMMIT_KEY: Final = Format(
    OffsetCommitKey,
    version_max=1,
    flexible_from=2,
    fields=(FormatField("group", "string"), FormatField("topic", "string"), FormatField("partition", "int32")),
)
_OFFSET_COMMIT_VALUE: Final = Format(
    OffsetCommitValue,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("offset", "int64"),
        FormatField("leader_epoch", "int32", since=3),
        FormatField("metadata", "string"),
        FormatField("commit_timestamp_ms", "int64"),
        FormatField("expire_timestamp_ms", "int64", since=1, until=1),
        FormatField("topic_id", "uuid", since=4, tag=0),
    ),
)
_GROUP_METADATA_KEY: Final = Format(
    GroupMetadataKey, version_min=2, version_max=2, flexible_from=3, fields=(FormatField("group", "string"),)
)
_MEMBER_METADATA: Final = Format(
    MemberMetadata,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("member_id", "string"),
        FormatField("group_instance_id", "string", since=3, nullable_since=3),
        FormatField("client_id", "string"),
        FormatField("client_host", "string"),
        FormatField("rebalance_timeout_ms", "int32", since=1),
        FormatField("session_timeout_ms", "int32"),
        FormatField("subscription", "bytes"),
        FormatField("assignment", "bytes"),
    ),
)
_GROUP_METADATA_VALUE: Final = Format(
    GroupMetadataValue,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("protocol_type", "string"),
        FormatField("generation", "int32"),
        FormatField("protocol", "string", nullable_since=0),
        FormatField("leader", "string", nullable_since=0),
        FormatField("current_state_timestamp_ms", "int64", since=2),
        FormatField("members", None, entity=_MEMBER_METADATA, is_array=True),
    ),
)
_KEYS: Final = {0: _OFFSET_COMMIT_KEY, 1: _OFFSET_COMMIT_KEY, 2: _GROUP_METADATA_KEY}


def encode_key(key: GroupKey) -> bytes:
    """The record key."""
    match key:
        case OffsetCommitKey():
            return encode_prefixed(_OFFSET_COMMIT_KEY, 1, key)
        case GroupMetadataKey():
            return encode_prefixed(_GROUP_METADATA_KEY, 2, key)
        case UnknownKey():
            return key.data


def decode_key(data: Buffer) -> GroupKey:
    """Decode a record key. Raises MalformedMessage for a known type that does not parse, or for under two bytes."""
    key_type = prefix_of(data)
    if key_type <= 1 and (committed := _offset_commit_key(data)) is not None:
        return committed
    format_ = _KEYS.get(key_type)
    if format_ is None:
        return UnknownKey(key_type, bytes(data))
    key: GroupKey = decode_prefixed(data, format_, key_type)
    return key


def encode_value(value: GroupValue, version: int | None = None) -> bytes:
    """The record value; without `version` in the lowest one that can hold it, as Kafka does (3 in general)."""
    match value:
        case OffsetCommitValue():
            if value.topic_id is not None and not value.metadata and version in (None, 4):
                metadata_mark, *marks = _PLAIN_MARKS
                numbers = (value.offset, value.leader_epoch, metadata_mark, value.commit_timestamp_ms)
                return _PLAIN_OFFSET.pack(4, *numbers, *marks, value.topic_id.bytes)
            if version is None:
                version = 4 if value.topic_id is not None else 1 if value.expire_timestamp_ms >= 0 else 3
            return encode_prefixed(_OFFSET_COMMIT_VALUE, version, value)
        case GroupMetadataValue():
            return encode_prefixed(_GROUP_METADATA_VALUE, 3 if version is None else version, value)


def decode_value(key: GroupKey, data: Buffer | None) -> GroupValue | None:
    """The value that belongs to a key; None for a tombstone and for an UnknownKey.

    Raises MalformedMessage, also for an unknown version.
    """
    if data is None or isinstance(key, UnknownKey):
        return None
    if len(data) == _PLAIN_OFFSET.size and isinstance(key, OffsetCommitKey):
        version, offset, leader_epoch, metadata, timestamp_ms, tags, tag, size, topic_id = _PLAIN_OFFSET.unpack(data)
        if version == 4 and (metadata, tags, tag, size) == _PLAIN_MARKS and topic_id != _ZERO_UUID:
            return OffsetCommitValue(offset, leader_epoch, "", timestamp_ms, -1, _topic_id(topic_id))
    format_ = _OFFSET_COMMIT_VALUE if isinstance(key, OffsetCommitKey) else _GROUP_METADATA_VALUE
    version = prefix_of(data)
    if not format_.version_min <= version <= format_.version_max:
        raise MalformedMessage(f"{format_.message_class.__name__} of unknown version {version}")
    value: GroupValue = decode_prefixed(data, format_, version)
    return value


def _offset_commit_key(data: Buffer) -> OffsetCommitKey | None:
    """Fast decoder of key types 0 and 1; None when `data` needs the compiled codec."""
    size = len(data)
    if size < 12 or data[0] or data[2] > 127:
        return None
    middle = 4 + (data[2] << 8 | data[3])
    if middle + 6 > size or data[middle] > 127:
        return None
    end = middle + 2 + (data[middle] << 8 | data[middle + 1])
    if end + 4 != size:
        return None
    try:
        return OffsetCommitKey(
            str(data[4:middle], "utf-8"), str(data[middle + 2 : end], "utf-8"), _INT32.unpack_from(data, end)[0]
        )
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=_TOPIC_IDS_MAX)
def _topic_id(data: bytes) -> UUID:
    return UUID(bytes=data)
