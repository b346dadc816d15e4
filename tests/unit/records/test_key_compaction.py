"""Compaction's loops: the kernel in C and its twin in Python give the same answers, whatever the bytes say."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.records import key_compaction_native as native
from bmq.records import key_compaction_twin as twin
from bmq.records.batch_layout import BATCH, SLOT, Bodies, KeyTable
from tests.unit.records.hostile_bodies import bodies

pytestmark = pytest.mark.unit

SEED = bytes(range(16))
FLAGS = st.binary(min_size=8, max_size=8).map(lambda data: bytes(byte & 1 for byte in data))


def table(slots: int = 64, count_max: int = 48, base_offset: int = 0) -> KeyTable:
    return KeyTable(bytearray(slots * SLOT.size), count_max, base_offset, SEED)


def rows_of(found: Bodies) -> int:
    return sum(batch[12] for batch in BATCH.iter_unpack(found.batches))


def body_bytes(found: Bodies, number: int) -> int:
    return found.ends[number] - found.starts[number]


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
    first, second = twin.siphash(bytes(range(length)), SEED)
    assert (first.to_bytes(8, "little") + second.to_bytes(8, "little")).hex() == expected


@given(found=bodies(), skipped=FLAGS, dirty=st.integers(0, 8), count_max=st.integers(1, 12), base=st.integers(0, 3))
def test_keys_are_noted_alike(found: Bodies, skipped: bytes, dirty: int, count_max: int, base: int) -> None:
    least = min((batch[0] for batch in BATCH.iter_unpack(found.batches)), default=0)
    tables = [table(16, count_max, least + base) for _ in range(2)]
    ours = native.note_keys(found, skipped, least + base + dirty, tables[0])
    theirs = twin.note_keys(found, skipped, least + base + dirty, tables[1])
    if ours.full_offset < 0 and theirs.full_offset < 0:
        # The kernel looks some records ahead, so it may name the damage behind the record that had no room.
        assert ours == theirs
        assert ours.status or (tables[0].slots, tables[0].count) == (tables[1].slots, tables[1].count)
    else:
        assert ours.status or ours == theirs


@given(found=bodies(), skipped=FLAGS, dirty=st.integers(0, 8))
def test_keys_are_hashed_alike(found: Bodies, skipped: bytes, dirty: int) -> None:
    least = min((batch[0] for batch in BATCH.iter_unpack(found.batches)), default=0)
    assert native.hash_keys(found, skipped, least + dirty, SEED) == twin.hash_keys(found, skipped, least + dirty, SEED)


@given(
    hashes=st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 3), st.integers(0, 2**33)), max_size=12),
    count_max=st.integers(1, 8),
    base=st.integers(0, 2**32),
    end=st.integers(0, 2**34),
)
def test_hashes_are_noted_alike(hashes: list[tuple[int, int, int]], count_max: int, base: int, end: int) -> None:
    first, second, offsets = zip(*hashes, strict=True) if hashes else ((), (), ())
    columns = [memoryview(array("Q", first)), memoryview(array("Q", second)), memoryview(array("q", offsets))]
    tables = [table(9, count_max, base) for _ in range(2)]
    assert native.note_hashes(tables[0], *columns, end) == twin.note_hashes(tables[1], *columns, end)  # type: ignore[arg-type,call-arg]
    assert (tables[0].slots, tables[0].count) == (tables[1].slots, tables[1].count)


@given(
    found=bodies(),
    discarded=FLAGS,
    noted=st.integers(0, 30),
    now_ms=st.integers(-1, 2**45),
    known=st.integers(0, 30),
)
def test_the_same_records_are_chosen(found: Bodies, discarded: bytes, noted: int, now_ms: int, known: int) -> None:
    least = min((batch[0] for batch in BATCH.iter_unpack(found.batches)), default=0)
    keys = table(base_offset=least)
    # What can be read of them is known, as of a log that is cleaned.
    twin.note_keys(found, bytes(8), least + known, keys)
    ours = native.choose_survivors(found, discarded, least + noted, now_ms, keys)
    theirs = twin.choose_survivors(found, discarded, least + noted, now_ms, keys)
    assert (ours.status, ours.number) == (theirs.status, theirs.number)
    assert ours.status or (ours.keep, ours.kept) == (theirs.keep, theirs.kept)


@given(
    found=bodies(),
    keep=st.binary(min_size=64, max_size=64).map(lambda data: bytes(byte & 1 for byte in data)),
    base_ms=st.none() | st.integers(-(2**63), 2**63 - 1),
)
def test_the_same_bytes_are_retained(found: Bodies, keep: bytes, base_ms: int | None) -> None:
    for number in range(found.batch_count):
        count = BATCH.unpack_from(found.batches, number * BATCH.size)[12]
        if count > len(keep):
            continue
        outs = [bytearray(body_bytes(found, number) + 10 * count) for _ in range(2)]
        ours = native.write_survivors(found, number, keep, base_ms, outs[0])
        theirs = twin.write_survivors(found, number, keep, base_ms, outs[1])
        assert ours.status == theirs.status
        assert ours.status or (ours, outs[0]) == (theirs, outs[1])


@pytest.mark.parametrize("kernel", [native, twin])
def test_arguments_that_contradict_each_other_are_refused(kernel: object) -> None:
    data, entry = b"abc", BATCH.pack(0, 100, 0, 2, 0, 0, 5, 0, 0, -1, -1, -1, 2, 0, 0)
    choose: Callable[..., object] = kernel.choose_survivors  # type: ignore[attr-defined]
    write_survivors: Callable[..., object] = kernel.write_survivors  # type: ignore[attr-defined]
    for start, end in ((-1, 2), (2, 1), (0, 4)):
        outside = Bodies(data, entry, array("q", [start]), array("q", [end]), 1)
        with pytest.raises(ValueError, match=r"."):
            choose(outside, b"\0", 0, 0, table())
    inside = Bodies(data, entry, array("q", [0]), array("q", [3]), 1)
    with pytest.raises(ValueError, match=r"."):
        write_survivors(inside, 0, b"\1", None, bytearray(100))  # two records, one entry
    with pytest.raises((ValueError, IndexError)):
        choose(inside._replace(starts=array("q")), b"\0", 0, 0, table())


def test_a_table_has_a_free_slot() -> None:
    for slots, count_max in ((1, 1), (2, 2), (0, 0), (4, 0)):
        with pytest.raises(ValueError, match="keys in"):
            table(slots, count_max)
