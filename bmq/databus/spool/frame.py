"""Frames of a spool's files: one record each, with a CRC32C. Pure.

A file begins with 24 bytes: `BMQSPOOL`, u16 version, six zeros, i64 number of its first record. A frame is u32 length of
its body, u32 CRC32C of the body, and the body: i64 number, i64 timestamp in milliseconds, u16 length of the topic, u8
length of the channel, both names, then key, value and headers as in record_fields. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from bmq.databus.record_fields import BadFields, Buffer, Header, bytes_at, encoded_bytes, headers_at
from bmq.dataclass import dataclass

MAGIC: Final = b"BMQSPOOL"
VERSION: Final = 1
_FILE: Final = struct.Struct(">8sH6xq")
FILE_HEADER_BYTES: Final = _FILE.size
_FRAME: Final = struct.Struct(">II")
_BODY: Final = struct.Struct(">qqHB")
FRAME_HEADER_BYTES: Final = _FRAME.size
BODY_BYTES_MIN: Final = _BODY.size + 4 + 4 + 2
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
"""More than a record of the largest size that a channel may allow. A longer length is damage."""


class SpooledRecord(NamedTuple):
    """A record that was accepted. `number`: rises within a spool, also over restarts. `frame`: as it stands there."""

    number: int
    timestamp_ms: int
    topic: str
    channel: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    frame: bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """What a file has. `end`: offset behind the last good frame. `last`: number of that record, -1: none.

    `is_cut`: the bytes behind `end` may be a write that did not end; `is_damaged`: they are something else.
    """

    end: int
    last: int
    count: int
    is_cut: bool = False
    is_damaged: bool = False


def file_header(first: int) -> bytes:
    """`first`: the number of the file's first record."""
    return _FILE.pack(MAGIC, VERSION, first)


def first_of_file(data: Buffer) -> int | None:
    """The number of its first record; None: the bytes do not begin a file of a spool of this version."""
    if len(data) < FILE_HEADER_BYTES:
        return None
    magic, version, first = _FILE.unpack_from(data)
    return first if magic == MAGIC and version == VERSION else None


def encoded_frame(number: int, timestamp_ms: int, topic: bytes, channel: bytes, fields: bytes) -> bytes:
    """`fields`: key, value and headers as in record_fields."""
    body = b"".join((_BODY.pack(number, timestamp_ms, len(topic), len(channel)), topic, channel, fields))
    return _FRAME.pack(len(body), crc32c(body)) + body


def body_bytes(topic: bytes, channel: bytes, fields: bytes) -> int:
    """Length of a frame's body; readers take BODY_BYTES_MAX."""
    return _BODY.size + len(topic) + len(channel) + len(fields)


def record_fields(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """Key, value and encoded headers, as a frame has them."""
    return encoded_bytes(key) + encoded_bytes(value) + headers


def frame_end(data: Buffer, offset: int, end: int) -> int | None:
    """The offset behind the frame at `offset`; None: its bytes are not all there, or it is none.

    The checksum is not looked at.
    """
    if offset + FRAME_HEADER_BYTES > end:
        return None
    length = _FRAME.unpack_from(data, offset)[0]
    behind = offset + FRAME_HEADER_BYTES + length
    return behind if BODY_BYTES_MIN <= length <= BODY_BYTES_MAX and behind <= end else None


def frame_bytes_wanted(data: Buffer, offset: int, end: int) -> int | None:
    """Size of the frame at `offset` by its header, which may be wrong; None: the header is cut or impossible."""
    if offset + FRAME_HEADER_BYTES > end:
        return None
    length = _FRAME.unpack_from(data, offset)[0]
    return FRAME_HEADER_BYTES + length if BODY_BYTES_MIN <= length <= BODY_BYTES_MAX else None


def number_of_frame(data: Buffer, offset: int) -> int:
    """The number of the record in the frame at `offset`."""
    number: int = struct.unpack_from(">q", data, offset + FRAME_HEADER_BYTES)[0]
    return number


def is_whole(data: Buffer, offset: int, end: int) -> bool:
    """Whether the frame from `offset` to `end` has its checksum."""
    wanted: int = _FRAME.unpack_from(data, offset)[1]
    return crc32c(memoryview(data)[offset + FRAME_HEADER_BYTES : end]) == wanted


def decoded_frame(data: Buffer, offset: int, end: int) -> SpooledRecord:
    """The record of a whole frame. Raises BadFields."""
    at = offset + FRAME_HEADER_BYTES
    number, timestamp_ms, topic_length, channel_length = _BODY.unpack_from(data, at)
    at += _BODY.size
    names = at + topic_length
    behind = names + channel_length
    if behind > end:
        raise BadFields("the names are cut off")
    topic, channel = str(data[at:names], "utf-8", "replace"), str(data[names:behind], "utf-8", "replace")
    key, at = bytes_at(data, behind, end)
    value, at = bytes_at(data, at, end)
    return SpooledRecord(
        number, timestamp_ms, topic, channel, key, value, headers_at(data, at, end), bytes(data[offset:end])
    )


def whole_frames(data: Buffer, offset: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of each good frame, up to the first that is not."""
    while (behind := frame_end(data, offset, end)) is not None and is_whole(data, offset, behind):
        yield offset, behind
        offset = behind


def records_of(frames: bytes) -> Iterator[SpooledRecord]:
    """The records of whole frames, one behind the other. Raises BadFields."""
    offset = 0
    while (behind := frame_end(frames, offset, len(frames))) is not None:
        yield decoded_frame(frames, offset, behind)
        offset = behind


def scan(data: Buffer) -> Scan:
    """A whole file, behind its header. Numbers have to rise."""
    offset, last, count = FILE_HEADER_BYTES, -1, 0
    for start, behind in whole_frames(data, offset, len(data)):
        number = number_of_frame(data, start)
        if number <= last:
            break
        offset, last, count = behind, number, count + 1
    if offset == len(data):
        return Scan(offset, last, count)
    # A write that did not end leaves a part of one frame. What lies behind a frame of its full length is damage.
    wanted = frame_bytes_wanted(data, offset, len(data))
    is_short = len(data) - offset < FRAME_HEADER_BYTES
    is_cut = is_short or (wanted is not None and offset + wanted >= len(data))
    return Scan(offset, last, count, is_cut=is_cut, is_damaged=not is_cut)
