"""The newest offset of each key, in a table of a size that was given."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.compaction.key_map import LOAD_MAX, SLOT_BYTES, HashedKeys, KeyHashes, KeyMap, bytes_for
from bmq.log.batch_bodies import Scratch, open_bodies
from bmq.log.batch_scan import scan
from bmq.protocol.batch_records import Record, encode_batch
from bmq.records.batch_layout import WANTS_KEY, Bodies
from tests.unit.arrow_records.strategies import ORIGIN

pytestmark = pytest.mark.unit

SEED = bytes(range(16))
KEYS = st.binary(max_size=3) | st.binary(min_size=10, max_size=15) | st.binary(min_size=60, max_size=70)
ALL = 2**62
"""An offset behind all."""


def opened(keys: Sequence[bytes | None], base_offset: int) -> Bodies:
    batch = bytes(encode_batch([Record(key, b"v") for key in keys], base_offset=base_offset))
    found = scan(batch, ORIGIN, 0, rows_max=1, bytes_max=1, batch_bytes_max=1 << 20)
    return open_bodies(
        batch,
        ORIGIN,
        found.batches,
        WANTS_KEY,
        bytes_max=1,
        batch_bytes_max=1 << 20,
        is_verified=True,
        scratch=Scratch(),
    ).bodies


def newest(keys: KeyMap, bodies: Bodies, noted_offset: int = ALL) -> list[bool]:
    """Which records stay."""
    chosen = keys.choose_survivors(bodies, b"\0", noted_offset, 0)
    assert not chosen.status
    return [bool(one) for one in chosen.keep]


@given(keys=st.lists(st.none() | KEYS, min_size=1, max_size=30), base_offset=st.integers(0, 2**40))
def test_only_the_newest_record_of_a_key_is_newest(keys: list[bytes | None], base_offset: int) -> None:
    bodies = opened(keys, base_offset)
    map_of_keys = KeyMap(4_096, base_offset, SEED)
    assert map_of_keys.note(bodies, b"\0", 0).full_offset == -1
    expected = [key is not None and key not in keys[number + 1 :] for number, key in enumerate(keys)]
    assert newest(map_of_keys, bodies) == expected
    assert len(map_of_keys) == len({key for key in keys if key is not None})


def test_records_before_the_noted_ones_are_outdated_unless_their_key_is_not_noted() -> None:
    map_of_keys = KeyMap(4_096, 100, SEED)
    map_of_keys.note(opened([b"a", b"a key that is long"], 100), b"\0", 0)
    older = [b"a", b"b", b"a key that is long", b"a key that is lonG"]
    assert newest(map_of_keys, opened(older, 3)) == [False, True, False, True]


def test_batches_that_are_skipped_and_offsets_that_are_clean_do_not_count() -> None:
    map_of_keys = KeyMap(4_096, 100, SEED)
    bodies = opened([b"a", b"b"], 100)
    map_of_keys.note(bodies, b"\1", 0)
    assert len(map_of_keys) == 0
    map_of_keys.note(bodies, b"\0", 101)
    assert newest(map_of_keys, opened([b"a", b"b"], 3)) == [True, False]


@given(keys=st.lists(KEYS, min_size=1, max_size=40))
def test_a_full_map_says_how_far_it_came(keys: list[bytes]) -> None:
    room = 8
    map_of_keys = KeyMap(int(room / LOAD_MAX) * SLOT_BYTES, 0, SEED)
    bodies = opened(keys, 0)
    full_offset = map_of_keys.note(bodies, b"\0", 0).full_offset
    came = len(keys) if full_offset < 0 else full_offset
    assert len(set(keys[:came])) == len(map_of_keys) <= room
    assert came == len(keys) or (keys[came] not in keys[:came] and len(map_of_keys) == room)
    expected = [number >= came or key not in keys[number + 1 : came] for number, key in enumerate(keys)]
    assert newest(map_of_keys, bodies, came) == expected


@given(count=st.integers(0, 300))
def test_a_map_of_the_size_for_its_keys_is_not_full(count: int) -> None:
    keys = [b"key %d" % number for number in range(count)] or [None]  # type: ignore[list-item]
    map_of_keys = KeyMap(bytes_for(count), 0, SEED)
    assert map_of_keys.note(opened(keys, 0), b"\0", 0).full_offset == -1
    assert len(map_of_keys) == count


def test_offsets_too_far_apart_end_a_pass() -> None:
    map_of_keys = KeyMap(4_096, 0, SEED)
    assert map_of_keys.note(opened([b"a"], 2**32 - 2), b"\0", 0).full_offset == -1
    assert map_of_keys.note(opened([b"b"], 2**32 - 1), b"\0", 0).full_offset == 2**32 - 1
    assert len(map_of_keys) == 1


def hashes_of(bodies: Bodies) -> KeyHashes:
    hashed = HashedKeys(SEED)
    assert hashed.note(bodies, b"\0", 0).full_offset == -1
    return hashed.taken[0]


@given(st.lists(st.none() | KEYS, min_size=1, max_size=40))
def test_a_map_of_hashes_answers_as_one_of_keys(keys: list[bytes | None]) -> None:
    """What `HashedKeys` takes, of which each keeps its newest offset, as a shuffle does."""
    bodies = opened(keys, 100)
    whole = KeyMap(bytes_for(len(keys)), 100, SEED)
    whole.note(bodies, b"\0", 0)
    hashes = hashes_of(bodies)
    columns = (memoryview(column).tolist() for column in (hashes.first, hashes.second, hashes.offsets))
    last = {(first, second): offset for first, second, offset in zip(*columns, strict=True)}
    by_hash = KeyMap(bytes_for(len(last)), 100, SEED)
    by_hash.note_hashes(
        KeyHashes(
            memoryview(array("Q", [one for one, _ in last])),
            memoryview(array("Q", [other for _, other in last])),
            memoryview(array("q", last.values())),
        ),
        ALL,
    )
    assert len(by_hash) == len(whole)
    assert newest(by_hash, bodies) == newest(whole, bodies)


def test_of_a_shuffle_only_what_may_be_older_in_the_group_counts() -> None:
    """Newest offsets before the pass are left out; those behind the group are newer than all of it, however far away."""
    keys = KeyMap(bytes_for(3), 100, SEED)
    bodies = opened([b"a", b"b", b"c"], 100)
    hashes = hashes_of(bodies)
    keys.note_hashes(KeyHashes(hashes.first, hashes.second, memoryview(array("q", [99, 2**40, 102]))), 103)
    assert len(keys) == 2
    assert newest(keys, bodies) == [True, False, True]


def test_a_map_of_hashes_takes_no_more_than_it_has_room_for() -> None:
    keys = KeyMap(bytes_for(1), 100, SEED)
    hashes = hashes_of(opened([b"%d" % number for number in range(50)], 100))
    with pytest.raises(ValueError, match="do not fit"):
        keys.note_hashes(hashes, ALL)
    keys = KeyMap(bytes_for(1), 100, SEED)
    with pytest.raises(ValueError, match="out of reach"):
        keys.note_hashes(KeyHashes(hashes.first, hashes.second, memoryview(array("q", [2**40] * 50))), ALL)
