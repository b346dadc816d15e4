"""Offsets committed in transactions that are still open in one shard's log. Decisions only.

A pending offset is not visible. When the producer's transaction commits it becomes the committed offset, unless one
with a later place in the log is committed already; when it aborts it is dropped. A tombstone erases pending offsets
too. Keyed by (producer id, group, topic, partition). Source: KIP-98, Kafka's OffsetMetadataManager.

A transaction is open here from its first record to its marker, even when it has no pending offsets any more.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

_PRODUCER: Final = Struct(">qhi")  # producer id, producer epoch, number of offsets
_OFFSET: Final = Struct(">qii")  # record offset, bytes of the key, bytes of the value
_OVERTAKEN_BYTES: Final = -1  # replaces the value's length


class PendingOffset(NamedTuple):
    """`record_offset`: of its record in the log. `value` None: a later offset in the log is committed already."""

    record_offset: int
    value: OffsetCommitValue | None


class OpenTransaction(NamedTuple):
    """One producer's open transaction as snapshots keep it."""

    producer_id: int
    producer_epoch: int
    offsets: Mapping[OffsetCommitKey, PendingOffset]

    def encoded(self) -> tuple[bytes, bytes]:
        """(the producer, its offsets) as bytes."""
        data = bytearray()
        for key, pending in self.offsets.items():
            key_bytes = encode_key(key)
            value_bytes = b"" if pending.value is None else encode_value(pending.value)
            value_size = _OVERTAKEN_BYTES if pending.value is None else len(value_bytes)
            data += _OFFSET.pack(pending.record_offset, len(key_bytes), value_size)
            data += key_bytes
            data += value_bytes
        return _PRODUCER.pack(self.producer_id, self.producer_epoch, len(self.offsets)), bytes(data)

    @classmethod
    def decoded(cls, producer: bytes, data: bytes) -> OpenTransaction:
        """The inverse of `encoded`. Raises MalformedMessage."""
        try:
            producer_id, producer_epoch, count = _PRODUCER.unpack(producer)
            offsets = dict(_decoded(data, count))
        except struct_error as error:
            raise MalformedMessage("an open transaction of a group snapshot that does not parse") from error
        return cls(producer_id, producer_epoch, offsets)


def _decoded(data: bytes, count: int) -> Iterator[tuple[OffsetCommitKey, PendingOffset]]:
    """Raises struct.error, MalformedMessage."""
    place = 0
    for _ in range(count):
        record_offset, key_size, value_size = _OFFSET.unpack_from(data, place)
        middle = place + _OFFSET.size + key_size
        end = middle + max(0, value_size)
        if key_size < 0 or value_size < _OVERTAKEN_BYTES or end > len(data):
            raise MalformedMessage("a pending offset of a group snapshot that is cut short")
        key = decode_key(data[place + _OFFSET.size : middle])
        value = None if value_size == _OVERTAKEN_BYTES else decode_value(key, data[middle:end])
        if not isinstance(key, OffsetCommitKey) or not isinstance(value, OffsetCommitValue | None):
            raise MalformedMessage("a pending offset of a group snapshot that is none")
        yield key, PendingOffset(record_offset, value)
        place = end
    if place != len(data):
        raise MalformedMessage(f"{len(data) - place} bytes too many behind pending offsets")


class _Open:
    __slots__ = ("epoch", "offsets")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.offsets: dict[OffsetCommitKey, PendingOffset] = {}


class PendingOffsets:
    """The pending offsets of one shard. `count`: their number over all producers."""

    def __init__(self) -> None:
        self.count = 0
        self._open: dict[int, _Open] = {}
        self._producers: dict[str, dict[tuple[str, int], set[int]]] = {}  # group -> (topic, partition) -> producer ids

    # ---------------------------------------------------------------- the log, in its order

    def open(self, producer_id: int, producer_epoch: int) -> None:
        """The log has a record of this producer's transaction."""
        known = self._open.get(producer_id)
        if known is None:
            self._open[producer_id] = _Open(producer_epoch)
        else:
            known.epoch = producer_epoch

    def add(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue, record_offset: int) -> None:
        """Add an offset of an open transaction; it replaces the producer's earlier one for the partition."""
        self._keep(producer_id, key, PendingOffset(record_offset, value))

    def overtake(self, key: OffsetCommitKey) -> None:
        """Another offset was committed later in the log than all that are pending for this partition."""
        for producer_id in self._producers_of(key):
            offsets = self._open[producer_id].offsets
            offsets[key] = offsets[key]._replace(value=None)

    def erase(self, key: OffsetCommitKey) -> None:
        """Delete all pending offsets of the partition, whose offset was deleted."""
        for producer_id in list(self._producers_of(key)):
            self._drop(producer_id, key)

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """End the transaction and return what it commits. Other producers' earlier offsets are overtaken."""
        ended = self._open.get(producer_id)
        if ended is None:
            return []
        committed = []
        for key, (record_offset, value) in list(ended.offsets.items()):
            self._drop(producer_id, key)
            if not is_commit or value is None:
                continue
            committed.append((key, value))
            for other in self._producers_of(key):
                offsets = self._open[other].offsets
                if offsets[key].record_offset < record_offset:
                    offsets[key] = offsets[key]._replace(value=None)
        del self._open[producer_id]
        return committed

    # ---------------------------------------------------------------- what is pending

    def open_epoch(self, producer_id: int) -> int | None:
        """The epoch of the producer's open transaction; None: it has none here."""
        known = self._open.get(producer_id)
        return None if known is None else known.epoch

    def partitions_of(self, group_id: str) -> KeysView[tuple[str, int]]:
        """(topic, partition) of all the group's pending offsets."""
        return self._producers.get(group_id, {}).keys()

    def has_group(self, group_id: str) -> bool:
        return group_id in self._producers

    def group_ids(self) -> KeysView[str]:
        """All groups with pending offsets."""
        return self._producers.keys()

    # ---------------------------------------------------------------- snapshots

    def copied(self) -> list[OpenTransaction]:
        """A copy of all open transactions for a snapshot; later changes do not show in it."""
        return [
            OpenTransaction(producer_id, opened.epoch, dict(opened.offsets))
            for producer_id, opened in self._open.items()
        ]

    def restore(self, transaction: OpenTransaction) -> None:
        """Add a transaction from a snapshot. Raises MalformedMessage if its producer has one already."""
        if transaction.producer_id in self._open:
            raise MalformedMessage(f"a group snapshot that has the producer {transaction.producer_id} twice")
        self.open(transaction.producer_id, transaction.producer_epoch)
        for key, pending in transaction.offsets.items():
            self._keep(transaction.producer_id, key, pending)

    # ---------------------------------------------------------------- inside

    def _keep(self, producer_id: int, key: OffsetCommitKey, pending: PendingOffset) -> None:
        offsets = self._open[producer_id].offsets
        if key not in offsets:
            self.count += 1
            partitions = self._producers.setdefault(key.group, {})
            partitions.setdefault((key.topic, key.partition), set()).add(producer_id)
        offsets[key] = pending

    def _drop(self, producer_id: int, key: OffsetCommitKey) -> None:
        del self._open[producer_id].offsets[key]
        self.count -= 1
        partitions = self._producers[key.group]
        producers = partitions[key.topic, key.partition]
        producers.remove(producer_id)
        if not producers:
            del partitions[key.topic, key.partition]
            if not partitions:
                del self._producers[key.group]

    def _producers_of(self, key: OffsetCommitKey) -> set[int]:
        partitions = self._producers.get(key.group)
        return set() if partitions is None else partitions.get((key.topic, key.partition), set())
