"""Records that pass a filter: by the kernel as by its twin, whatever the bytes, and in steps as at once."""

from __future__ import annotations

from random import Random

import pytest

from bmq.protocol.batch_records import Record, encode_batch, encode_records
from bmq.records import record_filter_native, record_filter_twin
from bmq.records.record_filter_layout import BEGIN, SHOWN_MAX, TERMS_MAX, RecordFilter, Term
from bmq.records.records_twin import Damage
from tests.fuzz.kernel_cases import mutated
from tests.unit.records import showing_cases
from tests.unit.records.record_filter_cases import FILTERS, HEAD_BYTES, case_of, looked, random_case, random_records

pytestmark = pytest.mark.unit

CASES = 1_500
BOTH = pytest.mark.parametrize("module", [record_filter_native, record_filter_twin], ids=["kernel", "twin"])


def test_the_kernel_answers_as_its_twin() -> None:
    dice = Random(5)
    made = [random_case(dice) for _ in range(CASES)]
    changed = [one for one in mutated(made, dice, CASES) if len(one) >= HEAD_BYTES]
    for case in [*made, *changed]:
        assert looked(case, record_filter_native.CompiledFilter) == looked(case), case.hex()
    assert all(looked(case).startswith("0") for case in made)
    assert sum(looked(case).startswith("-") for case in changed) > CASES / 10


@BOTH
def test_steps_find_what_one_look_finds(module: object) -> None:
    dice = Random(6)
    maker = module.CompiledFilter  # type: ignore[attr-defined]
    for _ in range(300):
        records = random_records(dice)
        number = dice.randrange(len(FILTERS))
        body, passing = bytes(encode_records(records, 0)), maker(FILTERS[number])
        whole = passing.filter_records(body, BEGIN, len(records), max(len(records) - 1, 0))
        last, passed, kept = BEGIN, 0, b""
        for _ in records:
            last = passing.filter_records(body, last, 1, len(records) - 1)
            passed += last.passed
            kept += b"".join(body[begin:end] for begin, end in last.runs)
        assert (last.place, last.previous, passed) == (whole.place, whole.previous, whole.passed)
        assert kept == b"".join(body[begin:end] for begin, end in whole.runs)
        assert case_of(records, 1, number)[HEAD_BYTES:] == body


@BOTH
def test_terms_are_about_keys_or_any_header_of_a_name(module: object) -> None:
    maker = module.CompiledFilter  # type: ignore[attr-defined]
    records = [
        Record(b"k", b"", (("x", b"1"),)),
        Record(None, b"", (("x", None), ("x", b"2"))),
        Record(b"x", b"k", (("y", b"2"), ("", b"1"))),
        Record(b"", b"", ()),
    ]
    body = bytes(encode_records(records, 0))

    def found(*terms: Term, truths: int) -> list[int]:
        last, passed = BEGIN, list[int]()
        passing = maker(RecordFilter(terms, truths))
        for number in range(len(records)):
            last = passing.filter_records(body, last, 1, 3)
            passed += [number] * last.passed
        return passed

    assert found(Term((), (b"k",)), truths=0b10) == [0]
    assert found(Term((), (b"",)), truths=0b10) == [3]
    assert found(Term((b"x",), (b"2", b"3")), truths=0b10) == [1]
    assert found(Term((b"y", b""), (b"1",)), truths=0b10) == [2]
    assert found(Term((b"x",), (b"",)), truths=0b10) == [], "null is not empty"
    both = (Term((), (b"k", b"x")), Term((b"x", b"y"), (b"1", b"2")))
    assert found(*both, truths=0b1000) == [0, 2]
    assert found(*both, truths=0b1110) == [0, 1, 2]
    assert found(truths=1) == [0, 1, 2, 3]


@BOTH
def test_numbers_that_contradict_each_other(module: object) -> None:
    maker = module.CompiledFilter  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="terms"):
        maker(RecordFilter((Term((), (b"a",)),) * (TERMS_MAX + 1), 1))
    passing = maker(FILTERS[0])
    for last, count, last_delta in (
        (BEGIN._replace(place=9), 1, 0),
        (BEGIN._replace(place=-1), 1, 0),
        (BEGIN._replace(previous=-2), 1, 0),
        (BEGIN, -1, 0),
        (BEGIN, 1, -1),
        (BEGIN, 1, 2**31),
    ):
        with pytest.raises(ValueError):
            passing.filter_records(b"12345678", last, count, last_delta)
    with pytest.raises(Damage):
        passing.filter_records(b"", BEGIN, 2**31 - 1, 5)


def test_the_kernel_shows_batches_as_its_twin() -> None:
    dice = Random(7)
    made = [showing_cases.random_case(dice) for _ in range(CASES)]
    room = record_filter_native.ScanBuffers()
    for case in [*made, *(one for one in mutated(made, dice, CASES) if len(one) >= showing_cases.HEAD_BYTES)]:
        assert showing_cases.showed(case, record_filter_native.CompiledFilter, room) == showing_cases.showed(case), (
            case.hex()
        )
    lines = [showing_cases.showed(case) for case in made]
    assert all(
        int(line.split()[0]) == len(case) - showing_cases.HEAD_BYTES for line, case in zip(lines, made, strict=True)
    )
    for kind in range(4):
        assert sum(f"| {kind} " in line for line in lines) > CASES / 20


@BOTH
def test_more_than_one_call_can_tell_takes_another(module: object) -> None:
    record = Record(b"a", b"")
    some = [encode_batch([record, Record(b"z", b"")], base_offset=2 * number) for number in range(SHOWN_MAX + 3)]
    data = b"".join(some)
    passing, room = module.CompiledFilter(FILTERS[1]), module.ScanBuffers()  # type: ignore[attr-defined]
    found, place = passing.filter_batches(data, 0, 0, room)
    assert len(found) == SHOWN_MAX and place == len(data) - sum(map(len, some[-3:]))
    rest, end = passing.filter_batches(data, place, 0, room)
    assert [one.base_offset for one in rest] == [2 * SHOWN_MAX, 2 * SHOWN_MAX + 2, 2 * SHOWN_MAX + 4]
    assert end == len(data)
    with pytest.raises(ValueError):
        passing.filter_batches(data, len(data) + 1, 0, room)
