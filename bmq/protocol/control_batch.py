"""Control batches: the markers that end transactions (KIP-98: EndTransactionMarker, ControlRecordType), and keys of our own."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import (
    Buffer,
)
from bmq.protocol.record_batch import CONTROL, NO_LEADER_EPOCH, TRANSACTIONAL, CorruptRecords

_INT16_PAIR: Final = Struct(">hh")
_END_MARKER_VALUE: Final = Struct(">hi")
_OWN_KEY_VERSION: Final = 1


class ControlType(IntEnum):
    """Kind of a control record (Kafka's ControlRecordType), in the second int16 of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class OwnControlType(IntEnum):
    """Kind of a control record of ours, in the second int16 of its key. All are here, so that no two have one number."""

    HELD_RECORDS = 100
    DELIVERY = 101
    HALF_MESSAGES = 102
    SKIPPED_OFFSETS = 103
    """In answers alone; no log has it."""


class EndTransactionMarker(NamedTuple):
    """The content of the control record that ends a transaction. `control_type` is COMMIT or ABORT."""

    control_type: ControlType
    coordinator_epoch: int


def encode_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch with one marker that WriteTxnMarkers appends (MemoryRecords.withEndTransactionMarker)."""
    key = _INT16_PAIR.pack(0, marker.control_type)
    value = _END_MARKER_VALUE.pack(0, marker.coordinator_epoch)
    return encode_batch(
        (Record(key, value, timestamp_ms=timestamp_ms),),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def own_control_key(control_type: OwnControlType) -> bytes:
    """The key of a control record of ours, which clients skip. Read its type by `own_control_type`.

    The version is one that clients do not know. librdkafka (2.16, `rd_kafka_op_handle_std`) puts a record of version 0 and any
    type between the messages that the application has not had yet. A consumer that is closed before it has had them throws
    them away, takes the place behind the control record for its position, and commits that: the messages are lost to its group.
    """
    return _INT16_PAIR.pack(_OWN_KEY_VERSION, control_type)


def own_control_type(key: bytes | None) -> OwnControlType | None:
    """The type in a control record's key, of whatever version: earlier releases wrote 0. None: it is not one of ours."""
    if key is None or len(key) != _INT16_PAIR.size:
        return None
    number: int = _INT16_PAIR.unpack(key)[1]
    return OwnControlType(number) if number in OwnControlType._value2member_map_ else None


def control_type_of(record: Record) -> ControlType | None:
    """The kind of a control batch's record; None for one this version does not know. Raises CorruptRecords."""
    if record.key is None or len(record.key) < _INT16_PAIR.size:
        raise CorruptRecords("a control record without a whole key")
    version, number = _INT16_PAIR.unpack_from(record.key)
    if version < 0:
        raise CorruptRecords(f"a control record with key version {version}")
    return ControlType(number) if number in ControlType._value2member_map_ else None


def parse_end_transaction_marker(batch: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """The marker in the control batch at `position`; None when it is another kind of control batch.

    Raises CorruptRecords. A newer value version parses as the one known here, as Kafka does.
    """
    records = decode_records(batch, position)
    if not records:
        return None
    control_type = control_type_of(records[0])
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    value = records[0].value
    if value is None or len(value) < _END_MARKER_VALUE.size:
        raise CorruptRecords("an end-of-transaction marker without a whole value")
    version, coordinator_epoch = _END_MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecords(f"an end-of-transaction marker with value version {version}")
    return EndTransactionMarker(control_type, coordinator_epoch)
