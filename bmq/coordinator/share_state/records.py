"""Makes the records of a shard of share partitions, and the parts of its snapshots.."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from struct import Struct
from typing import Final

from bmq.coordinator.share_state.decisions import Given, Span
from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.coordinator.share_state.window import AVAILABLE, Window
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.share_state_records import LockedRecords, SnapshotKey, StateBatch, UpdateKey

_PART_HEADER: Final = Struct(">ii")  # bytes of the key, bytes of the value


@dataclass(slots=True)
class Holder:
    """A member's share session at an incarnation of a proxy."""

    member_id: str
    node_id: int
    node_epoch: int
    session: int


def update_key(key: PartitionKey) -> UpdateKey:
    return UpdateKey(group=key.group_id, topic_id=key.topic_id, partition=key.partition)


def snapshot_key(key: PartitionKey) -> SnapshotKey:
    return SnapshotKey(group=key.group_id, topic_id=key.topic_id, partition=key.partition)


def add_part(out: bytearray, key: bytes, value: bytes) -> None:
    """Append a record to a snapshot."""
    out += _PART_HEADER.pack(len(key), len(value))
    out += key
    out += value


def parts(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The records of a snapshot: end position, key, value. Raises MalformedMessage."""
    position = 0
    while position < len(data):
        try:
            key_bytes, value_bytes = _PART_HEADER.unpack_from(data, position)
        except struct.error as error:
            raise MalformedMessage("a snapshot of share partitions ends in the middle of a part") from error
        middle = position + _PART_HEADER.size + key_bytes
        end = middle + value_bytes
        if key_bytes < 0 or value_bytes < 0 or end > len(data):
            raise MalformedMessage("a snapshot of share partitions that does not parse")
        yield end, data[position + _PART_HEADER.size : middle], data[middle:end]
        position = end


def copied(partition: SharePartition) -> SharePartition:
    """As it is now, for a snapshot that is encoded later."""
    copied = copy(partition)
    if partition.window is not None:
        copied.window = partition.window.fork()
    return copied


def counted(given: Given) -> StateBatch:
    return StateBatch(
        first_offset=given.first, last_offset=given.last, delivery_state=AVAILABLE, delivery_count=given.delivery_count
    )


def locked(given: Given, holder: Holder, deadline_ms: int) -> LockedRecords:
    return LockedRecords(
        first_offset=given.first,
        last_offset=given.last,
        deadline_ms=deadline_ms,
        member_id=holder.member_id,
        node_id=holder.node_id,
        node_epoch=holder.node_epoch,
        session=holder.session,
    )


def renewed(window: Window, span: Span, deadline_ms: int) -> Iterator[LockedRecords]:
    """The same records, with a later deadline; each part stays with the session that acquired it."""
    for first, last, lock in window.locked_by(span.first, span.last):
        yield LockedRecords(
            first_offset=first,
            last_offset=last,
            deadline_ms=deadline_ms,
            member_id=lock.member_id,
            node_id=lock.node_id,
            node_epoch=lock.node_epoch,
            session=lock.session,
        )
