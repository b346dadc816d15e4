"""A group's offsets in one topic as columns of bytes, as snapshots keep them; loaded ones stay packed until used. Pure.

Unpacking columns costs a tenth of decoding one record per offset. After a failover a shard answers for one group before
it has unpacked the offsets of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from struct import Struct, pack, unpack_from
from struct import error as struct_error
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import OffsetCommitValue

_NUMBER: Final = Struct(">i")
_ROW_BYTES: Final = 32  # partition, offset, leader epoch, two timestamps; in columns
_COLUMNS: Final = "{0}i{0}q{0}i{0}q{0}q"
_TOPIC_ID_BYTES: Final = 16
_NO_TOPIC_ID: Final = bytes(_TOPIC_ID_BYTES)
_TOPIC_IDS_MAX: Final = 4_096

committed_of = partial(
    tuple.__new__, OffsetCommitValue
)  # from the fields in order, at half the cost of calling the class


class TopicOffsets(NamedTuple):
    """A group's committed offsets in a topic, by partition; never empty."""

    group: str
    topic: str
    committed: Mapping[int, OffsetCommitValue]

    @property
    def offset_count(self) -> int:
        return len(self.committed)

    def packed(self) -> PackedOffsets:
        """The same offsets as bytes."""
        count = len(self.committed)
        offsets, epochs, metadata, committed_ms, expire_ms, topic_ids = zip(*self.committed.values(), strict=True)
        data = bytearray(
            pack(
                ">i" + _COLUMNS.format(count),
                count,
                *self.committed.keys(),
                *offsets,
                *epochs,
                *committed_ms,
                *expire_ms,
            )
        )
        # Most offsets of a topic share one (metadata, topic id): each pair is stored once and referred to by number.
        shared = list(zip(metadata, topic_ids, strict=True))
        kinds = {kind: number for number, kind in enumerate(dict.fromkeys(shared))}
        data += _NUMBER.pack(len(kinds))
        for text, topic_id in kinds:
            data += encode_text(text)
            data += topic_id.bytes if topic_id else _NO_TOPIC_ID
        if len(kinds) > 1:
            data += pack(f">{count}i", *map(kinds.__getitem__, shared))
        return PackedOffsets(self.group, self.topic, bytes(data))


class PackedOffsets(NamedTuple):
    """The same offsets as TopicOffsets, not decoded yet."""

    group: str
    topic: str
    data: bytes

    @property
    def offset_count(self) -> int:
        """Raises MalformedMessage when the data is too short for the count."""
        if len(self.data) < 2 * _NUMBER.size:
            raise MalformedMessage(f"offsets in {len(self.data)} bytes")
        count: int = _NUMBER.unpack_from(self.data)[0]
        if not 0 < count <= (len(self.data) - 2 * _NUMBER.size) // _ROW_BYTES:
            raise MalformedMessage(f"{count} offsets in {len(self.data)} bytes")
        return count

    def unpacked(self) -> dict[int, OffsetCommitValue]:
        """By partition. Raises MalformedMessage."""
        try:
            return self._unpacked(self.offset_count)
        except (struct_error, ValueError) as error:
            raise MalformedMessage("offsets of a group snapshot that do not parse") from error

    def _unpacked(self, count: int) -> dict[int, OffsetCommitValue]:
        """Raises struct.error, ValueError."""
        data = self.data
        columns = unpack_from(">" + _COLUMNS.format(count), data, _NUMBER.size)
        partitions, offsets, epochs, committed_ms, expire_ms = (columns[n * count : (n + 1) * count] for n in range(5))
        place = _NUMBER.size + count * _ROW_BYTES
        (kind_count,) = _NUMBER.unpack_from(data, place)
        place += _NUMBER.size
        texts: list[str] = []
        ids: list[UUID | None] = []
        for _ in range(kind_count):
            text, place = decode_text(data, place)
            texts.append(text)
            ids.append(_topic_id(data[place : place + _TOPIC_ID_BYTES]))
            place += _TOPIC_ID_BYTES
        kinds: Sequence[int] = (0,) * count
        if kind_count > 1:
            kinds = unpack_from(f">{count}i", data, place)
            place += count * _NUMBER.size
        if not 0 <= min(kinds) <= max(kinds) < kind_count:
            raise ValueError("an offset of no kind")
        if place != len(data):
            raise ValueError(f"{len(data) - place} bytes too many")
        metadata, topic_ids = map(texts.__getitem__, kinds), map(ids.__getitem__, kinds)
        rows = zip(offsets, epochs, metadata, committed_ms, expire_ms, topic_ids, strict=True)
        return dict(zip(partitions, map(committed_of, rows), strict=True))


def encode_text(text: str) -> bytes:
    data = text.encode()
    return _NUMBER.pack(len(data)) + data


def decode_text(data: bytes, place: int) -> tuple[str, int]:
    """The text at `place`, and where it ends. Raises struct.error, ValueError."""
    (length,) = _NUMBER.unpack_from(data, place)
    start = place + _NUMBER.size
    if not 0 <= length <= len(data) - start:
        raise ValueError(f"a text of {length} bytes")
    return data[start : start + length].decode(), start + length


@lru_cache(maxsize=_TOPIC_IDS_MAX)
def _topic_id(data: bytes) -> UUID | None:
    """Raises ValueError."""
    return None if data == _NO_TOPIC_ID else UUID(bytes=data)
