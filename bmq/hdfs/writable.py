"""Numbers in Hadoop's Writables (WritableUtils.readVLong): one byte, or a byte that says how many bytes follow. Pure."""

from __future__ import annotations

_ONE_BYTE_MIN = -112
_SIZE_MAX = 8


def read_vlong(data: bytes, position: int) -> tuple[int, int] | None:
    """(a number that is not negative, where it ends); None: it is negative, too long, or cut off."""
    if position >= len(data):
        return None
    first = data[position] - 256 if data[position] > 127 else data[position]
    if first >= 0:
        return first, position + 1
    size_bytes = _ONE_BYTE_MIN - first
    end = position + 1 + size_bytes
    if not 0 < size_bytes <= _SIZE_MAX or end > len(data):
        return None
    return int.from_bytes(data[position + 1 : end], "big"), end
