"""Ranges of what views show: found from any offset, cut at bounds, joined while short, and bounded in all."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.partition_log import TopicPartition
from bmq.proxy.view_answer import ViewBatch
from bmq.proxy.view_ranges import (
    COPIED_BYTES_MAX,
    RANGE_BYTES_MAX,
    CachedPiece,
    UnfilteredRange,
    ViewRange,
    ViewRanges,
    cached_pieces_of,
    copied_bytes,
)
from bmq.views.batch_filter import EmptyRun

pytestmark = pytest.mark.unit

KEY = UUID(int=1), TopicPartition(UUID(int=2), 0), 3
OTHER = UUID(int=9), TopicPartition(UUID(int=2), 0), 3


def run(base_offset: int, next_offset: int, epoch: int = 0) -> EmptyRun:
    return EmptyRun(base_offset, next_offset, epoch)


def offsets(pieces: Sequence[CachedPiece]) -> list[int]:
    return [
        one for piece in pieces if isinstance(piece, EmptyRun) for one in range(piece.base_offset, piece.next_offset)
    ]


def test_a_reader_begins_anywhere_and_ends_at_its_bound() -> None:
    known = ViewRange(10, [run(10, 14), run(14, 20), ViewBatch(b"a", 25), run(25, 30, 1), run(30, 32, 2)], 0.0)
    assert known.pieces == [run(10, 20), ViewBatch(b"a", 25), run(25, 30, 1), run(30, 32, 2)]
    assert (known.base_offset, known.next_offset) == (10, 32)
    assert list(known.shown(12, 100)) == [run(12, 20), ViewBatch(b"a", 25), run(25, 30, 1), run(30, 32, 2)]
    assert list(known.shown(20, 25)) == [ViewBatch(b"a", 25)]
    assert list(known.shown(22, 27)) == [ViewBatch(b"a", 25), run(25, 27, 1)]
    assert list(known.shown(20, 24)) == list(known.shown(32, 100)) == list(known.shown(15, 15)) == []


def test_ranges_that_follow_each_other_become_one_while_they_are_short() -> None:
    ranges = ViewRanges(10 * RANGE_BYTES_MAX)
    for begin in range(0, 100, 10):
        ranges.put(KEY, ViewRange(begin, [run(begin, begin + 10)], 100.0 - begin))
    found = ranges.find(KEY, 55)
    assert found is not None and found.pieces == [run(0, 100)]
    assert found.asked_s == 10.0, "the log was asked at the earliest of these times"
    long = ViewBatch(b"x" * RANGE_BYTES_MAX, 200)
    ranges.put(KEY, ViewRange(100, [long], 0.0))
    assert ranges.find(KEY, 99) is found
    last = ranges.find(KEY, 100)
    assert last is not None and last.pieces == [long]
    assert ranges.used_bytes == found.size_bytes + last.size_bytes


def test_views_and_gaps_are_not_mixed_up() -> None:
    ranges = ViewRanges(RANGE_BYTES_MAX)
    ranges.put(KEY, ViewRange(10, [run(10, 20)], 0.0))
    ranges.put(KEY, ViewRange(30, [run(30, 40)], 0.0))
    assert [ranges.find(KEY, offset) is not None for offset in (9, 10, 19, 20, 29, 30, 40)] == [
        False, True, True, False, False, True, False,
    ]  # fmt: skip
    assert ranges.find(OTHER, 10) is None


def test_a_longer_range_replaces_one_of_the_same_offset_and_a_dropped_one_is_gone() -> None:
    ranges = ViewRanges(RANGE_BYTES_MAX)
    for end in (20, 30, 25):
        ranges.put(KEY, ViewRange(10, [run(10, end)], 0.0))
    found = ranges.find(KEY, 29)
    assert found is not None and found.next_offset == 30 and ranges.used_bytes == found.size_bytes
    ranges.drop(KEY, found)
    assert ranges.find(KEY, 10) is None and ranges.used_bytes == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from([KEY, OTHER]), st.integers(0, 60), st.integers(1, 30), st.booleans(), st.integers(0, 70)
        ),
        max_size=60,
    ),
    st.integers(500, 6_000),
)
def test_what_is_found_was_put_and_all_is_bounded(
    steps: list[tuple[tuple[UUID, TopicPartition, int], int, int, bool, int]], bytes_max: int
) -> None:
    ranges, put = ViewRanges(bytes_max), set[tuple[object, int]]()
    for key, begin, length, is_shown, asked in steps:
        piece = ViewBatch(b"z" * length, begin + length) if is_shown else run(begin, begin + length)
        ranges.put(key, ViewRange(begin, [piece], 0.0))
        put |= {(key, one) for one in range(begin, begin + length)}
        assert 0 <= ranges.used_bytes <= bytes_max
        for name in (KEY, OTHER):
            found = ranges.find(name, asked)
            if found is not None:
                assert (name, asked) in put and found.base_offset <= asked < found.next_offset
                shown = list(found.shown(asked, 1_000))
                assert shown and {(name, one) for one in offsets(shown)} <= put


def test_the_bases_own_batches_are_remembered_by_their_offsets() -> None:
    long = ViewBatch(b"x" * (COPIED_BYTES_MAX + 1), 20, is_whole=True)
    short = ViewBatch(b"y", 31, is_whole=True)
    known = cached_pieces_of(
        [run(8, 10), long, long._replace(next_offset=25), run(25, 30), short, ViewBatch(b"z", 40)], 10
    )
    assert known == [run(8, 10), UnfilteredRange(10, 25), run(25, 30), ViewBatch(b"y", 31), ViewBatch(b"z", 40)]
    assert copied_bytes(known) == 2
    both = ViewRange(10, [UnfilteredRange(10, 25)], 0.0)
    both.extend(ViewRange(25, [UnfilteredRange(25, 40)], 0.0))
    assert both.pieces == [UnfilteredRange(10, 40)]
    assert list(both.shown(12, 33)) == [UnfilteredRange(12, 33)] and list(both.shown(12, 12)) == []
