"""Batches' bodies, and filters of their records, for the kernel and for its twin.

A case is four bytes: record count, last delta, how many records are looked at a time, which of FILTERS; then a body.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from bmq.protocol.batch_records import Record, encode_records
from bmq.records.record_filter_layout import BEGIN, FilteredRecords, RecordFilter, Term
from bmq.records.record_filter_twin import CompiledFilter
from bmq.records.records_twin import Damage

HEAD_BYTES: Final = 4
NAMES: Final = ("bmq-tag", "TAGS", "x", "")
VALUES: Final = (b"a", b"b", b"abc", b"", None)
_TAG: Final = Term((b"bmq-tag", b"TAGS"), (b"a", b"abc"))
_KEY: Final = Term((), (b"a", b""))
_X: Final = Term((b"x", b""), (b"", b"b"))
FILTERS: Final = (
    RecordFilter((_TAG,), 0b10),
    RecordFilter((_KEY,), 0b10),
    RecordFilter((_TAG, _KEY, _X), 0b1110_1010),
    RecordFilter((), 1),
    RecordFilter((_X, _KEY, _TAG, _X, _KEY, _TAG), 0x8000_0000_0000_0006),
)


def random_records(dice: Random) -> list[Record]:
    return [
        Record(
            dice.choice(VALUES),
            dice.choice((None, b"", b"some value")),
            tuple((dice.choice(NAMES), dice.choice(VALUES)) for _ in range(dice.randint(0, 3))),
        )
        for _ in range(dice.randint(0, 7))
    ]


def case_of(records: list[Record], step: int, number: int) -> bytes:
    return bytes((len(records), max(len(records) - 1, 0), step, number)) + bytes(encode_records(records, 0))


def random_case(dice: Random) -> bytes:
    return case_of(random_records(dice), dice.choice((1, 2, 3, 9)), dice.randrange(len(FILTERS)))


def looked(case: bytes, maker: Any = CompiledFilter) -> str:
    """The case's answer as a line: how it ends, then for each step the runs and how many records they are."""
    count, last_delta, step, number = case[:HEAD_BYTES]
    passing, last, line = maker(FILTERS[number % len(FILTERS)]), BEGIN, ""
    step = max(step, 1)
    try:
        while count:
            last = passing.filter_records(case[HEAD_BYTES:], last, min(count, step), last_delta)
            count -= min(count, step)
            line += _step(last)
    except Damage as damage:
        return f"{-damage.kind}{line}"
    return f"0{line}"


def _step(last: FilteredRecords) -> str:
    runs = "".join(f" {begin}-{end}" for begin, end in last.runs)
    return f" | {last.place} {last.previous} {last.passed}{runs}"
