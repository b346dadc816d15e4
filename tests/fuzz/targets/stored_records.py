"""Records of the state logs: metadata records, which the controller streams to nodes, and the coordinators' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from bmq.coordinator.offsets.offset_columns import PackedOffsets
from bmq.coordinator.snapshot import decode_snapshot
from bmq.protocol import consumer_group_records, group_records, metadata_records, streams_group_records
from bmq.protocol import transaction_records as transactions
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.formats import Format
from bmq.protocol.record_types import RecordTypes
from tests.fuzz.mutation import changed
from tests.fuzz.random_messages import changed_message, random_message
from tests.fuzz.target import Target

_METADATA, _GROUP, _CONSUMER, _STREAMS, _TRANSACTION, _SNAPSHOT = range(6)
_METADATA_FORMATS: Final = metadata_records._FORMATS
_NEWER: Final[dict[int, RecordTypes[Any, Any]]] = {
    _CONSUMER: consumer_group_records.RECORD_TYPES,
    _STREAMS: streams_group_records.RECORD_TYPES,
}


def check(data: bytes) -> bool:
    """The first byte says which kind; where there are a key and a value, the second one is the length of the key."""
    if len(data) < 2:
        return False
    kind, body = data[0] % 6, data[1:]
    try:
        if kind == _METADATA:
            return _is_kept(metadata_records.decode_record(body))
        if kind == _SNAPSHOT:
            for part in decode_snapshot(body):
                if isinstance(part, PackedOffsets):
                    part.unpacked()
            return True
        key_bytes, value_bytes = body[1 : 1 + body[0]], body[1 + body[0] :]
        if kind in _NEWER:
            records = _NEWER[kind]
            key = records.decode_key(key_bytes)
            return records.decode_value(key, value_bytes) is not None
        if kind == _TRANSACTION:
            transactions.decode_key(key_bytes)
            return transactions.decode_value(value_bytes) is not None
        return group_records.decode_value(group_records.decode_key(key_bytes), value_bytes) is not None
    except (MalformedMessage, UnsupportedVersion):
        return False


def _is_kept(record: metadata_records.MetadataRecord) -> bool:
    """In the newest version, which has the fields of all."""
    again = metadata_records.decode_record(metadata_records.encode_record(record))
    assert repr(again) == repr(record), "it is not kept"
    return True


def seeds() -> Iterator[bytes]:
    dice = Random(3)
    for record_format in _METADATA_FORMATS.values():
        entity = record_format.entity(record_format.version_max)
        yield bytes([_METADATA]) + metadata_records.encode_record(random_message(entity, dice))
    for kind, records in _NEWER.items():
        for key_format, value_format in records.formats.values():
            if value_format is not None:
                key = records.encode_key(_short(key_format, dice))
                yield _pair(kind, key, records.encode_value(_short(value_format, dice)))
    group = group_records.encode_key(group_records.GroupMetadataKey(group="g"))
    value = group_records.GroupMetadataValue(protocol_type="consumer", members=())
    yield _pair(_GROUP, group, group_records.encode_value(value))
    committed = group_records.OffsetCommitKey("g", "t", 1)
    for version in range(5):
        value_bytes = group_records.encode_value(group_records.OffsetCommitValue(7, 1, "m", 5, 9, None), version)
        yield _pair(_GROUP, group_records.encode_key(committed), value_bytes)
    transaction = transactions.encode_key(transactions.TransactionKey(transactional_id="x"))
    for version in (0, 1):
        yield _pair(_TRANSACTION, transaction, transactions.encode_value(_transaction(dice), version))
    yield bytes([_SNAPSHOT]) + _snapshot_part(0, group, b"\0\3") + _snapshot_part(1, _offset_names(), _offsets())


def mutate(data: bytes, dice: Random) -> bytes:
    """A field of a metadata record drawn anew, or another record; others are changed blindly."""
    if len(data) < 2 or data[0] % 6 != _METADATA:
        return changed(data, dice)
    try:
        record = metadata_records.decode_record(data[1:])
    except (MalformedMessage, UnsupportedVersion):
        record_format = dice.choice(list(_METADATA_FORMATS.values()))
        record = random_message(record_format.entity(record_format.version_max), dice)
    record_format = next(each for each in _METADATA_FORMATS.values() if each.message_class is type(record))
    record = changed_message(record_format.entity(record_format.version_max), record, dice)
    out = bytes([_METADATA]) + metadata_records.encode_record(record)
    return changed(out, dice) if dice.randrange(2) else out


def _short(record_format: Format, dice: Random) -> Any:
    """Keys have to be shorter than 256 bytes here."""
    return random_message(record_format.entity(record_format.version_max), dice)


def _transaction(dice: Random) -> transactions.TransactionValue:
    value: transactions.TransactionValue = random_message(transactions._VALUE.entity(1), dice)
    return replace(value, status=transactions.TransactionStatus(dice.randrange(6)))


def _pair(kind: int, key: bytes, value: bytes) -> bytes:
    return bytes([kind, len(key)]) + key + value if len(key) < 256 else bytes([kind, 0]) + value


def _snapshot_part(kind: int, first: bytes, second: bytes) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in (kind, len(first), len(second))) + first + second


def _offset_names() -> bytes:
    return b"\0\0\0\1g\0\0\0\1t"


def _offsets() -> bytes:
    count = 1
    return count.to_bytes(4, "big") + bytes(32) + count.to_bytes(4, "big") + bytes(4) + bytes(16)


TARGET: Final = Target(
    "stored_records",
    seeds,
    check,
    ("bmq.protocol", "bmq.coordinator.snapshot", "bmq.coordinator.offsets"),
    mutate,
)
