"""Runs: files of held records in order of their due times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.timers.announcements import Position
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_file import BLOCK_BYTES, TAIL_BYTES, CorruptRun, RunEncoder, RunIndex, decode_tail, records_in

pytestmark = pytest.mark.unit


def run_of(records: list[DueRecord]) -> bytes:
    writer = RunEncoder()
    return b"".join((*(writer.add(record) for record in records), writer.finish()))


def index_of(data: bytes) -> RunIndex:
    position, length = decode_tail(data[-TAIL_BYTES:])
    return RunIndex.decode(data[position : position + length], position)


def read_above(data: bytes, position: Position) -> list[DueRecord]:
    """As a reader does: block by block, from the first that may have one."""
    index = index_of(data)
    assert index.count == sum(
        len(list(records_in(data[at : at + size]))) for at, size in map(index.span, range(len(index)))
    )
    first = index.block_above(position)
    found = []
    for number in range(len(index) if first is None else first, len(index)):
        start, length = index.span(number)
        found += [one for one in records_in(data[start : start + length]) if (one.due_ms, one.offset) > position]
    return [one._replace(body=bytes(one.body)) for one in found]


RECORDS = st.lists(
    st.builds(
        lambda offset, due_ms, created_ms, body: DueRecord(offset, due_ms, created_ms, body or b"", body is None),
        st.integers(0, 30),
        st.integers(0, 20),
        st.integers(-1, 5),
        st.sampled_from([None, b"", b"x" * 30_000]),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda one: (one.due_ms, one.offset),
).map(lambda records: sorted(records, key=lambda one: (one.due_ms, one.offset)))


@given(RECORDS, st.builds(Position, st.integers(-1, 21), st.integers(-1, 31)))
def test_what_is_above_a_position_is_read(records: list[DueRecord], position: Position) -> None:
    expected = [one for one in records if (one.due_ms, one.offset) > position]
    assert read_above(run_of(records), position) == expected


def test_a_block_is_bounded_and_one_is_enough_to_begin_in_the_middle() -> None:
    records = [DueRecord(offset, offset // 10, 0, bytes(1000)) for offset in range(1000)]
    data = run_of(records)
    index = index_of(data)
    assert len(index.positions) > 10
    assert max(index.span(number)[1] for number in range(len(index.positions))) <= BLOCK_BYTES + 2000
    assert index.block_above(Position(99, 998)) == len(index.positions) - 1
    assert index.block_above(Position(99, 999)) is None


def test_records_out_of_order_and_no_records_are_refused() -> None:
    writer = RunEncoder()
    with pytest.raises(ValueError, match="without a record"):
        writer.finish()
    writer.add(DueRecord(5, 7, 0, b""))
    for record in (DueRecord(5, 7, 0, b""), DueRecord(4, 7, 0, b""), DueRecord(9, 6, 0, b"")):
        with pytest.raises(ValueError, match="is not behind"):
            writer.add(record)


@given(RECORDS, st.data())
def test_any_flipped_bit_is_found(records: list[DueRecord], data: st.DataObject) -> None:
    whole = run_of(records)
    damaged = bytearray(whole)
    damaged[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptRun):
        read_above(bytes(damaged), Position(-1, -1))


@given(RECORDS, st.data())
def test_a_file_that_was_cut_has_no_tail(records: list[DueRecord], data: st.DataObject) -> None:
    whole = run_of(records)
    with pytest.raises(CorruptRun):
        index_of(whole[: data.draw(st.integers(0, len(whole) - 1))])
