"""File contents that betray a byte that is missing, doubled or out of place, and the verdict on a file that was closed.

Every eight bytes name their file and their own position, so any part can be made again without keeping what was sent.
"""

from __future__ import annotations

import sys
from array import array
from typing import Final

WORD_BYTES: Final = 8
_FILE_BITS: Final = 24
_POSITION_BITS: Final = 40


def content(file_number: int, position: int, length_bytes: int) -> bytes:
    """`length_bytes` of the endless content of a file, from `position` on."""
    first = position // WORD_BYTES
    last = -(-(position + length_bytes) // WORD_BYTES)
    if not 0 <= file_number < 1 << _FILE_BITS or last >= 1 << _POSITION_BITS:
        raise ValueError(f"file {file_number} or position {position} is out of range")
    base = file_number << _POSITION_BITS
    words = array("Q", range(base + first, base + last))
    if sys.byteorder == "little":
        words.byteswap()
    skipped = position - first * WORD_BYTES
    return words.tobytes()[skipped : skipped + length_bytes]


def problem(file_number: int, data: bytes | bytearray | memoryview, acknowledged_bytes: int) -> str | None:
    """What is wrong with a closed file of which so many bytes had been acknowledged to its writer; None when nothing is.

    More than was acknowledged may be there, but only what the writer sent next, once and in order.
    """
    if len(data) < acknowledged_bytes:
        return f"{acknowledged_bytes} bytes were acknowledged and the file was closed at {len(data)}"
    expected = content(file_number, 0, len(data))
    if data == expected:
        return None
    for position in range(0, len(data), WORD_BYTES):
        if data[position : position + WORD_BYTES] != expected[position : position + WORD_BYTES]:
            return f"the content differs at {position} of {len(data)} bytes, {acknowledged_bytes} were acknowledged"
    raise AssertionError("two buffers that differ have a first difference")
