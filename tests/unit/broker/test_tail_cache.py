"""The tail cache: one unbroken run of offsets per partition, whole batches only, never above its budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.tail_cache import PartitionTail, TailCache

pytestmark = pytest.mark.unit


def filled(cache: TailCache, counts: list[int], size_bytes: int = 100) -> PartitionTail:
    tail = cache.partition()
    offset = 0
    for count in counts:
        tail.append(offset, offset + count, memoryview(bytes([offset % 256]) * size_bytes), offset * 10)
        offset += count
    return tail


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=30),
    offset=st.integers(0, 160),
    bound=st.integers(0, 160),
    length_max=st.integers(1, 500),
)
def test_reads_equal_a_scan(counts: list[int], offset: int, bound: int, length_max: int) -> None:
    tail = filled(TailCache(10**6), counts)
    batches, base = [], 0
    for count in counts:
        batches.append((base, base + count, bytes([base % 256]) * 100))
        base += count
    read = tail.read(offset, length_max, bound)
    if offset >= bound:
        assert read == ()
    elif offset >= base:
        assert read is None
    else:
        expected: list[bytes] = []
        for _, end, data in batches:
            if end <= offset:
                continue
            if end > bound or (expected and 100 * (len(expected) + 1) > length_max):
                break
            expected.append(data)
        assert read is not None
        assert [bytes(view) for view in read] == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 2000)), max_size=80))
def test_the_budget_holds_and_counts_are_exact(appends: list[tuple[int, int, int]]) -> None:
    cache = TailCache(5000)
    tails = [cache.partition() for _ in range(4)]
    ends = [0] * 4
    for which, count, size_bytes in appends:
        tails[which].append(ends[which], ends[which] + count, memoryview(bytes(size_bytes)), 0)
        ends[which] += count
        assert cache.bytes_used <= cache.bytes_max
        for tail, end in zip(tails, ends, strict=True):
            if tail.start_offset is not None:
                run = tail.read(tail.start_offset, 10**9, end)
                assert run is not None and len(run) == len(tail)
    for tail in tails:
        tail.clear()
    assert cache.bytes_used == 0


def test_what_entered_first_leaves_first() -> None:
    cache = TailCache(10_000)
    old = filled(cache, [1] * 10, 100)
    new = filled(cache, [1] * 10, 100)
    newest = filled(cache, [1] * 10, 100)
    assert cache.bytes_used <= 10_000
    assert old.start_offset is not None and old.start_offset > 0
    assert new.start_offset == 0 and newest.start_offset == 0


def test_an_offset_that_was_evicted_is_a_miss() -> None:
    cache = TailCache(2_000)
    tail = filled(cache, [2] * 10, 300)
    assert tail.start_offset is not None and tail.start_offset > 0
    assert tail.read(0, 100, 20) is None
    assert cache.misses == 1
    assert tail.read(19, 100, 20)
    assert cache.hits == 1


def test_a_buffer_counts_once_and_for_as_long_as_one_of_its_batches_is_kept() -> None:
    cache = TailCache(10**6)
    frame = bytearray(100_000)
    one, other = cache.partition(), cache.partition()
    one.append(0, 1, memoryview(frame)[10:1010], 0)
    assert 100_000 <= cache.bytes_used < 101_000
    other.append(0, 1, memoryview(frame)[1010:99_000], 0)
    assert 100_000 <= cache.bytes_used < 101_000
    one.clear()
    assert 100_000 <= cache.bytes_used < 101_000
    (view,) = other.read(0, 10**6, 1) or ()
    assert view.obj is frame
    other.drop_below(1)
    assert cache.bytes_used == 0


def test_what_left_by_itself_does_not_cost_others_their_batches() -> None:
    cache = TailCache(10_000)
    gone = filled(cache, [1] * 10, 100)
    gone.clear()
    kept = filled(cache, [1] * 10, 100)
    gone.append(10, 11, memoryview(bytes(100)), 0)
    filled(cache, [1] * 10, 100)
    assert cache.bytes_used <= 10_000
    assert kept.start_offset == 0 and gone.start_offset == 10


def test_a_gap_starts_anew() -> None:
    cache = TailCache(10**6)
    tail = filled(cache, [1, 1])
    tail.append(7, 8, memoryview(b"x" * 100), 700)
    assert tail.start_offset == 7 and len(tail) == 1
    assert tail.read(0, 100, 8) is None
    assert tail.position_of(7) == 700 and tail.position_of(8) is None


def test_what_retention_removed_is_gone() -> None:
    cache = TailCache(10**6)
    tail = filled(cache, [2] * 1000)
    tail.drop_below(1501)
    assert tail.start_offset == 1500 and len(tail) == 250
    assert tail.read(1499, 100, 2000) is None
    assert len(tail.read(1500, 10**9, 2000) or ()) == 250
