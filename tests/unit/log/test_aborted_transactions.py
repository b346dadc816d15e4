"""Aborted transactions by offset, against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.checksummed_parts import CorruptParts
from bmq.log.partition_log import AbortedTransaction

pytestmark = pytest.mark.unit


@st.composite
def histories(draw: st.DrawFn) -> list[AbortedEntry]:
    """Transactions as a log has them: the last stable offset is the first offset of the oldest that is still open."""
    entries: list[AbortedEntry] = []
    ongoing: dict[int, int] = {}
    for offset in range(draw(st.integers(0, 30))):
        producer = draw(st.integers(0, 3))
        if producer in ongoing and draw(st.booleans()):
            first = ongoing.pop(producer)
            if draw(st.booleans()):
                entries.append(AbortedEntry(producer, first, offset, min(ongoing.values(), default=offset + 1)))
        else:
            ongoing.setdefault(producer, offset)
    return entries


def table_of(entries: list[AbortedEntry]) -> AbortedTransactions:
    table = AbortedTransactions()
    for entry in entries:
        table.add(entry)
    return table


OFFSETS = st.integers(0, 32)


@given(histories(), OFFSETS, OFFSETS)
def test_overlap(entries: list[AbortedEntry], start: int, end: int) -> None:
    expected = [
        AbortedTransaction(e.producer_id, e.first_offset)
        for e in entries
        if e.last_offset >= start and e.first_offset < end
    ]
    assert table_of(entries).overlapping(start, end) == expected


@given(histories(), OFFSETS, OFFSETS)
def test_parts(entries: list[AbortedEntry], start: int, end: int) -> None:
    assert list(table_of(entries)) == entries
    middle = table_of(entries).between(start, end)
    assert list(middle) == [e for e in entries if start <= e.last_offset < end]
    head, tail = table_of(entries), table_of(entries)
    head.drop_from(start)
    tail.drop_before(start)
    assert list(head) == [e for e in entries if e.last_offset < start]
    assert list(tail) == [e for e in entries if e.last_offset >= start]
    head.extend(tail)
    assert list(head) == entries


@given(histories())
def test_round_trip(entries: list[AbortedEntry]) -> None:
    body = table_of(entries).encode()
    decoded = AbortedTransactions.decode(body)
    assert list(decoded) == entries
    assert len(decoded) == len(entries)
    if entries:
        with pytest.raises(CorruptParts):
            AbortedTransactions.decode(body[:-8])
        with pytest.raises(CorruptParts):
            AbortedTransactions.decode(body + body)
        with pytest.raises(ValueError, match="not behind"):
            decoded.add(entries[-1])
