"""Held records gathered for a run: all that are pending, in order, and none that a cancellation in it names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.timers.announcements import (
    START,
    Cancel,
    Held,
    HeldRecord,
    NamedBatch,
    Position,
    encode_held,
    parse_announcement,
)
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_draft import RunDraft
from bmq.log.timers.run_file import RunEncoder, RunIndex, decode_tail, records_in
from bmq.protocol.compression import Compression

pytestmark = pytest.mark.unit

NAMED = NamedBatch(7, 99)


def held_of(records: list[HeldRecord], cancels: list[Cancel], codec: Compression = Compression.NONE) -> Held:
    found = parse_announcement(encode_held(records, NAMED, codec, cancels=cancels))
    assert isinstance(found, Held)
    return found


def written(draft: RunDraft) -> list[DueRecord]:
    """What a reader finds in the run, with its bodies as bytes."""
    writer, data = RunEncoder(), bytearray()
    for block in draft.blocks():
        data += writer.add_block(block)
    data += writer.finish()
    position, length = decode_tail(data[-24:])
    index = RunIndex.decode(data[position : position + length], position)
    found = []
    for number in range(len(index)):
        start, size = index.span(number)
        found += [one._replace(body=bytes(one.body)) for one in records_in(data[start : start + size])]
    assert index.count == writer.count == len(found) == draft.row_count
    assert (index.first_of(0), index.last) == (writer.first, writer.last)
    return found


HOLDS = st.lists(
    st.lists(st.tuples(st.integers(1, 20), st.binary(max_size=40), st.booleans()), min_size=1, max_size=6),
    min_size=1,
    max_size=8,
)


@given(HOLDS, st.sampled_from([START, Position(8, 30), Position(12, 0)]), st.sampled_from([1, 90, 1_000]))
def test_a_run_has_what_is_pending_and_was_not_cancelled(
    holds: list[list[tuple[int, bytes, bool]]], position: Position, block_bytes: int
) -> None:
    """Some records cancel one of those before, or one of another run."""
    draft, offset = RunDraft(), 10
    pending: dict[Position, DueRecord] = {}
    left: set[Position] = set()
    for hold in holds:
        records, cancels = [], []
        for delta, (due_ms, body, is_cancel) in enumerate(hold):
            if not is_cancel:
                records.append(HeldRecord(due_ms, due_ms - 1, delta, body))
                continue
            targets = [place for place in sorted(pending) if place > position]
            target = targets[due_ms % len(targets)] if targets and due_ms % 3 else Position(due_ms, 3)
            cancels.append(Cancel(target, delta))
        draft.add(held_of(records, cancels), offset, position)
        for record in records:
            place = Position(record.due_ms, offset + record.offset_delta)
            if place > position:
                pending[place] = DueRecord(place.offset, place.due_ms, record.timestamp_ms, bytes(record.body))
        for cancel in cancels:
            if cancel.target > position:
                left.add(cancel.target)
        offset += 50
    assert draft.cancelled == left and len(draft) == len(pending) + len(left)
    expected = {place: one for place, one in pending.items() if place not in left}
    expected |= {
        place: DueRecord(place.offset, place.due_ms, -1, b"", is_cancellation=True) for place in left - pending.keys()
    }
    draft.sort()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bmq.log.timers.run_draft.BLOCK_BYTES", block_bytes)
        if expected:
            assert written(draft) == [expected[place] for place in sorted(expected)]
    dues_ms, names = draft.places
    places = [Position(*place) for place in zip(dues_ms, names, strict=True)]
    assert places == [place for place in sorted(expected) if not expected[place].is_cancellation]


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_holds_are_opened(codec: Compression) -> None:
    draft = RunDraft()
    draft.add(held_of([HeldRecord(9, 1, 0, b"x" * 500), HeldRecord(8, 2, 3, b"y")], [], codec), 100, START)
    draft.sort()
    assert written(draft) == [DueRecord(103, 8, 2, b"y"), DueRecord(100, 9, 1, b"x" * 500)]
    assert draft.size_bytes > 501


def test_a_block_is_not_put_in_front_of_what_a_run_has() -> None:
    draft = RunDraft()
    draft.add(held_of([HeldRecord(9, 1, 0, b"")], []), 100, START)
    draft.sort()
    (block,) = draft.blocks()
    writer = RunEncoder()
    assert writer.add_block(block)
    with pytest.raises(ValueError, match="is not behind"):
        writer.add_block(block)
    alone = RunEncoder()
    alone.add(DueRecord(5, 2, 0, b""))
    with pytest.raises(ValueError, match="is not behind"):
        alone.add_block(block)
