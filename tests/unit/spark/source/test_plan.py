"""Whatever segments, indexes, ranges and limits there are: every offset is in one piece, and its batch in that piece's bytes."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.spark.source.plan import (
    ClosedSegment,
    FilePiece,
    PartitionSnapshot,
    ProxyPiece,
    RangeToRead,
    cover,
    cut_by_offsets,
    needs_index,
    offset_after,
    part,
    plan,
    share,
)

pytestmark = pytest.mark.unit

MIB = 1 << 20


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    position: int
    end_position: int


class Log(NamedTuple):
    """A snapshot, and the batches of each of its files."""

    snapshot: PartitionSnapshot
    batches: dict[str, list[Batch]]
    end_offset: int


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Segments that follow each other, or leave a gap of what only a proxy has; any batches are entries of an index."""
    offset = draw(st.integers(0, 50))
    segments, contents = [], {}
    for number in range(draw(st.integers(0, 3))):
        offset += draw(st.sampled_from([0, 0, 0, 7]))
        base_offset, position, batches = offset, 0, []
        for count, size in draw(
            st.lists(st.tuples(st.integers(1, 9), st.integers(61, 3 * MIB)), min_size=1, max_size=6)
        ):
            batches.append(Batch(offset, offset + count, position, position + size))
            offset, position = offset + count, position + size
        entries = [batch for batch in batches if draw(st.booleans())]
        path = f"topics/t/0/00000001/{number:08d}.log"
        segments.append(
            ClosedSegment(
                path,
                number,
                base_offset,
                offset,
                position,
                array("q", [batch.base_offset for batch in entries]),
                array("q", [batch.position for batch in entries]),
            )
        )
        contents[path] = batches
    end_offset = offset + draw(st.integers(0, 30))
    decided = draw(st.just((1 << 63) - 1) | st.integers(0, end_offset))
    open_bytes = draw(st.integers(0, 5 * MIB))
    return Log(
        PartitionSnapshot("orders", "t", 0, tuple(segments), decided_offset=decided, open_bytes=open_bytes),
        contents,
        end_offset,
    )


@st.composite
def ranges(draw: st.DrawFn) -> tuple[Log, int, int]:
    log = draw(logs())
    start = draw(st.integers(0, log.end_offset))
    return log, start, draw(st.integers(start, log.end_offset))


def assert_covers(log: Log, wanted: RangeToRead) -> None:
    assert wanted.pieces[0].first_offset == wanted.start_offset
    assert wanted.pieces[-1].end_offset == wanted.end_offset
    for before, behind in pairwise(wanted.pieces):
        assert before.end_offset == behind.first_offset
    for piece in wanted.pieces:
        assert piece.first_offset < piece.end_offset
        if isinstance(piece, ProxyPiece):
            continue
        assert piece.end_offset <= log.snapshot.decided_offset
        batches = log.batches[piece.path]
        assert piece.position in [batch.position for batch in batches]
        assert piece.end_position in [batch.end_position for batch in batches]
        for batch in batches:
            if batch.end_offset > piece.first_offset and batch.base_offset < piece.end_offset:
                assert piece.position <= batch.position and batch.end_position <= piece.end_position


@settings(max_examples=50)
@given(
    wanted=st.lists(ranges(), max_size=2),
    bytes_per_partition=st.integers(1, 20 * MIB),
    records_per_partition=st.none() | st.integers(1, 40),
    min_partitions=st.integers(1, 30),
)
def test_parts_have_every_offset_once(
    wanted: list[tuple[Log, int, int]], bytes_per_partition: int, records_per_partition: int | None, min_partitions: int
) -> None:
    named = [
        (log._replace(snapshot=replace(log.snapshot, partition=number)), start, end)
        for number, (log, start, end) in enumerate(wanted)
    ]
    planned = plan(
        [(log.snapshot, start, end) for log, start, end in named],
        bytes_per_partition=bytes_per_partition,
        records_per_partition=records_per_partition,
        min_partitions=min_partitions,
    )
    assert len(planned) >= min(min_partitions, sum(end - start for _, start, end in named))
    for number, (log, start, end) in enumerate(named):
        parts = [one for one in planned if one.partition == number]
        if start == end:
            assert not parts
            continue
        assert (parts[0].start_offset, parts[-1].end_offset) == (start, end)
        for before, behind in pairwise(parts):
            assert before.end_offset == behind.start_offset
        for one in parts:
            assert_covers(log, one)
            if records_per_partition is not None:
                assert one.end_offset - one.start_offset <= records_per_partition


@given(log=logs(), data=st.data())
def test_some_bytes_lead_to_an_offset_in_between(log: Log, data: st.DataObject) -> None:
    pieces = cover(log.snapshot, 0, log.end_offset)
    total = sum(piece.size_bytes for piece in pieces)
    first, second = sorted(data.draw(st.tuples(st.integers(0, total), st.integers(0, total))))
    found = offset_after(log.snapshot, pieces, first)
    assert 0 <= found <= offset_after(log.snapshot, pieces, second) <= log.end_offset
    assert offset_after(log.snapshot, pieces, total) == (log.end_offset if pieces else 0)


def segment_of(count: int, *, batch_bytes: int = MIB) -> ClosedSegment:
    """Batches of ten records, all of them in the index."""
    return ClosedSegment(
        "topics/t/0/00000001/00000000.log",
        7,
        0,
        count * 10,
        count * batch_bytes,
        array("q", range(0, count * 10, 10)),
        array("q", range(0, count * batch_bytes, batch_bytes)),
    )


def test_a_large_segment_is_cut_at_its_index_entries() -> None:
    snapshot = PartitionSnapshot("orders", "t", 0, (segment_of(100),))
    planned = plan([(snapshot, 0, 1000)], bytes_per_partition=25 * MIB)
    assert [one.size_bytes for one in planned] == [25 * MIB] * 4
    assert [(one.start_offset, one.end_offset) for one in planned] == [(0, 250), (250, 500), (500, 750), (750, 1000)]


def test_a_short_range_reads_little_of_a_file() -> None:
    snapshot = PartitionSnapshot("orders", "t", 0, (segment_of(100),))
    (one,) = plan([(snapshot, 905, 1000)], bytes_per_partition=1 << 30)
    assert one.pieces == (FilePiece("topics/t/0/00000001/00000000.log", 7, 90 * MIB, 100 * MIB, 905, 1000),)


def test_what_is_open_comes_through_a_proxy() -> None:
    snapshot = PartitionSnapshot("orders", "t", 0, (segment_of(2),), open_bytes=5)
    (one,) = plan([(snapshot, 3, 44)], bytes_per_partition=1 << 30)
    assert [type(piece) for piece in one.pieces] == [FilePiece, ProxyPiece]
    assert one.pieces[1] == ProxyPiece(20, 44, 5)


def test_as_many_parts_as_wanted_also_of_what_nobody_knows_the_size_of() -> None:
    snapshot = PartitionSnapshot("orders", "t", 0)
    planned = plan(
        [(snapshot, 0, 100), (replace(snapshot, partition=1), 0, 300)], bytes_per_partition=1, min_partitions=8
    )
    assert [one.partition for one in planned] == [0] * 2 + [1] * 6


def test_a_part_has_the_aborted_transactions_that_reach_into_its_files() -> None:
    aborted = AbortedTransactions()
    for entry in (AbortedEntry(1, 0, 30, 40), AbortedEntry(2, 5, 120, 130), AbortedEntry(1, 150, 160, 170)):
        aborted.add(entry)
    snapshot = PartitionSnapshot("orders", "t", 0, (segment_of(20),), aborted=aborted)
    assert [entry.producer_id for entry in part(snapshot, 20, 100).aborted] == [1, 2]
    assert [entry.last_offset for entry in part(snapshot, 110, 155).aborted] == [120, 160]


def test_only_segments_that_are_cut_need_an_index() -> None:
    whole = {"bytes_per_partition": 100 * MIB}
    assert not needs_index(0, 100, 40 * MIB, start=0, end=100, **whole)
    assert needs_index(0, 100, 60 * MIB, start=0, end=100, **whole)
    assert needs_index(0, 100, 40 * MIB, start=50, end=100, **whole)
    assert not needs_index(0, 100, MIB, start=50, end=100, **whole)
    assert not needs_index(0, 100, 60 * MIB, start=100, end=200, **whole)


@given(start=st.integers(0, 100), length=st.integers(1, 100), count=st.integers(1, 150))
def test_cuts_by_offsets_are_even(start: int, length: int, count: int) -> None:
    ends = (start, *cut_by_offsets(start, start + length, count), start + length)
    lengths = [behind - before for before, behind in pairwise(ends)]
    assert len(lengths) == min(count, length) and max(lengths) - min(lengths) <= 1


@given(
    sizes=st.dictionaries(st.tuples(st.just("t"), st.integers(0, 9)), st.integers(0, 10**6)),
    limit=st.integers(1, 10**6),
)
def test_shares_keep_to_the_limit_and_leave_nobody_out(sizes: dict[tuple[str, int], int], limit: int) -> None:
    shares = share(limit, sizes)
    assert sum(shares.values()) <= max(limit, 0) + len(sizes)
    for one, size in sizes.items():
        assert (1 if size else 0) <= shares.get(one, 0) <= size
    if sum(sizes.values()) <= limit:
        assert shares == sizes
