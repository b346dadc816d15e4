"""Internal calls about the state of share partitions (KIP-932): from proxies and from groups, to the shards that keep it.

A shard is a partition of `__share_group_state`; `state_key` names the one of a share partition. Each call is about
partitions of one group (ShareWait: of any), and each part of an answer has its own error code, in the order of the
request. Besides the errors of a coordinator a part has:

INVALID_REQUEST         the partition's state is not initialized; or batches are not in order
INVALID_RECORD_STATE    an acknowledged record is not locked by this member
FENCED_STATE_EPOCH      initialized, or a member named, at a higher epoch meanwhile
FENCED_MEMBER_EPOCH     another member alone may acquire records of the partition
KAFKA_STORAGE_ERROR     the shard is damaged; other shards go on

What may be sent again when the outcome of the first try is unknown: ShareRelease, ShareWait, ShareInitialize, ShareSummary,
ShareDelete, ShareActivate and ShareExplain. A repeated ShareAcquire gives further records: those of the lost answer stay locked until their deadline.
A repeated ShareAcknowledge is refused with INVALID_RECORD_STATE where the first one was carried out.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from enum import IntEnum
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.apis import ApiKey
from bmq.protocol.formats import Format, FormatField

NO_UUID: Final = UUID(int=0)
UNKNOWN: Final = -1
ANY_NODE: Final = -1
SESSION_MAX: Final = 2**63 - 1
TIME_MAX_MS: Final = 2**63 - 1
BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1
_VERSION_MAX: Final = 0


class AckType(IntEnum):
    """What a consumer says of a record it was given."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


def state_key(group_id: str, topic_id: UUID, partition: int) -> str:
    """The key whose shard keeps the state, as Kafka's SharePartitionKey.asCoordinatorKey."""
    return f"{group_id}:{urlsafe_b64encode(topic_id.bytes).rstrip(b'=').decode()}:{partition}"


@dataclass(slots=True, kw_only=True)
class OffsetRange:
    """Offsets `first` … `last`, both included."""

    first: int = UNKNOWN
    last: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class AcquirePartition:
    """`batches`: the record batches that were read, in order of offsets; records are given from these alone.

    `archive`: offsets that no consumer has to see: control batches, aborted records, records that compaction removed.
    A request without batches asks where to read. `reset_offset`: where the partition begins if it has no start offset
    yet; else ignored. `log_start_offset`: records below are gone; -1: not known. `key_hashes`: for groups that keep the order
    of each key: of the offsets from `hash_offset` on, 2 bytes each, little-endian (bmq.records.key_layout).
    """

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    records_max: int = 0
    batch_size: int = 0
    log_start_offset: int = UNKNOWN
    reset_offset: int = UNKNOWN
    batches: Sequence[OffsetRange] = ()
    archive: Sequence[OffsetRange] = ()
    hash_offset: int = UNKNOWN
    key_hashes: bytes | bytearray | memoryview = b""


@dataclass(slots=True, kw_only=True)
class ShareAcquireRequest:
    """Lock records for a member until the group's lock duration is over.

    `node_id`, `node_epoch`: the proxy and its incarnation (Node.epoch): its locks are released when that is gone.
    `session`: number of the member's share session in that incarnation; each new session has a higher one.
    `mode`: BATCH_OPTIMIZED or RECORD_LIMIT.
    """

    group_id: str = ""
    member_id: str = ""
    node_id: int = UNKNOWN
    node_epoch: int = UNKNOWN
    session: int = 0
    mode: int = BATCH_OPTIMIZED
    partitions: Sequence[AcquirePartition] = ()


@dataclass(slots=True, kw_only=True)
class AcquiredRange:
    """Records `first` … `last`, delivered for the `delivery_count`th time."""

    first: int = UNKNOWN
    last: int = UNKNOWN
    delivery_count: int = 0


@dataclass(slots=True, kw_only=True)
class AcquiredPartition:
    """`start_offset`: the share partition's; -1: it has none yet, and a `reset_offset` has to be sent.

    `next_offset`: read from here to acquire more; -1: too many records are locked, wait. `version`: for ShareWait.
    """

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    error_code: int = 0
    error_message: str | None = None
    start_offset: int = UNKNOWN
    next_offset: int = UNKNOWN
    version: int = 0
    lock_timeout_ms: int = 0
    ranges: Sequence[AcquiredRange] = ()


@dataclass(slots=True, kw_only=True)
class ShareAcquireResponse:
    """Sent when the deliveries are counted durably."""

    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[AcquiredPartition] = ()


@dataclass(slots=True, kw_only=True)
class AcknowledgedBatch:
    """`types`: one AckType for all of the range, or one for each offset."""

    first: int = UNKNOWN
    last: int = UNKNOWN
    types: Sequence[int] = ()


@dataclass(slots=True, kw_only=True)
class AcknowledgePartition:
    """All batches take effect, or none."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    batches: Sequence[AcknowledgedBatch] = ()


@dataclass(slots=True, kw_only=True)
class ShareAcknowledgeRequest:
    """`member_id`: has to hold the locks; it may have got them in an earlier session or over another proxy."""

    group_id: str = ""
    member_id: str = ""
    partitions: Sequence[AcknowledgePartition] = ()


@dataclass(slots=True, kw_only=True)
class StatePart:
    """A part of an answer that says only whether it was done."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, kw_only=True)
class ShareAcknowledgeResponse:
    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[StatePart] = ()


@dataclass(slots=True, kw_only=True)
class NamedPartition:
    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class ShareReleaseRequest:
    """A share session has ended: release what the member locked through this incarnation of the proxy in this session and
    earlier ones. `node_id` ANY_NODE: the member was removed from its group; release what it locked before
    `locked_before_ms` (wall clock): it may be back since.
    """

    group_id: str = ""
    member_id: str = ""
    node_id: int = UNKNOWN
    node_epoch: int = UNKNOWN
    session: int = SESSION_MAX
    locked_before_ms: int = TIME_MAX_MS
    partitions: Sequence[NamedPartition] = ()


@dataclass(slots=True, kw_only=True)
class ShareReleaseResponse:
    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[StatePart] = ()


@dataclass(slots=True, kw_only=True)
class WaitPartition:
    """`version`: of the last answer about the partition; 0: none was seen."""

    group_id: str = ""
    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    version: int = 0


@dataclass(slots=True, kw_only=True)
class ShareWaitRequest:
    """Wait until more can be acquired in one of the partitions, which are all of one shard's node, than at `version`."""

    max_wait_ms: int = 0
    partitions: Sequence[WaitPartition] = ()


@dataclass(slots=True, kw_only=True)
class AvailablePartition:
    """`version` is higher than the one named, or there is an error; asks for the partition in its own way then."""

    group_id: str = ""
    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    error_code: int = 0
    version: int = 0


@dataclass(slots=True, kw_only=True)
class ShareWaitResponse:
    """Only partitions with news; none when the wait was over."""

    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[AvailablePartition] = ()


@dataclass(slots=True, kw_only=True)
class InitializePartition:
    """`start_offset` -1: found by the group's reset strategy when records are first acquired."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    start_offset: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class ShareInitializeRequest:
    """Begin the state of partitions, or begin it again at a new start offset (Kafka's InitializeShareGroupState).

    `state_epoch`: the group's epoch; lower than the known one: FENCED_STATE_EPOCH.
    """

    group_id: str = ""
    state_epoch: int = 0
    partitions: Sequence[InitializePartition] = ()


@dataclass(slots=True, kw_only=True)
class ShareInitializeResponse:
    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[StatePart] = ()


@dataclass(slots=True, kw_only=True)
class ShareSummaryRequest:
    group_id: str = ""
    partitions: Sequence[NamedPartition] = ()


@dataclass(slots=True, kw_only=True)
class PartitionSummary:
    """A partition that is not initialized has -1 everywhere, and no error.

    `complete_count`: records at or past the start offset that are done. `window_end`: follows the last record that was
    ever given.
    """

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = UNKNOWN
    start_offset: int = UNKNOWN
    complete_count: int = UNKNOWN
    window_end: int = UNKNOWN
    locked_count: int = 0


@dataclass(slots=True, kw_only=True)
class ShareSummaryResponse:
    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[PartitionSummary] = ()


@dataclass(slots=True, kw_only=True)
class ShareDeleteRequest:
    """Delete the state; of a partition that has none, success."""

    group_id: str = ""
    partitions: Sequence[NamedPartition] = ()


@dataclass(slots=True, kw_only=True)
class ShareDeleteResponse:
    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[StatePart] = ()


@dataclass(slots=True, kw_only=True)
class ActivePartition:
    """`member_id`: alone may acquire records, while the group's subscription says that one member does."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    member_id: str = ""


@dataclass(slots=True, kw_only=True)
class ShareActivateRequest:
    """Name the active members. `epoch`: of the group's target; lower than a known one: FENCED_STATE_EPOCH."""

    group_id: str = ""
    epoch: int = 0
    partitions: Sequence[ActivePartition] = ()


@dataclass(slots=True, kw_only=True)
class ShareActivateResponse:
    """Sent when it is durable: no other member has acquired anything since."""

    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[StatePart] = ()


@dataclass(slots=True, kw_only=True)
class LockHolder:
    """A member with `count` locked records from `first` to `last`; the last lock ends in `left_ms`."""

    member_id: str = ""
    count: int = 0
    first: int = UNKNOWN
    last: int = UNKNOWN
    left_ms: int = 0


@dataclass(slots=True, kw_only=True)
class ExplainedPartition:
    """`state_epoch` -1: it has no state; `start_offset` -1: not found yet.

    `first_available`: the lowest offset that might be given; `window_end` if none was given back. `holders`: those with
    the most records. `active_member`, `active_epoch`: see ShareActivate. `delayed_count` records are in back-off, the first
    of them for `delayed_first_ms` from now, the last for `delayed_last_ms`. `archiving_count` records from
    `archiving_first` on wait for their dead letters; `archiving_why`: why those could not be written; "": they are being
    written. In a group that keeps the order of each key: `key_members` fetch, `keys_waiting` records that were read are
    not given, `keys_read_to` follows the last one that was.
    """

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = UNKNOWN
    start_offset: int = UNKNOWN
    first_available: int = UNKNOWN
    window_end: int = UNKNOWN
    locked_count: int = 0
    complete_count: int = 0
    locks_max: int = 0
    active_member: str = ""
    active_epoch: int = UNKNOWN
    delayed_count: int = 0
    delayed_first_ms: int = 0
    delayed_last_ms: int = 0
    archiving_count: int = 0
    archiving_first: int = UNKNOWN
    archiving_why: str = ""
    holders: Sequence[LockHolder] = ()
    key_members: int = 0
    keys_waiting: int = 0
    keys_read_to: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class ShareExplainRequest:
    """Why is nothing delivered? For operators; changes nothing."""

    group_id: str = ""
    partitions: Sequence[NamedPartition] = ()


@dataclass(slots=True, kw_only=True)
class ShareExplainResponse:
    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[ExplainedPartition] = ()


def _format(message_class: type, *fields: FormatField) -> Format:
    return Format(message_class, _VERSION_MAX, flexible_from=0, fields=fields)


def _fields(kafka_type: str, *names: str) -> tuple[FormatField, ...]:
    return tuple(FormatField(name, kafka_type) for name in names)


def _many(name: str, message_class: type, *fields: FormatField) -> FormatField:
    return FormatField(name, entity=_format(message_class, *fields), is_array=True)


_ERROR: Final = (FormatField("error_code", "int16"), FormatField("error_message", "string", nullable_since=0))
_PARTITION: Final = (FormatField("topic_id", "uuid", default=NO_UUID), FormatField("partition", "int32"))
_RANGE: Final = _fields("int64", "first", "last")
_PROXY: Final = (FormatField("node_id", "int32"), *_fields("int64", "node_epoch", "session"))
_MEMBER: Final = _fields("string", "group_id", "member_id")
_GROUP: Final = FormatField("group_id", "string")
_NAMED: Final = _many("partitions", NamedPartition, *_PARTITION)
_DONE: Final = _many("partitions", StatePart, *_PARTITION, *_ERROR)

FORMATS: Final[dict[ApiKey, dict[str, Format]]] = {
    ApiKey.SHARE_ACQUIRE: {
        "request": _format(
            ShareAcquireRequest,
            *_MEMBER,
            *_PROXY,
            FormatField("mode", "int8"),
            _many(
                "partitions",
                AcquirePartition,
                *_PARTITION,
                *_fields("int32", "records_max", "batch_size"),
                *_fields("int64", "log_start_offset", "reset_offset"),
                _many("batches", OffsetRange, *_RANGE),
                _many("archive", OffsetRange, *_RANGE),
                FormatField("hash_offset", "int64", tag=0, default=UNKNOWN),
                FormatField("key_hashes", "bytes", tag=1, default=b""),
            ),
        ),
        "response": _format(
            ShareAcquireResponse,
            *_ERROR,
            _many(
                "partitions",
                AcquiredPartition,
                *_PARTITION,
                *_ERROR,
                *_fields("int64", "start_offset", "next_offset", "version"),
                FormatField("lock_timeout_ms", "int32"),
                _many("ranges", AcquiredRange, *_RANGE, FormatField("delivery_count", "int16")),
            ),
        ),
    },
    ApiKey.SHARE_ACKNOWLEDGE_STATE: {
        "request": _format(
            ShareAcknowledgeRequest,
            *_MEMBER,
            _many(
                "partitions",
                AcknowledgePartition,
                *_PARTITION,
                _many("batches", AcknowledgedBatch, *_RANGE, FormatField("types", "int8", is_array=True)),
            ),
        ),
        "response": _format(ShareAcknowledgeResponse, *_ERROR, _DONE),
    },
    ApiKey.SHARE_RELEASE: {
        "request": _format(ShareReleaseRequest, *_MEMBER, *_PROXY, FormatField("locked_before_ms", "int64"), _NAMED),
        "response": _format(ShareReleaseResponse, *_ERROR, _DONE),
    },
    ApiKey.SHARE_WAIT: {
        "request": _format(
            ShareWaitRequest,
            FormatField("max_wait_ms", "int32"),
            _many("partitions", WaitPartition, _GROUP, *_PARTITION, FormatField("version", "int64")),
        ),
        "response": _format(
            ShareWaitResponse,
            *_ERROR,
            _many(
                "partitions",
                AvailablePartition,
                _GROUP,
                *_PARTITION,
                FormatField("error_code", "int16"),
                FormatField("version", "int64"),
            ),
        ),
    },
    ApiKey.SHARE_INITIALIZE: {
        "request": _format(
            ShareInitializeRequest,
            _GROUP,
            FormatField("state_epoch", "int32"),
            _many("partitions", InitializePartition, *_PARTITION, FormatField("start_offset", "int64")),
        ),
        "response": _format(ShareInitializeResponse, *_ERROR, _DONE),
    },
    ApiKey.SHARE_SUMMARY: {
        "request": _format(ShareSummaryRequest, _GROUP, _NAMED),
        "response": _format(
            ShareSummaryResponse,
            *_ERROR,
            _many(
                "partitions",
                PartitionSummary,
                *_PARTITION,
                *_ERROR,
                FormatField("state_epoch", "int32"),
                FormatField("start_offset", "int64"),
                FormatField("complete_count", "int32"),
                FormatField("window_end", "int64"),
                FormatField("locked_count", "int32"),
            ),
        ),
    },
    ApiKey.SHARE_DELETE: {
        "request": _format(ShareDeleteRequest, _GROUP, _NAMED),
        "response": _format(ShareDeleteResponse, *_ERROR, _DONE),
    },
    ApiKey.SHARE_ACTIVATE: {
        "request": _format(
            ShareActivateRequest,
            _GROUP,
            FormatField("epoch", "int32"),
            _many("partitions", ActivePartition, *_PARTITION, FormatField("member_id", "string")),
        ),
        "response": _format(ShareActivateResponse, *_ERROR, _DONE),
    },
    ApiKey.SHARE_EXPLAIN: {
        "request": _format(ShareExplainRequest, _GROUP, _NAMED),
        "response": _format(
            ShareExplainResponse,
            *_ERROR,
            _many(
                "partitions",
                ExplainedPartition,
                *_PARTITION,
                *_ERROR,
                FormatField("state_epoch", "int32"),
                *_fields("int64", "start_offset", "first_available", "window_end"),
                *_fields("int32", "locked_count", "complete_count", "locks_max"),
                FormatField("active_member", "string"),
                FormatField("active_epoch", "int32"),
                FormatField("delayed_count", "int32"),
                *_fields("int64", "delayed_first_ms", "delayed_last_ms"),
                FormatField("archiving_count", "int32"),
                FormatField("archiving_first", "int64"),
                FormatField("archiving_why", "string"),
                _many(
                    "holders",
                    LockHolder,
                    FormatField("member_id", "string"),
                    FormatField("count", "int32"),
                    *_fields("int64", "first", "last", "left_ms"),
                ),
                FormatField("key_members", "int32", tag=0, default=0),
                FormatField("keys_waiting", "int32", tag=1, default=0),
                FormatField("keys_read_to", "int64", tag=2, default=UNKNOWN),
            ),
        ),
    },
}
