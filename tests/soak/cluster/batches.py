"""Record batches as they come in answers to Fetch, taken apart without bmq's own codec: a mistake there must show. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

# Base offset, length, leader epoch, magic, checksum; attributes, last offset delta, two timestamps, producer id and
# epoch, base sequence, number of records.
_HEAD: Final = struct.Struct(">qiibI")
_REST: Final = struct.Struct(">hiqqqhii")
_LENGTH_FROM: Final = 12
_CODEC_MASK: Final = 0x07
_MAGIC: Final = 2


class Damaged(ValueError):
    """Bytes that are no record batch, or not the one that was written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Offsets [base_offset, end_offset), written under `leader_epoch`. `checksum` covers the records and their producer."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    checksum: int
    record_count: int
    body: bytes

    def records(self) -> Iterator[tuple[int, bytes]]:
        """(offset, value) of each record. Raises Damaged."""
        position = 0
        for _ in range(self.record_count):
            length, position = _varint(self.body, position)
            end = position + length
            _, at = _varint(self.body, position + 1)
            offset_delta, at = _varint(self.body, at)
            key_length, at = _varint(self.body, at)
            at += max(0, key_length)
            value_length, at = _varint(self.body, at)
            if length < 0 or value_length < 0 or at + value_length > len(self.body):
                raise Damaged(f"a record of the batch at offset {self.base_offset} ends behind it")
            yield self.base_offset + offset_delta, self.body[at : at + value_length]
            position = end


def batches_of(answer: bytes) -> Iterator[Batch]:
    """All whole batches; what is left behind the last one is the beginning of another. Raises Damaged."""
    position = 0
    while len(answer) - position >= _HEAD.size + _REST.size:
        base_offset, length, leader_epoch, magic, checksum = _HEAD.unpack_from(answer, position)
        end = position + _LENGTH_FROM + length
        if magic != _MAGIC or length < _HEAD.size + _REST.size - _LENGTH_FROM:
            raise Damaged(f"at offset {base_offset} there is a batch of {length} bytes with magic {magic}")
        if end > len(answer):
            return
        covered = answer[position + _HEAD.size : end]
        if crc32c.crc32c(covered) != checksum:
            raise Damaged(f"the batch at offset {base_offset} does not have its checksum")
        attributes, last_offset_delta, *_, record_count = _REST.unpack_from(covered)
        if attributes & _CODEC_MASK:
            raise Damaged(f"the batch at offset {base_offset} is compressed, which nobody asked for")
        yield Batch(
            base_offset,
            base_offset + last_offset_delta + 1,
            leader_epoch,
            checksum,
            record_count,
            covered[_REST.size :],
        )
        position = end


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """A signed varint (zigzag) and the position behind it. Raises Damaged."""
    value = shift = 0
    while True:
        if position >= len(body) or shift > 63:
            raise Damaged("a number ends behind its batch")
        byte = body[position]
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
