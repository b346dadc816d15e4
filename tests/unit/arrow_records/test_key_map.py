"""The newest offset of each key, in a table of a size that was given."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.arrow_records import kernels
from bmq.arrow_records.batch_headers import scan
from bmq.arrow_records.bodies import Bodies, Rows, Scratch, open_bodies, walk
from bmq.arrow_records.key_map import LOAD_MAX, SLOT_BYTES, KeyMap, bytes_for, hashes_of, siphash
from bmq.protocol.record_batch import Record, encode_batch
from tests.unit.arrow_records.strategies import ORIGIN

pytestmark = pytest.mark.unit

SEED = bytes(range(16))
KEYS = st.binary(max_size=3) | st.binary(min_size=10, max_size=15) | st.binary(min_size=60, max_size=70)


def opened(keys: Sequence[bytes | None], base_offset: int) -> tuple[Bodies, Rows]:
    batch = encode_batch([Record(key, b"v") for key in keys], base_offset=base_offset)
    data = kernels.read_only(batch)
    found = scan(data, ORIGIN, 0, rows_max=1, bytes_max=1, batch_bytes_max=1 << 20)
    bodies = open_bodies(
        data,
        ORIGIN,
        found.places,
        found.headers,
        kernels.WANTS_KEY,
        bytes_max=1,
        batch_bytes_max=1 << 20,
        is_verified=True,
        scratch=Scratch(),
    )
    return bodies, walk(bodies, ORIGIN, kernels.WANTS_KEY)


def takes(keys: Sequence[bytes | None]) -> npt.NDArray[np.bool_]:
    return np.array([key is not None for key in keys], np.bool_)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_the_hash_is_that_of_the_reference_code(length: int, expected: str) -> None:
    """vectors_sip128 of SipHash's reference code: key and message are 00 01 02 …"""
    key0, key1 = np.frombuffer(SEED, "<u8").astype(np.uint64)
    message = kernels.read_only(bytes(range(16)))
    assert struct.pack("<QQ", *siphash(message, 0, length, key0, key1)).hex() == expected


@given(keys=st.lists(st.none() | KEYS, min_size=1, max_size=30), base_offset=st.integers(0, 2**40))
def test_only_the_newest_record_of_a_key_is_newest(keys: list[bytes | None], base_offset: int) -> None:
    bodies, rows = opened(keys, base_offset)
    map_of_keys = KeyMap(4_096, base_offset, SEED)
    assert map_of_keys.put(bodies.data, rows.key_views, takes(keys), rows.offsets) == len(keys)
    newest = map_of_keys.newest(bodies.data, rows.key_views, takes(keys), rows.offsets)
    expected = [key is not None and key not in keys[number + 1 :] for number, key in enumerate(keys)]
    assert newest.tolist() == expected
    assert len(map_of_keys) == len({key for key in keys if key is not None})


def test_records_before_the_noted_ones_are_outdated_unless_their_key_is_not_noted() -> None:
    bodies, rows = opened([b"a", b"a key that is long"], 100)
    map_of_keys = KeyMap(4_096, 100, SEED)
    map_of_keys.put(bodies.data, rows.key_views, takes([b"", b""]), rows.offsets)
    older = [b"a", b"b", b"a key that is long", b"a key that is lonG"]
    bodies, rows = opened(older, 3)
    newest = map_of_keys.newest(bodies.data, rows.key_views, takes(older), rows.offsets)
    assert newest.tolist() == [False, True, False, True]


@given(keys=st.lists(KEYS, min_size=1, max_size=40))
def test_a_full_map_says_how_far_it_came(keys: list[bytes]) -> None:
    room = 8
    map_of_keys = KeyMap(int(room / LOAD_MAX) * SLOT_BYTES, 0, SEED)
    bodies, rows = opened(keys, 0)
    came = map_of_keys.put(bodies.data, rows.key_views, takes(keys), rows.offsets)
    assert len(set(keys[:came])) == len(map_of_keys) <= room
    assert came == len(keys) or (keys[came] not in keys[:came] and len(map_of_keys) == room)
    newest = map_of_keys.newest(bodies.data, rows.key_views, rows.offsets < came, rows.offsets)
    expected = [number < came and key not in keys[number + 1 : came] for number, key in enumerate(keys)]
    assert newest.tolist() == expected


@given(count=st.integers(0, 300))
def test_a_map_of_the_size_for_its_keys_is_not_full(count: int) -> None:
    keys = [b"key %d" % number for number in range(count)] or [None]
    map_of_keys = KeyMap(bytes_for(count), 0, SEED)
    bodies, rows = opened(keys, 0)
    assert map_of_keys.put(bodies.data, rows.key_views, takes(keys), rows.offsets) == len(keys)


def test_offsets_too_far_apart_end_a_pass() -> None:
    map_of_keys = KeyMap(4_096, 0, SEED)
    bodies, rows = opened([b"a", b"b"], 0)
    far = np.array([0, 2**32], np.int64)
    assert map_of_keys.put(bodies.data, rows.key_views, takes([b"", b""]), far) == 1
    assert len(map_of_keys) == 1


@given(st.lists(st.none() | KEYS, min_size=1, max_size=40))
def test_a_map_of_hashes_answers_as_one_of_keys(keys: list[bytes | None]) -> None:
    """`hashes_of`, of which each keeps its newest offset, as a shuffle does."""
    bodies, rows = opened(keys, 100)
    takes = rows.key_nulls == 0
    whole = KeyMap(bytes_for(len(keys)), 100, SEED)
    assert whole.put(bodies.data, rows.key_views, takes, rows.offsets) == len(keys)
    first, second = hashes_of(bodies.data, rows.key_views, takes, SEED)
    newest = dict(zip(zip(first, second, strict=True), rows.offsets[takes], strict=True))
    by_hash = KeyMap(bytes_for(len(newest)), 100, SEED)
    by_hash.put_hashes(
        np.array([one for one, _ in newest], np.uint64),
        np.array([other for _, other in newest], np.uint64),
        np.array(list(newest.values()), np.int64),
    )
    assert len(by_hash) == len(whole)
    for asked in (whole, by_hash):
        found = asked.newest(bodies.data, rows.key_views, takes, rows.offsets)
        last = {key: number for number, key in enumerate(keys) if key is not None}
        assert found.tolist() == [key is not None and last[key] == number for number, key in enumerate(keys)]


def test_a_map_of_hashes_takes_no_more_than_it_has_room_for() -> None:
    keys = KeyMap(bytes_for(1), 100, SEED)
    one = np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match="out of reach"):
        keys.put_hashes(one, one, np.array([99], np.int64))
    many = np.arange(50, dtype=np.uint64)
    with pytest.raises(ValueError, match="do not fit"):
        keys.put_hashes(many, many, np.full(50, 100, np.int64))
