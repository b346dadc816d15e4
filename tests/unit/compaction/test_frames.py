"""A plan and its events are the same behind a pipe."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.compaction.frames import HEAD, Failure, decode_event, decode_plan, encode_event, encode_plan
from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.compaction import CleanedBytes, CleanedGroup, CleaningEnd, CleaningEvent, CleaningPlan
from bmq.log.manifest import Extent
from bmq.log.segment_index import CorruptIndex, IndexBuilder
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.record_batch import BatchHeader

pytestmark = pytest.mark.unit

NUMBERS = st.integers(0, 2**40)
EXTENTS = st.builds(
    Extent, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(-1, 2**40)
)
PLANS = st.builds(
    CleaningPlan,
    topic=st.text(min_size=1, max_size=9),
    partition=st.integers(0, 2**31 - 1),
    groups=st.lists(st.lists(EXTENTS, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    paths=st.lists(st.lists(st.text(max_size=9), max_size=2).map(tuple), max_size=2).map(tuple),
    first_dirty_offset=NUMBERS,
    now_ms=NUMBERS,
    delete_retention_ms=NUMBERS,
    marker_retention_ms=NUMBERS,
    aborted=st.lists(st.builds(AbortedEntry, NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=2).map(tuple),
    last_records=st.lists(st.tuples(NUMBERS, st.none() | NUMBERS, NUMBERS), max_size=2).map(tuple),
    map_bytes=NUMBERS,
    index_interval_bytes=NUMBERS,
)


def index_of(base_offset: int) -> IndexBuilder:
    builder = IndexBuilder(0, 0, 0, base_offset, interval_bytes=100)
    batch = encode_batch([Record(b"k", b"v", timestamp_ms=5)], base_offset=base_offset)
    builder.add(BatchHeader.parse(batch), base_offset, 0)
    return builder


EVENTS: st.SearchStrategy[CleaningEvent | Failure] = st.one_of(
    st.builds(CleanedBytes, st.binary(max_size=50)),
    st.builds(
        CleanedGroup,
        st.integers(1, 9),
        NUMBERS.map(lambda offset: index_of(offset).build(70)),
        st.lists(NUMBERS, max_size=3).map(tuple),
    ),
    st.builds(CleaningEnd, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Failure, st.text(max_size=20), st.booleans()),
)


@given(PLANS)
def test_a_plan_is_the_same_behind_the_pipe(plan: CleaningPlan) -> None:
    assert decode_plan(encode_plan(plan)) == plan


@given(EVENTS)
def test_an_event_is_the_same_behind_the_pipe(event: CleaningEvent | Failure) -> None:
    frame = b"".join(encode_event(event))
    kind, length = HEAD.unpack_from(frame)
    assert len(frame) == HEAD.size + length
    found = decode_event(kind, frame[HEAD.size :])
    if isinstance(event, CleanedGroup):
        # Tables of aborted transactions have no equality of their own.
        assert isinstance(found, CleanedGroup)
        assert found.index.encode() == event.index.encode()
        found = replace(found, index=event.index)
    assert found == event


def test_a_damaged_index_is_refused() -> None:
    frame = bytearray(b"".join(encode_event(CleanedGroup(1, index_of(3).build(70), ()))))
    frame[-1] ^= 1
    with pytest.raises(CorruptIndex):
        decode_event(frame[0], frame[HEAD.size :])
