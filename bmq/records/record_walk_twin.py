"""A record that lies in several parts of its body, read byte by byte: native/record_walk.h in Python."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from bmq.records.record_check import Result

MORE: Final = None
"""What a walk yields when it has taken all bytes of a part."""


class WalkedRecord(NamedTuple):
    """What a check needs of a record. `end`: behind it, in the last part that was sent."""

    end: int
    timestamp_delta: int
    offset_delta: int
    has_key: bool


class Unreadable(Exception):
    """A record that cannot be read, and why."""

    def __init__(self, result: Result) -> None:
        self.result = result


class _Part:
    """The bytes that are here. `left`: bytes of the record behind `place`, here or in later parts; None: not known yet."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data = data
        self.place = place
        self.left: int | None = None


Walk = Generator[None, bytes, WalkedRecord]
"""Yields when it needs the next part, which is sent; returns the record. Raises Unreadable."""


def walk_record(data: bytes, place: int) -> Walk:
    """Read the record that begins at `place` of this part."""
    part = _Part(data, place)
    length = yield from _varint(part, 32)
    if length < 0:
        raise Unreadable(Result.BAD_LENGTH)
    if length == 0:
        raise Unreadable(Result.BAD_VARINT)
    part.left = length
    try:
        yield from _passed(part, 1)
        timestamp_delta = yield from _varint(part, 64)
        offset_delta = yield from _varint(part, 32)
        has_key = yield from _field(part)
        yield from _field(part)
        header_count = yield from _varint(part, 32)
        if not 0 <= header_count <= part.left:
            raise Unreadable(Result.BAD_HEADERS)
        for _ in range(header_count):
            if not (yield from _field(part)):
                raise Unreadable(Result.BAD_HEADERS)
            yield from _field(part)
        if part.left:
            raise Unreadable(Result.LONGER)
    except Unreadable:
        # A record that its body cuts short is called cut short, whatever its fields are.
        yield from _passed(part, part.left)
        raise
    return WalkedRecord(part.place, timestamp_delta, offset_delta, has_key)


def _passed(part: _Part, count: int) -> Generator[None, bytes, None]:
    """Pass over so many bytes of the record."""
    assert part.left is not None
    while count:
        here = min(count, len(part.data) - part.place)
        part.place += here
        part.left -= here
        count -= here
        if count:
            part.data, part.place = (yield MORE), 0


def _field(part: _Part) -> Generator[None, bytes, bool]:
    """Pass over a field; whether it is not null."""
    length = yield from _varint(part, 32)
    assert part.left is not None
    if length < -1:
        raise Unreadable(Result.BAD_LENGTH)
    if length > part.left:
        raise Unreadable(Result.FIELD_TOO_LONG)
    yield from _passed(part, max(length, 0))
    return length >= 0


def _varint(part: _Part, bits: int) -> Generator[None, bytes, int]:
    value = shift = 0
    while True:
        if part.left == 0:
            raise Unreadable(Result.BAD_VARINT)
        while part.place == len(part.data):
            part.data, part.place = (yield MORE), 0
        byte = part.data[part.place]
        part.place += 1
        if part.left is not None:
            part.left -= 1
        value |= (byte & 127) << shift
        if value >> bits or (byte > 127 and shift + 7 >= bits):
            raise Unreadable(Result.BAD_VARINT)
        if byte < 128:
            return (value >> 1) ^ -(value & 1)
        shift += 7
