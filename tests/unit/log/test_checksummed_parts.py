"""The container of the small files: what goes in comes out, and any damage is found."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.checksummed_parts import (
    CorruptParts,
    UnfinishedParts,
    decode_int64s,
    decode_parts,
    encode_int64s,
    encode_parts,
)

pytestmark = pytest.mark.unit

MAGIC = b"MAGIC123"
PARTS = st.dictionaries(st.binary(min_size=4, max_size=4), st.binary(max_size=50), max_size=5)


@given(PARTS)
def test_round_trip(parts: dict[bytes, bytes]) -> None:
    decoded = decode_parts(MAGIC, encode_parts(MAGIC, parts), parts)
    assert {name: bytes(body) for name, body in decoded.items()} == parts


@given(PARTS, st.data())
def test_every_flipped_bit_is_found(parts: dict[bytes, bytes], data: st.DataObject) -> None:
    damaged = bytearray(encode_parts(MAGIC, parts))
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptParts):
        decode_parts(MAGIC, damaged, parts)


@given(PARTS, st.data())
def test_every_other_length_is_found(parts: dict[bytes, bytes], data: st.DataObject) -> None:
    whole = encode_parts(MAGIC, parts)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(UnfinishedParts):
        decode_parts(MAGIC, whole[:cut], parts)
    with pytest.raises(CorruptParts):
        decode_parts(MAGIC, whole + data.draw(st.binary(min_size=1, max_size=9)), parts)


@given(st.binary(max_size=200))
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptParts):
        decode_parts(MAGIC, data, ())
    with pytest.raises(CorruptParts):
        decode_parts(MAGIC, MAGIC + data, (b"none",))


def test_other_parts_and_another_magic_are_refused() -> None:
    data = encode_parts(MAGIC, {b"here": b"x"})
    with pytest.raises(CorruptParts, match="holds the parts"):
        decode_parts(MAGIC, data, (b"here", b"more"))
    with pytest.raises(CorruptParts, match="instead of"):
        decode_parts(b"OTHER123", data, (b"here",))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_tables_of_numbers(numbers: list[int]) -> None:
    table = array("q", numbers)
    body = encode_int64s(table)
    assert decode_int64s(body) == table
    assert body == b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
    with pytest.raises(CorruptParts):
        decode_int64s(body + b"1")
