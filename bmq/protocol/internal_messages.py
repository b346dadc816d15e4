"""Messages between nodes that Kafka does not have: metadata, reports, tails, hand-overs.

One request and one response class for each API key from 20,000 on, described in versions like Kafka's own. Version
ranges are in apis.py; two nodes speak the highest version both have (ApiVersions on the internal listener).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.apis import ApiKey
from bmq.protocol.formats import Format, FormatField
from bmq.protocol.lane_messages import FORMATS as LANE_FORMATS
from bmq.protocol.share_state_messages import FORMATS as SHARE_STATE_FORMATS
from bmq.protocol.transaction_decisions import FORMATS as TRANSACTION_FORMATS
from bmq.protocol.wire import Buffer

NO_UUID: Final = UUID(int=0)
VERSION_MAX: Final = 0


@dataclass(slots=True, kw_only=True)
class MetadataFetchRequest:
    """A node asks for the metadata log from `offset` on; -1: it has nothing, and wants all of it.

    `offset_epoch`: epoch of the controller it got that state from (-1: sent by older releases, which do not say).
    """

    node_id: int = -1
    controller_epoch: int = -1  # the highest the node has seen (rule 17)
    offset: int = -1
    max_wait_ms: int = 0
    bytes_max: int = 0
    offset_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class MetadataFetchResponse:
    """Whole record batches below the metadata log's high watermark, from the requested offset on.

    `is_snapshot`: `data` is the whole state instead (`MetadataState.snapshot`). `end_offset`: the receiver's offset
    after it. `seen_epoch`, `seen_offset`: how far the answering node itself has replayed, and of which epoch (rule 25).
    """

    error_code: int = 0
    error_message: str | None = None
    controller_id: int = -1
    controller_epoch: int = -1
    is_snapshot: bool = False
    end_offset: int = -1
    data: Buffer = b""
    seen_epoch: int = -1
    seen_offset: int = -1


@dataclass(slots=True, kw_only=True)
class PartitionReport:
    """`high_watermark` of an owned partition, and its traffic since the last report."""

    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0


@dataclass(slots=True, kw_only=True)
class QuotaUse:
    """What a proxy's clients used of a byte quota since the last report. `user`, `client_id`: its sharers."""

    key: str = ""
    user: str = ""
    client_id: str = ""
    used_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class QuotaShare:
    """The part of a quota that a proxy may give out from now on."""

    key: str = ""
    user: str = ""
    client_id: str = ""
    share: float = 1.0


class StoreState(IntEnum):
    """What a node knows of its way to the store. AWAY: no answer for long, or its partitions wait and none can write.
    ANSWERS: nothing was written lately. WRITABLE: bytes became durable lately."""

    UNKNOWN = 0
    AWAY = 1
    ANSWERS = 2
    WRITABLE = 3


@dataclass(slots=True, kw_only=True)
class ReportPartitionsRequest:
    """Owned partitions that changed since the last report that was answered (rule 5).

    `quota_uses`: of quotas that hold for the whole cluster. `store_state`: a StoreState. A controller of an earlier
    release skips both.
    """

    node_id: int = -1
    node_epoch: int = -1
    interval_ms: int = 0
    partitions: Sequence[PartitionReport] = ()
    quota_uses: Sequence[QuotaUse] = ()
    store_state: int = StoreState.UNKNOWN


@dataclass(slots=True, kw_only=True)
class ReportPartitionsResponse:
    """`is_writing_wanted`: another node cannot reach the store, so this one is to show whether it can write."""

    error_code: int = 0
    error_message: str | None = None
    quota_shares: Sequence[QuotaShare] = ()
    is_writing_wanted: bool = False


@dataclass(slots=True, kw_only=True)
class OwnedPartition:
    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class ReleasePartitionsRequest:
    """The new owner, at these leader epochs, asks the old one to drain, seal and release (rule 8)."""

    node_id: int = -1
    partitions: Sequence[OwnedPartition] = ()


@dataclass(slots=True, kw_only=True)
class ReleasePartitionsResponse:
    """Sent when all of them are released, or were not held at all."""

    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, kw_only=True)
class HearControllerRequest:
    """A candidate that does not hear the controller of this epoch asks whether another node does."""

    node_id: int = -1
    controller_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class HearControllerResponse:
    """`is_heard`: the controller has answered the asked node since it was asked."""

    error_code: int = 0
    error_message: str | None = None
    is_heard: bool = False


@dataclass(slots=True, kw_only=True)
class TailInterest:
    """A partition whose tail is wanted from `offset` on; -1: from the present high watermark on."""

    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    offset: int = -1


@dataclass(slots=True, kw_only=True)
class ForgottenTail:
    topic_id: UUID = NO_UUID
    partition: int = -1


@dataclass(slots=True, kw_only=True)
class TailFetchRequest:
    """`added` and `forgotten` change what this connection follows; answered on news, or after `max_wait_ms`."""

    max_wait_ms: int = 0
    bytes_max: int = 0
    added: Sequence[TailInterest] = ()
    forgotten: Sequence[ForgottenTail] = ()


@dataclass(slots=True, kw_only=True)
class EpochStart:
    leader_epoch: int = -1
    start_offset: int = -1


@dataclass(slots=True, kw_only=True)
class TailPart:
    """A partition's state at its owner, and the whole batches below its high watermark that follow those sent before.

    `base_offset`: of the first batch in `records`; if there is a gap after the batches sent before, read it from the
    store. `epochs` is set when the partition was added. A partition with an error code is no longer followed.
    `aborted`: the transactions (bmq.log.aborted_transactions) whose abort marker lies below the high watermark and was
    not sent before; those with a marker below `aborted_from_offset` were too many and are left out (-1: none was).
    `compacted_offset`: below it the log was compacted; -1: nowhere, or an older release does not say.
    """

    topic_id: UUID = NO_UUID
    partition: int = -1
    error_code: int = 0
    leader_epoch: int = -1
    log_start_offset: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_end_offset: int = -1
    base_offset: int = -1
    records: Buffer = b""
    epochs: Sequence[EpochStart] = ()
    aborted: Buffer = b""
    aborted_from_offset: int = -1
    compacted_offset: int = -1


@dataclass(slots=True, kw_only=True)
class TailFetchResponse:
    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[TailPart] = ()


@dataclass(slots=True, kw_only=True)
class LocateOffsetRequest:
    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    offset: int = -1


@dataclass(slots=True, kw_only=True)
class LocateOffsetResponse:
    """The fields of bmq.log.partition_log.Location. `compacted_offset`: below it the log was compacted; -1: nowhere."""

    error_code: int = 0
    error_message: str | None = None
    path: str = ""
    file_id: int = -1
    position: int = -1
    valid_bytes: int = -1
    base_offset: int = -1
    end_offset: int = -1
    is_closed: bool = False
    compacted_offset: int = -1


@dataclass(slots=True, kw_only=True)
class ProveOwnershipRequest:
    """`known_offset`: asks for aborted transactions whose marker lies there or behind; -1: for none.

    `is_glance`: nothing is proved, and an idle partition is not started; only the high watermark is answered. Older nodes
    prove all the same.
    """

    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    known_offset: int = -1
    is_glance: bool = False


@dataclass(slots=True, kw_only=True)
class ProveOwnershipResponse:
    """The owner's offsets, taken after the proof (rule 15). `epochs`: all it knows. `aborted…`: as in TailPart."""

    error_code: int = 0
    error_message: str | None = None
    log_start_offset: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_end_offset: int = -1
    epochs: Sequence[EpochStart] = ()
    aborted: Buffer = b""
    aborted_from_offset: int = -1


@dataclass(slots=True, kw_only=True)
class FindAbortedRequest:
    """Asks for aborted transactions that overlap [from_offset, to_offset), up to the last stable offset at most."""

    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    from_offset: int = -1
    to_offset: int = -1


@dataclass(slots=True, kw_only=True)
class AbortedRange:
    producer_id: int = -1
    first_offset: int = -1


@dataclass(slots=True, kw_only=True)
class FindAbortedResponse:
    error_code: int = 0
    error_message: str | None = None
    aborted: Sequence[AbortedRange] = ()


@dataclass(slots=True, kw_only=True)
class FindTimestampRequest:
    """`timestamp_ms` -3: the greatest timestamp (KIP-734)."""

    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    timestamp_ms: int = -1
    bound_offset: int = -1


@dataclass(slots=True, kw_only=True)
class FindTimestampResponse:
    """-1 and -1: no such record."""

    error_code: int = 0
    error_message: str | None = None
    offset: int = -1
    timestamp_ms: int = -1


@dataclass(slots=True, kw_only=True)
class ListDelayedRequest:
    """Records of a partition that wait behind (due time, offset) in their order."""

    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    after_due_ms: int = -1
    after_offset: int = -1
    limit: int = 0


@dataclass(slots=True, kw_only=True)
class DelayedRecord:
    due_ms: int = -1
    offset: int = -1


@dataclass(slots=True, kw_only=True)
class ListDelayedResponse:
    """`count`: of all that wait; `next_due_ms`: of the first of them, -1: none waits."""

    error_code: int = 0
    error_message: str | None = None
    count: int = 0
    next_due_ms: int = -1
    records: Sequence[DelayedRecord] = ()


@dataclass(slots=True, kw_only=True)
class DeleteBeforeRequest:
    """-1: up to the high watermark."""

    topic_id: UUID = NO_UUID
    partition: int = -1
    leader_epoch: int = -1
    before_offset: int = -1


@dataclass(slots=True, kw_only=True)
class DeleteBeforeResponse:
    error_code: int = 0
    error_message: str | None = None
    log_start_offset: int = -1


def _format(message_class: type, *fields: FormatField) -> Format:
    return Format(message_class, VERSION_MAX, flexible_from=0, fields=fields)


def _error() -> tuple[FormatField, FormatField]:
    return FormatField("error_code", "int16"), FormatField("error_message", "string", nullable_since=0)


def _partition() -> tuple[FormatField, FormatField]:
    return FormatField("topic_id", "uuid", default=NO_UUID), FormatField("partition", "int32")


def _owned() -> tuple[FormatField, ...]:
    return (*_partition(), FormatField("leader_epoch", "int32"))


def _int64(*names: str) -> tuple[FormatField, ...]:
    return tuple(FormatField(name, "int64") for name in names)


def _many(name: str, entity: Format) -> FormatField:
    return FormatField(name, entity=entity, is_array=True)


def _bucket() -> tuple[FormatField, ...]:
    return tuple(FormatField(name, "string") for name in ("key", "user", "client_id"))


_EPOCH_START: Final = _format(EpochStart, FormatField("leader_epoch", "int32"), FormatField("start_offset", "int64"))
_ABORTED: Final = (
    FormatField("aborted", "bytes", tag=0, default=b""),
    FormatField("aborted_from_offset", "int64", tag=1, default=-1),
)
_OFFSETS: Final = ("log_start_offset", "high_watermark", "last_stable_offset", "log_end_offset")

FORMATS: Final[dict[ApiKey, dict[str, Format]]] = {
    ApiKey.METADATA_FETCH: {
        "request": _format(
            MetadataFetchRequest,
            FormatField("node_id", "int32"),
            FormatField("controller_epoch", "int32"),
            FormatField("offset", "int64"),
            FormatField("max_wait_ms", "int32"),
            FormatField("bytes_max", "int32"),
            FormatField("offset_epoch", "int32", tag=0, default=-1),
        ),
        "response": _format(
            MetadataFetchResponse,
            *_error(),
            FormatField("controller_id", "int32"),
            FormatField("controller_epoch", "int32"),
            FormatField("is_snapshot", "bool"),
            FormatField("end_offset", "int64"),
            FormatField("data", "bytes"),
            FormatField("seen_epoch", "int32", tag=0, default=-1),
            FormatField("seen_offset", "int64", tag=1, default=-1),
        ),
    },
    ApiKey.REPORT_PARTITIONS: {
        "request": _format(
            ReportPartitionsRequest,
            FormatField("node_id", "int32"),
            FormatField("node_epoch", "int64"),
            FormatField("interval_ms", "int32"),
            _many(
                "partitions",
                _format(PartitionReport, *_owned(), *_int64("high_watermark", "bytes_in", "bytes_out", "requests")),
            ),
            FormatField(
                "quota_uses",
                entity=_format(QuotaUse, *_bucket(), *_int64("used_bytes")),
                is_array=True,
                tag=0,
                default=(),
            ),
            FormatField("store_state", "int8", tag=1, default=StoreState.UNKNOWN),
        ),
        "response": _format(
            ReportPartitionsResponse,
            *_error(),
            FormatField(
                "quota_shares",
                entity=_format(QuotaShare, *_bucket(), FormatField("share", "float64")),
                is_array=True,
                tag=0,
                default=(),
            ),
            FormatField("is_writing_wanted", "bool", tag=1, default=False),
        ),
    },
    ApiKey.RELEASE_PARTITIONS: {
        "request": _format(
            ReleasePartitionsRequest,
            FormatField("node_id", "int32"),
            _many("partitions", _format(OwnedPartition, *_owned())),
        ),
        "response": _format(ReleasePartitionsResponse, *_error()),
    },
    ApiKey.HEAR_CONTROLLER: {
        "request": _format(
            HearControllerRequest, FormatField("node_id", "int32"), FormatField("controller_epoch", "int32")
        ),
        "response": _format(HearControllerResponse, *_error(), FormatField("is_heard", "bool")),
    },
    ApiKey.TAIL_FETCH: {
        "request": _format(
            TailFetchRequest,
            FormatField("max_wait_ms", "int32"),
            FormatField("bytes_max", "int32"),
            _many("added", _format(TailInterest, *_owned(), *_int64("offset"))),
            _many("forgotten", _format(ForgottenTail, *_partition())),
        ),
        "response": _format(
            TailFetchResponse,
            *_error(),
            _many(
                "partitions",
                _format(
                    TailPart,
                    *_partition(),
                    FormatField("error_code", "int16"),
                    FormatField("leader_epoch", "int32"),
                    *_int64(*_OFFSETS, "base_offset"),
                    FormatField("records", "bytes"),
                    _many("epochs", _EPOCH_START),
                    *_ABORTED,
                    FormatField("compacted_offset", "int64", tag=2, default=-1),
                ),
            ),
        ),
    },
    ApiKey.LOCATE_OFFSET: {
        "request": _format(LocateOffsetRequest, *_owned(), *_int64("offset")),
        "response": _format(
            LocateOffsetResponse,
            *_error(),
            FormatField("path", "string"),
            *_int64("file_id", "position", "valid_bytes", "base_offset", "end_offset"),
            FormatField("is_closed", "bool"),
            FormatField("compacted_offset", "int64", tag=0, default=-1),
        ),
    },
    ApiKey.PROVE_OWNERSHIP: {
        "request": _format(
            ProveOwnershipRequest,
            *_owned(),
            FormatField("known_offset", "int64", tag=0, default=-1),
            FormatField("is_glance", "bool", tag=1, default=False),
        ),
        "response": _format(
            ProveOwnershipResponse, *_error(), *_int64(*_OFFSETS), _many("epochs", _EPOCH_START), *_ABORTED
        ),
    },
    ApiKey.FIND_ABORTED: {
        "request": _format(FindAbortedRequest, *_owned(), *_int64("from_offset", "to_offset")),
        "response": _format(
            FindAbortedResponse,
            *_error(),
            _many("aborted", _format(AbortedRange, *_int64("producer_id", "first_offset"))),
        ),
    },
    ApiKey.FIND_TIMESTAMP: {
        "request": _format(FindTimestampRequest, *_owned(), *_int64("timestamp_ms", "bound_offset")),
        "response": _format(FindTimestampResponse, *_error(), *_int64("offset", "timestamp_ms")),
    },
    ApiKey.LIST_DELAYED: {
        "request": _format(
            ListDelayedRequest, *_owned(), *_int64("after_due_ms", "after_offset"), FormatField("limit", "int32")
        ),
        "response": _format(
            ListDelayedResponse,
            *_error(),
            *_int64("count", "next_due_ms"),
            _many("records", _format(DelayedRecord, *_int64("due_ms", "offset"))),
        ),
    },
    ApiKey.DELETE_BEFORE: {
        "request": _format(DeleteBeforeRequest, *_owned(), *_int64("before_offset")),
        "response": _format(DeleteBeforeResponse, *_error(), *_int64("log_start_offset")),
    },
    **SHARE_STATE_FORMATS,
    **LANE_FORMATS,
    **TRANSACTION_FORMATS,
}
