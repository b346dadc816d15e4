"""Changes of bytes that know no format."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

_TELLING_BYTES: Final = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
_TELLING_NUMBERS: Final = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x00\x00\x00\x00\x00\x00\x00",
)
INPUT_BYTES_MAX: Final = 4096


def changed(data: bytes, dice: Random, others: Sequence[bytes] = ()) -> bytes:
    """`data` with a few changes; some take a piece of one of the `others`."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(out) + 1)
        match dice.randrange(7):
            case 0 if place < len(out):
                out[place] ^= 1 << dice.randrange(8)
            case 1 if place < len(out):
                out[place] = dice.choice(_TELLING_BYTES)
            case 2:
                del out[place : place + dice.randint(1, 9)]
            case 3:
                out[place:place] = dice.randbytes(dice.randint(1, 9))
            case 4:
                number = dice.choice(_TELLING_NUMBERS)
                out[place : place + len(number)] = number
            case 5 if others:
                other = dice.choice(others)
                begin = dice.randrange(len(other) + 1)
                out[place:place] = other[begin : begin + dice.randint(1, 60)]
            case _:
                del out[place:]
    return bytes(out[:INPUT_BYTES_MAX])
