"""Keys of records: the kernel in C and its twin in Python give the same answers, and what both of them promise."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.batch_records import Record, encode_records
from bmq.records import keys_native, keys_twin
from bmq.records.key_layout import HASH_MAX, HASH_MIN, HASH_SHIFT, NO_KEY, NOBODY, SLOT_SHIFT, SLOTS, UNKNOWN, KeyWindow
from tests.unit.records.hostile_bodies import damaged
from tests.unit.records.key_cases import random_take, window

pytestmark = pytest.mark.unit

KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Of Kafka's UtilsTest.testMurmur2."""


def body(*keys: bytes | None) -> bytes:
    return bytes(encode_records([Record(key, b"value") for key in keys], 0))


@pytest.mark.parametrize("key", KAFKAS)
def test_the_hash_is_kafkas(key: bytes) -> None:
    hashed = keys_twin.murmur2(key)
    assert hashed - (1 << 32 if hashed >> 31 else 0) == KAFKAS[key]
    assert keys_native.key_hashes(body(key), 1, 0) == (0, array("H", [(hashed & 0x7FFFFFFF) >> HASH_SHIFT]))


def test_keys_of_one_partition_have_hashes_of_all_ranges() -> None:
    """The partitioner takes the remainder of the same number, which says much of its lower bits."""
    keys = [b"customer-%d" % number for number in range(80_000)]
    in_partition = [key for key in keys if (keys_twin.murmur2(key) & 0x7FFFFFFF) % 8 == 3]
    slots = {keys_twin.key_hash(key) >> SLOT_SHIFT for key in in_partition}
    assert len(slots) > 0.85 * SLOTS  # 91 percent of them are expected of 10,000 throws


def test_no_key_and_no_record_have_no_order() -> None:
    records = body(b"a", None, b"")
    for key_hashes in (keys_native.key_hashes, keys_twin.key_hashes):
        status, hashes = key_hashes(records, 3, 4)
        assert status == 0 and hashes[1] == NO_KEY and list(hashes[3:]) == [NO_KEY, NO_KEY]
        assert all(HASH_MIN <= hashes[at] <= HASH_MAX for at in (0, 2))


@given(
    st.lists(st.none() | st.binary(max_size=20), max_size=6).map(lambda keys: body(*keys)).flatmap(damaged),
    st.integers(-1, 8),
    st.integers(0, 8),
)
def test_the_same_hashes_of_any_bytes(data: bytes, record_count: int, last_delta: int) -> None:
    found = keys_native.key_hashes(data, record_count, last_delta)
    assert found == keys_twin.key_hashes(data, record_count, last_delta)


@pytest.mark.parametrize("last_delta", [-1, 1 << 31])
def test_an_impossible_last_delta_is_refused(last_delta: int) -> None:
    for key_hashes in (keys_native.key_hashes, keys_twin.key_hashes):
        with pytest.raises(ValueError, match="last offset delta"):
            key_hashes(b"", 0, last_delta)


def test_the_same_owners() -> None:
    dice = Random(4)
    for count in (1, 2, 7):
        seeds = [dice.getrandbits(64) for _ in range(count)]
        assert keys_native.own_slots(seeds) == keys_twin.own_slots(seeds)
    for own_slots in (keys_native.own_slots, keys_twin.own_slots):
        with pytest.raises(ValueError):
            own_slots([])


def test_ranges_are_spread_and_only_those_of_the_member_that_comes_or_goes_move() -> None:
    dice = Random(5)
    seeds = [dice.getrandbits(64) for _ in range(8)]
    before = [seeds[owner] for owner in keys_native.own_slots(seeds)]
    shares = [before.count(seed) for seed in seeds]
    assert min(shares) > 0.75 * SLOTS / 8 and max(shares) < 1.25 * SLOTS / 8
    after = [(seeds[:3] + seeds[4:])[owner] for owner in keys_native.own_slots(seeds[:3] + seeds[4:])]
    assert all(one == other for one, other in zip(before, after, strict=True) if one != seeds[3])
    assert seeds[3] not in after


def test_the_same_records_are_taken() -> None:
    dice = Random(6)
    for _ in range(5_000):
        _, case, limits = random_take(dice)
        assert keys_native.take_keys(case, *limits) == keys_twin.take_keys(case, *limits), (case, limits)


def test_contradictions_are_refused() -> None:
    short = window(b"\0\0", [1, 1], [0], [])
    with pytest.raises(ValueError):
        keys_native.take_keys(short, 0, 0, 2, 2)
    for take_keys in (keys_native.take_keys, keys_twin.take_keys):
        with pytest.raises(ValueError):
            take_keys(window(b"", [], [], []), -1, 0, 2, 2)


def taken(case: KeyWindow, records_max: int = 100, first: int = 0, end: int = 100) -> list[int]:
    found = keys_native.take_keys(case, 0, first, end, records_max)
    return [index for low, high in found.spans for index in range(low, high + 1)]


AVAILABLE, ACQUIRED, DONE, DELAYED, RESERVED = 0, 1, 2, 5, 0x80


@pytest.mark.parametrize(
    ("states", "hashes", "mine", "expected"),
    [
        ([ACQUIRED, AVAILABLE, AVAILABLE], [7, 7, 8], [], [2]),  # another member has the key
        ([ACQUIRED, AVAILABLE, AVAILABLE], [7, 7, 8], [1], [1, 2]),  # the member itself has it
        ([AVAILABLE, ACQUIRED], [7, 7], [], []),  # also behind it
        ([ACQUIRED | RESERVED, AVAILABLE], [7, 7], [1], []),  # it may be released
        ([RESERVED, AVAILABLE], [7, 7], [], []),  # it is being given
        ([DELAYED, AVAILABLE, AVAILABLE], [7, 7, 8], [], [2]),  # it waits for its back-off
        ([DONE, AVAILABLE], [7, 7], [], [1]),
        ([ACQUIRED, AVAILABLE], [NO_KEY, NO_KEY], [], [1]),  # no order
        ([ACQUIRED, AVAILABLE, AVAILABLE], [UNKNOWN, 7, NO_KEY], [], []),  # it stops in front of the first one
        ([AVAILABLE, ACQUIRED, AVAILABLE], [7, UNKNOWN, 8], [], []),  # it may be of the key
        ([AVAILABLE, AVAILABLE], [7, UNKNOWN], [], [0]),
    ],
)
def test_what_holds_a_key(states: list[int], hashes: list[int], mine: list[int], expected: list[int]) -> None:
    assert taken(window(bytes(states), hashes, [1] * len(states), mine)) == expected


def test_what_lies_in_front_of_the_read_is_given_first() -> None:
    case = window(b"", [7, 8, 7, 9], [], [])
    assert taken(case, first=1) == [1, 3]
    assert keys_native.take_keys(case, 0, 1, 4, 9).next_index == 0


def test_a_range_of_another_member_waits() -> None:
    owners = array("H", [0]) * SLOTS
    owners[700 >> SLOT_SHIFT] = 1
    case = window(b"", [700, 9, NO_KEY, 700], [], [], owners)
    found = keys_native.take_keys(case, 0, 0, 4, 9)
    assert (found.spans, found.waiting) == ([(0, 0), (2, 3)], 1)
    assert taken(case._replace(me=NOBODY)) == [2]


def test_a_fully_spread_window_is_taken_in_several_calls() -> None:
    states = bytes((AVAILABLE, DONE)) * 5_000
    case = window(states, [7] * 10_000, [0] * 10_000, [])
    for take_keys in (keys_native.take_keys, keys_twin.take_keys):
        found = take_keys(case, 0, 0, 10_000, 10_000)
        assert len(found.spans) == found.taken == 4_096
