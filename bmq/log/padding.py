"""Zeros behind an append, so that the next append begins a new checksum chunk (rule 27). Pure.

A DataNode keeps a checksum for each chunk of a replica, and an append behind an unfinished chunk replaces that chunk's
checksum. If power fails while the new one is being written, bytes synced long ago no longer match it, and the DataNode
cuts the whole chunk off (BlockPoolSlice.validateIntegrityAndSetLength). So an append that must stay on disk ends where
a chunk ends.

Readers recognise padding without knowing the store's chunk size: a batch's length field would be zero there, which no
batch has, and padding extends to a multiple of UNIT_BYTES. It may be cut off anywhere.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from bmq.protocol.wire import Buffer

UNIT_BYTES: Final = 512
"""HDFS's default chunk size; chunk sizes are multiples of it."""
PADDING_BYTES_MIN: Final = 12  # a batch's base offset and length field
_LENGTH: Final = Struct(">8xi")


def padded_end(position: int, alignment_bytes: int) -> int:
    """Where the next append begins, after one that ended at `position`. `alignment_bytes`: 1, or a multiple of UNIT_BYTES."""
    missing = -position % alignment_bytes
    if 0 < missing < PADDING_BYTES_MIN:
        missing += alignment_bytes
    return position + missing


def padding_end(position: int) -> int:
    """The first position at which padding from `position` on may end; more padding may follow."""
    end = padded_end(position, UNIT_BYTES)
    return end if end > position else position + UNIT_BYTES


def is_padding(buffer: Buffer, place: int) -> bool:
    """Whether padding begins at `place`, behind a batch or other padding. False if the buffer has too few bytes to tell."""
    return len(buffer) - place >= PADDING_BYTES_MIN and not _LENGTH.unpack_from(buffer, place)[0]


def is_blank(buffer: Buffer) -> bool:
    """Whether all bytes are zero, as padding is."""
    content = bytes(buffer)
    return content.count(0) == len(content)
