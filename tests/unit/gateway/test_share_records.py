"""Records that a share fetch acquired, and acknowledgements as ranges."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, integers

from bmq.gateway.share_records import ACCEPT, GAP, REJECT, RELEASE, AckRange, acquired_records, as_ranges
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import CONTROL, CorruptRecords

pytestmark = pytest.mark.unit

BYTES_MAX = 1_000_000


def batch(base: int, *values: bytes, attributes: int = 0) -> bytes:
    records = [Record(b"key", value, (("h", None),), 5) for value in values]
    return bytes(encode_batch(records, base_offset=base, compression=Compression.ZSTD, attributes=attributes))


def test_only_what_was_acquired_is_delivered_and_other_offsets_are_gaps() -> None:
    data = batch(10, b"a", b"b", b"c") + batch(13, b"marker", attributes=CONTROL) + batch(14, b"d")
    found = acquired_records("t", 2, data, [(11, 13, 1), (14, 15, 4)], BYTES_MAX)
    assert [(one.offset, one.value, one.delivery_count) for one in found.records] == [
        (11, b"b", 1),
        (12, b"c", 1),
        (14, b"d", 4),
    ]
    assert found.records[0].place == ("t", 2)
    assert found.records[0].headers == (("h", None),)
    assert found.gaps == [13, 15]


def test_a_damaged_batch_is_not_delivered() -> None:
    data = bytearray(batch(0, b"a"))
    data[-1] ^= 1
    with pytest.raises(CorruptRecords):
        acquired_records("t", 0, bytes(data), [(0, 0, 1)], BYTES_MAX)


def test_neighbours_alike_are_one_range() -> None:
    kinds = [(3, ACCEPT), (1, ACCEPT), (2, ACCEPT), (4, REJECT), (6, REJECT), (7, GAP), (8, RELEASE)]
    assert as_ranges(kinds) == [
        AckRange(1, 3, ACCEPT),
        AckRange(4, 4, REJECT),
        AckRange(6, 6, REJECT),
        AckRange(7, 7, GAP),
        AckRange(8, 8, RELEASE),
    ]


@given(dictionaries(integers(0, 60), integers(0, 3)))
def test_ranges_say_the_same_as_the_offsets(kinds: dict[int, int]) -> None:
    ranges = as_ranges(kinds.items())
    assert {offset: one.kind for one in ranges for offset in range(one.first, one.last + 1)} == kinds
    assert all(one.last + 1 < two.first or one.kind != two.kind for one, two in pairwise(ranges))
