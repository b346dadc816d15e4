"""Fields of a record as bytes: key, value and headers, as the socket and the spool both write them. Pure.

All numbers are big-endian. A length of -1 is none. Key and value: i32 length, bytes. Headers: u16 count, then for each
u16 length of the name, the name in UTF-8, i32 length of the content, the content.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from bmq.protocol.errors import BmqError

Header = tuple[str, bytes | None]
Buffer = bytes | bytearray | memoryview

NO_HEADERS: Final = b"\x00\x00"
HEADERS_MAX: Final = 1_000
_I32: Final = struct.Struct(">i")
_U16: Final = struct.Struct(">H")


class BadFields(BmqError):
    """The bytes are no fields of a record; one sentence."""


def encoded_bytes(content: bytes | None) -> bytes:
    """A length of 4 bytes, and the bytes."""
    return b"\xff\xff\xff\xff" if content is None else _I32.pack(len(content)) + content


def encoded_headers(headers: Iterable[Header]) -> bytes:
    """Raises BadFields: too many, or a name that is too long; UnicodeEncodeError: a name that is no text."""
    parts = [b""]
    for name, content in headers:
        raw = name.encode("utf-8")
        if len(raw) > 0xFFFF:
            raise BadFields("the name of a header has more than 65,535 bytes")
        parts += (_U16.pack(len(raw)), raw, encoded_bytes(content))
    count = (len(parts) - 1) // 3
    if count > HEADERS_MAX:
        raise BadFields(f"a record has {count} headers, {HEADERS_MAX} are allowed")
    parts[0] = _U16.pack(count)
    return b"".join(parts)


def bytes_at(data: Buffer, offset: int, end: int) -> tuple[bytes | None, int]:
    """The bytes with their length before them, and the offset behind. Raises BadFields."""
    if offset + 4 > end:
        raise BadFields("a length is cut off")
    length = _I32.unpack_from(data, offset)[0]
    offset += 4
    if length == -1:
        return None, offset
    if length < 0 or offset + length > end:
        raise BadFields(f"a length of {length} is wrong: {end - offset} bytes are left")
    return bytes(data[offset : offset + length]), offset + length


def checked_headers(data: Buffer, offset: int, end: int) -> None:
    """Raises BadFields unless the headers fill the bytes from `offset` to `end`."""
    if offset + 2 == end and not data[offset] and not data[offset + 1]:
        return
    headers_at(data, offset, end)


def headers_at(data: Buffer, offset: int, end: int) -> list[Header]:
    """Headers that fill the bytes from `offset` to `end`. Raises BadFields."""
    if offset + 2 > end:
        raise BadFields("the count of headers is cut off")
    count = _U16.unpack_from(data, offset)[0]
    if count > HEADERS_MAX:
        raise BadFields(f"a record has {count} headers, {HEADERS_MAX} are allowed")
    offset += 2
    found: list[Header] = []
    for _ in range(count):
        if offset + 2 > end:
            raise BadFields("a header is cut off")
        length = _U16.unpack_from(data, offset)[0]
        offset += 2
        if offset + length > end:
            raise BadFields("the name of a header is cut off")
        try:
            name = str(data[offset : offset + length], "utf-8")
        except UnicodeDecodeError:
            raise BadFields("the name of a header is not UTF-8") from None
        content, offset = bytes_at(data, offset + length, end)
        found.append((name, content))
    if offset != end:
        raise BadFields(f"{end - offset} bytes stand behind the headers")
    return found
