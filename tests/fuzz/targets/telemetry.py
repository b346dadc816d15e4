"""Metrics that clients push: their compression, and the resources that get the client's attributes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from bmq.protocol.compression import BadCompressedData, Compression, compress, decompress
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.otlp_resources import ATTRIBUTED_BYTES_MAX, with_attributes
from tests.fuzz.mutation import changed
from tests.fuzz.target import Target

_ATTRIBUTES: Final = {"client_id": "é" * 20, "principal": "User:a", "broker_id": "1"}
_DECOMPRESSED_MAX: Final = 4 * 1024 * 1024


def check(data: bytes) -> bool:
    """The first byte says which codec."""
    if not data:
        return False
    codec = Compression(data[0] % len(Compression))
    try:
        pushed = decompress(codec, memoryview(data)[1:], _DECOMPRESSED_MAX)
        out = with_attributes(memoryview(pushed), _ATTRIBUTES)
        assert len(pushed) <= len(out) <= ATTRIBUTED_BYTES_MAX
        with_attributes(memoryview(out), {})
    except (BadCompressedData, MalformedMessage):
        return False
    return True


def seeds() -> Iterator[bytes]:
    attribute = b"\x0a\x01k\x12\x03\x0a\x01v"
    resource = b"\x0a" + bytes([len(attribute) + 2]) + b"\x0a" + bytes([len(attribute)]) + attribute
    scope = b"\x12\x04\x0a\x02\x0a\x00"
    one = b"\x0a" + bytes([len(resource + scope)]) + resource + scope
    for codec in Compression:
        for body in (b"", one, one * 3, b"\x0a\x00", b"\x10\x01" + one, b"\x11" + bytes(8) + b"\x15" + bytes(4) + one):
            if body or codec is Compression.NONE:
                yield bytes([codec]) + compress(codec, body)


def mutate(data: bytes, dice: Random) -> bytes:
    """A change under the compression."""
    if not data:
        return data
    codec = Compression(data[0] % len(Compression))
    try:
        body = bytes(decompress(codec, memoryview(data)[1:], 1 << 16))
    except BadCompressedData:
        return changed(data, dice)
    return bytes([codec]) + compress(codec, changed(body, dice))


TARGET: Final = Target("telemetry", seeds, check, ("bmq.protocol.otlp_resources", "bmq.protocol.compression"), mutate)
