"""The format of all small files of the log: a container of named parts, each with its own checksum. Pure.

    magic (8 bytes)  part count (u32)  [name (4 bytes)  length (u32)  crc32c (u32)] x count  crc32c of all that (u32)
    the parts, back to back, in the same order, and nothing behind them

Integers are little-endian. A part's checksum covers its bytes; the head's covers the names and lengths, so that any
flipped bit and any missing or added byte is found. Tables of numbers are arrays of int64.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from crc32c import crc32c

from bmq.log.store import Buffer, CorruptFile

PART_COUNT_MAX: Final = 32
PART_BYTES_MAX: Final = 2**32 - 1  # of the length field
CONTAINER_BYTES_MAX: Final = PART_COUNT_MAX * (PART_BYTES_MAX + 1)
"""The longest possible container."""

_PREFIX: Final = Struct("<8sI")
_ENTRY: Final = Struct("<4sII")
_CRC: Final = Struct("<I")
_IS_SWAPPED: Final = sys.byteorder == "big"


class CorruptParts(CorruptFile):
    """Bytes that are not a whole, unchanged container."""


class UnfinishedParts(CorruptParts):
    """The beginning of a container whose writer never finished it.

    A store never shortens a file that its writer has closed, so this file was never reported as written.
    """


def encode_parts(magic: bytes, parts: Mapping[bytes, Buffer]) -> bytes:
    """Encode a container. `magic` has 8 bytes, each part's name 4."""
    head = bytearray(_PREFIX.pack(magic, len(parts)))
    for name, body in parts.items():
        head += _ENTRY.pack(name, len(body), crc32c(body))
    head += _CRC.pack(crc32c(head))
    return b"".join((head, *parts.values()))


def decode_parts(
    magic: bytes, data: Buffer, names: Iterable[bytes], error: type[CorruptParts] = CorruptParts
) -> dict[bytes, memoryview]:
    """The parts by name, as views of `data`. Raises `error` for damage, and if the parts are not exactly `names`.

    Raises UnfinishedParts if the data is correct but ends too early.
    """
    view = memoryview(data)
    names = frozenset(names)
    if len(view) < _PREFIX.size:
        if _PREFIX.pack(magic, len(names)).startswith(view):
            raise UnfinishedParts(f"{len(view)} bytes are only a beginning")
        raise error(f"{len(view)} bytes are too few")
    found_magic, count = _PREFIX.unpack_from(view)
    if found_magic != magic:
        raise error(f"it starts with {found_magic!r} instead of {magic!r}")
    head_bytes = _PREFIX.size + count * _ENTRY.size
    if count == len(names) and len(view) < head_bytes + _CRC.size:
        raise UnfinishedParts(f"{len(view)} bytes are only a beginning")
    if count > PART_COUNT_MAX or len(view) < head_bytes + _CRC.size:
        raise error(f"{len(view)} bytes are too few for {count} parts")
    if _CRC.unpack_from(view, head_bytes)[0] != crc32c(view[:head_bytes]):
        raise error("the head's checksum does not match")
    parts: dict[bytes, memoryview] = {}
    position = head_bytes + _CRC.size
    for number in range(count):
        name, length, crc = _ENTRY.unpack_from(view, _PREFIX.size + number * _ENTRY.size)
        body = view[position : position + length]
        position += length
        if len(body) != length:
            raise UnfinishedParts(f"the file ends within part {name!r}")
        if crc32c(body) != crc:
            raise error(f"the checksum of part {name!r} does not match")
        parts[name] = body
    if position != len(view):
        raise error(f"{len(view) - position} bytes are left behind the last part")
    if parts.keys() != names or len(parts) != count:
        raise error(f"it holds the parts {sorted(parts)}")
    return parts


def encode_int64s(numbers: array[int]) -> bytes:
    """The bytes of a table of int64. `numbers` has type code q."""
    if _IS_SWAPPED:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def decode_int64s(body: Buffer, error: type[CorruptParts] = CorruptParts) -> array[int]:
    if len(body) % 8:
        raise error(f"a table of {len(body)} bytes is not a whole number of int64")
    numbers = array("q")
    numbers.frombytes(body)
    if _IS_SWAPPED:
        numbers.byteswap()
    return numbers
