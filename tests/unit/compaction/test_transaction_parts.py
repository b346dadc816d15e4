"""What a run of batches changes in the state of transactions, put together, is what one pass over the whole log has."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.compaction.log_cleaner import NO_TRANSACTIONS, Transactions, TransactionState
from bmq.log.aborted_transactions import AbortedEntry
from bmq.protocol.control_batch import ControlType, EndTransactionMarker

pytestmark = pytest.mark.unit


class Event(NamedTuple):
    offset: int
    producer_id: int
    kind: ControlType | None  # None: records
    is_emptied: bool = False


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Event], list[AbortedEntry]]:
    """Transactions of a few producers, of which compaction has taken some records and markers away."""
    events: list[Event] = []
    aborted: list[AbortedEntry] = []
    first: dict[int, int] = {}
    for offset in range(draw(st.integers(1, 40))):
        producer_id = draw(st.integers(0, 3))
        if producer_id in first and draw(st.booleans()):
            kind = draw(st.sampled_from((ControlType.ABORT, ControlType.COMMIT)))
            begun = first.pop(producer_id)
            has_marker = kind is ControlType.ABORT or draw(st.booleans())
            if kind is ControlType.ABORT:
                aborted.append(AbortedEntry(producer_id, begun, offset, begun))
            if has_marker:
                is_emptied = kind is ControlType.COMMIT and draw(st.booleans())
                events.append(Event(offset, producer_id, kind, is_emptied))
            continue
        first.setdefault(producer_id, offset)
        if draw(st.booleans()):
            events.append(Event(offset, producer_id, None))
    # A log that is compacted ends with its transactions.
    open_ones = set(first)
    return [
        event for event in events if event.producer_id not in open_ones or event.offset < first[event.producer_id]
    ], aborted


def follow(transactions: Transactions, events: list[Event]) -> list[bool]:
    found = []
    for event in events:
        if event.kind is None:
            found.append(transactions.discards(event.producer_id, event.offset))
        else:
            marker = None if event.is_emptied else EndTransactionMarker(event.kind, 1)
            found.append(transactions.discards_marker(event.producer_id, event.offset, marker))
    return found


@given(logs(), st.lists(st.integers(0, 41), max_size=4).map(sorted))
def test_parts_decide_as_the_whole(log: tuple[list[Event], list[AbortedEntry]], cuts: list[int]) -> None:
    events, aborted = log
    expected = follow(Transactions(aborted), events)
    bounds = [0, *cuts, 100]
    runs = [[event for event in events if begin <= event.offset < end] for begin, end in pairwise(bounds)]
    states: list[TransactionState] = []
    state = NO_TRANSACTIONS
    for begin, run in zip(bounds, runs, strict=False):
        states.append(state)
        alone = Transactions(aborted, begin)
        follow(alone, run)
        state = alone.part().after(state)
    found: list[bool] = []
    for begin, run, known in zip(bounds, runs, states, strict=False):
        found += follow(Transactions(aborted, begin, known), run)
    assert found == expected
