"""Compressed bytes of each codec: opened at once, in parts and by the log's reader, within a bound of memory."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from bmq.protocol.compression import BadCompressedData, Compression, compress, decompress
from bmq.records.body_opening import BodyTooLong, open_body
from bmq.records.body_parts import body_parts
from tests.conformance.broken_batches import CODECS, ways
from tests.fuzz.mutation import changed
from tests.fuzz.target import Target

OPENED_BYTES_MAX: Final = 8 * 1024 * 1024
_PARTS_MAX: Final = 10_000
_target: Final = memoryview(bytearray(OPENED_BYTES_MAX))


def check(data: bytes) -> bool:
    """The first byte says which codec."""
    if not data:
        return False
    codec, body = _codec(data), memoryview(data)[1:]
    try:
        decompress(codec, body, OPENED_BYTES_MAX)
    except BadCompressedData:
        pass
    try:
        opened: bytes | None = bytes(_target[: open_body(codec, body, _target)])
    except BodyTooLong:
        return False
    except BadCompressedData:
        opened = None
    joined = _joined(codec, body)
    if codec is not Compression.GZIP or opened is not None:
        assert joined == opened, "in parts it is another body"
    return opened is not None


def _codec(data: bytes) -> Compression:
    return Compression(1 + data[0] % (len(Compression) - 1))


def _joined(codec: Compression, body: memoryview) -> bytes | None:
    out = bytearray()
    try:
        for number, part in enumerate(body_parts(codec, body)):
            out += part
            if len(out) > OPENED_BYTES_MAX or number > _PARTS_MAX:
                return None
    except BadCompressedData:
        return None
    return bytes(out)


def seeds() -> Iterator[bytes]:
    for codec in range(1, len(CODECS)):
        for _, broken in ways(codec, 1_700_000_000_000):
            yield bytes([codec - 1]) + broken[61:]
        for size in (0, 1, 1000, 300_000):
            yield bytes([codec - 1]) + compress(Compression(codec), b"bmq" * size)[:4000]


def mutate(data: bytes, dice: Random) -> bytes:
    """Fresh bytes, compressed; or a change of what is inside."""
    head = dice.randbytes(1)
    body = (dice.choice((b"\0", b"ab", data[1:])) * dice.randint(0, 2000))[: 1 << 16]
    out = head + compress(_codec(head), body)
    return changed(out, dice) if dice.randrange(3) else out


TARGET: Final = Target("compressed_bodies", seeds, check, ("bmq.protocol.compression", "bmq.records"), mutate)
