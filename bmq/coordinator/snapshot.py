"""A shard's state as bytes: a sequence of parts, each after a header that names its kind.

A record part is a record as in the log: groups of all protocols. An offsets part has all of a group's offsets in one
topic as columns (offset_columns.py). A transaction part has an open transaction with its pending offsets
(pending_offsets.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, Protocol

from bmq.coordinator.offsets.offset_columns import PackedOffsets, TopicOffsets, decode_text, encode_text
from bmq.coordinator.offsets.pending_offsets import OpenTransaction
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import GroupMetadataKey, GroupMetadataValue, encode_key, encode_value

_HEADER: Final = Struct(">iii")  # kind, bytes of the first half, bytes of the second
_RECORD: Final = 0  # key, value
_OFFSETS: Final = 1  # group and topic, columns
_TRANSACTION: Final = 2  # producer, pending offsets
_OFFSETS_PER_TURN_MAX: Final = 5_000
_PART_OFFSETS: Final = 20
"""Cost of a part besides its offsets, in offsets."""


class SavedGroup(Protocol):
    """A group of a new protocol (KIP-848, KIP-1071)."""

    def encoded_records(self) -> Iterator[tuple[bytes, bytes]]:
        """Records that restore the group."""


class ShardState(NamedTuple):
    """The durable state at one moment; immutable."""

    groups: Sequence[tuple[str, GroupMetadataValue]]
    offsets: Sequence[TopicOffsets | PackedOffsets]
    transactions: Sequence[OpenTransaction] = ()
    new_groups: Sequence[SavedGroup] = ()


async def encode_snapshot(state: ShardState) -> bytes:
    """The state as bytes; yields to the event loop so that a large state does not block it."""
    out = bytearray()
    done = 0
    for group_id, value in state.groups:
        _append(out, _RECORD, encode_key(GroupMetadataKey(group=group_id)), encode_value(value))
        done = await _turn(done + _PART_OFFSETS)
    for group in state.new_groups:
        for key, record in group.encoded_records():
            _append(out, _RECORD, key, record)
            done = await _turn(done + _PART_OFFSETS)
    for part in state.offsets:
        packed = part if isinstance(part, PackedOffsets) else part.packed()
        _append(out, _OFFSETS, encode_text(part.group) + encode_text(part.topic), packed.data)
        done = await _turn(done + _PART_OFFSETS + (0 if packed is part else part.offset_count))
    for transaction in state.transactions:
        _append(out, _TRANSACTION, *transaction.encoded())
        done = await _turn(done + _PART_OFFSETS + len(transaction.offsets))
    return bytes(out)


def _append(out: bytearray, kind: int, first: bytes, second: bytes) -> None:
    out += _HEADER.pack(kind, len(first), len(second))
    out += first
    out += second


async def _turn(done: int) -> int:
    if done < _OFFSETS_PER_TURN_MAX:
        return done
    await asyncio.sleep(0)
    return 0


def decode_snapshot(data: bytes) -> Iterator[tuple[bytes, bytes] | PackedOffsets | OpenTransaction]:
    """Encoded records, offsets, and open transactions. Raises MalformedMessage."""
    position = 0
    while position < len(data):
        try:
            kind, first_bytes, second_bytes = _HEADER.unpack_from(data, position)
        except struct_error as error:
            raise MalformedMessage("a group snapshot ends in the middle of a part") from error
        start = position + _HEADER.size
        middle = start + first_bytes
        position = middle + second_bytes
        if first_bytes < 0 or second_bytes < 0 or position > len(data):
            raise MalformedMessage("a group snapshot that does not parse")
        if kind == _RECORD:
            yield data[start:middle], data[middle:position]
        elif kind == _OFFSETS:
            yield PackedOffsets(*_names(data[start:middle]), data[middle:position])
        elif kind == _TRANSACTION:
            yield OpenTransaction.decoded(data[start:middle], data[middle:position])
        else:
            raise MalformedMessage(f"a group snapshot with a part of unknown kind {kind}")


def _names(data: bytes) -> tuple[str, str]:
    try:
        group, place = decode_text(data, 0)
        topic, place = decode_text(data, place)
    except (struct_error, ValueError) as error:
        raise MalformedMessage("names in a group snapshot that do not parse") from error
    return group, topic
