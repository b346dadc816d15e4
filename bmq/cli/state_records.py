"""Records of internal topics as names and values that JSON can hold.

What each means: bmq/protocol's group_records, consumer_group_records, streams_group_records, share_group_records,
share_state_records, transaction_records and metadata_records, which have Kafka's formats. Bytes within a record are
{"base64": …}.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from bmq.coordinator.offsets.offset_columns import PackedOffsets
from bmq.coordinator.offsets.pending_offsets import OpenTransaction
from bmq.coordinator.share_state.snapshots import parts as share_state_parts
from bmq.coordinator.snapshot import decode_snapshot
from bmq.coordinator.transactions.transaction_shard import snapshot_parts
from bmq.metadata.image import (
    METADATA_TOPIC_NAME,
    OFFSETS_TOPIC_NAME,
    SHARE_STATE_TOPIC_NAME,
    TRANSACTIONS_TOPIC_NAME,
)
from bmq.protocol import (
    consumer_group_records,
    group_records,
    share_group_records,
    share_state_records,
    streams_group_records,
    transaction_records,
)
from bmq.protocol.batch_records import decode_records
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import decode_record
from bmq.protocol.record_batch import batches
from bmq.protocol.record_types import prefix_of

STATE_TOPICS: Final = frozenset(
    {OFFSETS_TOPIC_NAME, TRANSACTIONS_TOPIC_NAME, METADATA_TOPIC_NAME, SHARE_STATE_TOPIC_NAME}
)
_OWNERS: Final[Mapping[Any, str]] = {
    consumer_group_records.RECORD_TYPES: "Consumer",
    streams_group_records.RECORD_TYPES: "Streams",
    share_group_records.RECORD_TYPES: "Share",
}
_DELIVERY_STATES: Final = {0: "AVAILABLE", 2: "ACKNOWLEDGED", 3: "ARCHIVING", 4: "ARCHIVED"}
_STATUSES: Final = {status.value for status in transaction_records.TransactionStatus}
_UNKNOWN: Final = "Unknown"


class StateRecord(NamedTuple):
    """`kind`: what the record is about. `value` None: a tombstone, which deletes what the key names."""

    kind: str
    key: Any
    value: Any


def decode_state_record(topic: str, key: bytes | None, value: bytes | None) -> StateRecord:
    """A record of one of STATE_TOPICS; `Unknown`, with its bytes, when it does not parse or is of a newer release."""
    try:
        match topic:
            case "__consumer_offsets":
                return _group_record(key or b"", value)
            case "__transaction_state":
                return _transaction_record(key or b"", value)
            case "__share_group_state":
                return _share_state_record(key or b"", value)
            case _:
                record = decode_record(value or b"")
                return StateRecord(type(record).__name__.removesuffix("Record"), None, plain(record))
    except BmqError as error:
        return StateRecord(f"{_UNKNOWN} ({error})", plain(key), plain(value))


def snapshot_records(topic: str, data: bytes) -> Iterator[StateRecord]:
    """What a state machine's snapshot holds, offsets one by one. Raises BmqError for bytes that are none."""
    match topic:
        case "__consumer_offsets":
            yield from _group_snapshot(data)
        case "__transaction_state":
            for key, value in snapshot_parts(data):
                yield decode_state_record(topic, key, value)
        case "__share_group_state":
            for _, key, value in share_state_parts(data):
                yield decode_state_record(topic, key, value)
        case _:
            for position, _ in batches(data):
                for record in decode_records(data, position):
                    yield decode_state_record(topic, record.key, record.value)


def plain(value: Any) -> Any:
    """Records, ids, enumerations and bytes as objects, strings, names and base64."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    match value:
        case Enum():
            return value.name
        case UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return {"base64": base64.b64encode(value).decode()}
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case Sequence() if not isinstance(value, str):
            return [plain(each) for each in value]
    return value


def _group_record(key: bytes, value: bytes | None) -> StateRecord:
    key_type = prefix_of(key)
    for types, owner in _OWNERS.items():
        if types.has(key_type):
            decoded: Any = types.decode_key(key)
            found: Any = types.decode_value(decoded, value)
            kind = f"{owner}Group{type(decoded).__name__.removesuffix('Key')}"
            return StateRecord(kind, plain(decoded), plain(found))
    named = group_records.decode_key(key)
    if isinstance(named, group_records.UnknownKey):
        return StateRecord(f"{_UNKNOWN} (key type {named.key_type})", plain(key), plain(value))
    kind = type(named).__name__.removesuffix("Key")
    return StateRecord(kind, plain(named), plain(group_records.decode_value(named, value)))


def _transaction_record(key: bytes, value: bytes | None) -> StateRecord:
    named = transaction_records.decode_key(key)
    if isinstance(named, transaction_records.UnknownKey):
        return StateRecord(f"{_UNKNOWN} (key version {named.version})", plain(key), plain(value))
    decoded = plain(transaction_records.decode_value(value))
    if decoded is not None and decoded["status"] in _STATUSES:
        decoded["status"] = transaction_records.TransactionStatus(decoded["status"]).name
    return StateRecord("Transaction", plain(named), decoded)


def _share_state_record(key: bytes, value: bytes | None) -> StateRecord:
    types = share_state_records.RECORD_TYPES
    key_type = prefix_of(key)
    if not types.has(key_type):
        return StateRecord(f"{_UNKNOWN} (key type {key_type})", plain(key), plain(value))
    named = types.decode_key(key)
    decoded = plain(types.decode_value(named, value))
    for batch in () if decoded is None else decoded["state_batches"]:
        batch["delivery_state"] = _DELIVERY_STATES.get(batch["delivery_state"], batch["delivery_state"])
    return StateRecord(f"Share{type(named).__name__.removesuffix('Key')}", plain(named), decoded)


def _group_snapshot(data: bytes) -> Iterator[StateRecord]:
    for part in decode_snapshot(data):
        match part:
            case PackedOffsets():
                for partition, committed in part.unpacked().items():
                    key = group_records.OffsetCommitKey(part.group, part.topic, partition)
                    yield StateRecord("OffsetCommit", plain(key), plain(committed))
            case OpenTransaction():
                owner = {"producer_id": part.producer_id, "producer_epoch": part.producer_epoch}
                pending = [{**plain(key), "pending": plain(each)} for key, each in part.offsets.items()]
                yield StateRecord("OpenTransaction", owner, {"offsets": pending})
            case key_bytes, value_bytes:
                yield decode_state_record(OFFSETS_TOPIC_NAME, key_bytes, value_bytes)
