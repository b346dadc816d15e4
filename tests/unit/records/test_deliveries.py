"""Records of a delivery: by the kernel as by its twin, and as a reader takes them."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from bmq.protocol.batch_records import Record, decode_records, encode_batch_of
from bmq.records import deliveries_native, deliveries_twin
from bmq.records.held_row_layout import DELIVERED_BYTES_MAX, DueTerms
from bmq.records.records_twin import Damage
from tests.fuzz.kernel_cases import mutated
from tests.unit.records.delivery_cases import ENTRY, HEAD, Kernel, body_of, line_by, random_case

pytestmark = pytest.mark.unit

CASES = 1_500
BOTH = pytest.mark.parametrize("kernel", [deliveries_native, deliveries_twin], ids=["native", "twin"])
ALL = DueTerms(100, 0, (-1, -1), (2**62, 0))


def test_the_kernel_answers_as_its_twin() -> None:
    dice, whole = Random(6), 0
    made = [random_case(dice) for _ in range(CASES)]
    for case in (*made, *(one for one in mutated(made, dice, CASES) if len(one) >= HEAD.size)):
        line = line_by(deliveries_twin, case)
        assert line_by(deliveries_native, case) == line, case.hex()
        whole += "-" not in line
    assert whole > CASES / 2


@BOTH
def test_a_delivered_record_has_what_was_produced_and_three_headers(kernel: Kernel) -> None:
    produced = [Record(b"k", None, (("a", b"1"), ("b", None))), Record(None, b"v" * 300)]
    bodies = [body_of(one) for one in produced]
    entries = ENTRY.pack(20, -1, 3, len(bodies[0])) + ENTRY.pack(10, 7, 5, len(bodies[1]))
    rows, taken = kernel.due_rows(entries, b"".join(bodies), ALL)
    assert bytes(taken) == b"".join(bodies)
    body = kernel.delivered_records(rows, array("q", [0, 1]), [taken, bytes(taken)])
    first, second = decode_records(encode_batch_of(body, 2, 50))
    ours = [("bmq-timer-offset", b"103"), ("bmq-timer-due", b"20"), ("bmq-timer-created", b"-1")]
    assert (first.key, first.value, first.timestamp_ms) == (b"k", None, 50)
    assert list(first.headers) == [("a", b"1"), ("b", None), *ours]
    assert (second.key, second.value, second.offset) == (None, b"v" * 300, 1)
    assert [value for _, value in second.headers] == [b"105", b"10", b"7"]
    assert kernel.delivered_records(array("q"), array("q"), []) == b""


@BOTH
def test_only_what_lies_between_two_places_is_taken(kernel: Kernel) -> None:
    entries = b"".join(ENTRY.pack(due_ms, 0, delta, 1) for delta, due_ms in enumerate((5, 6, 5, 7, 7)))
    rows, taken = kernel.due_rows(entries, b"abcde", DueTerms(10, 3, (5, 10), (7, 13)))
    assert bytes(taken) == b"bcd"
    assert list(zip(rows[0::5], rows[1::5], rows[3::5], strict=True)) == [(6, 11, 3), (5, 12, 4), (7, 13, 5)]


@BOTH
def test_the_longest_numbers_fit(kernel: Kernel) -> None:
    body = body_of(Record(None, None))
    row = array("q", (2**63 - 1, 2**63 - 1, -(2**63), 0, len(body)))
    made = kernel.delivered_records(row, array("q", [0]), [body])
    assert len(made) <= len(body) + DELIVERED_BYTES_MAX
    assert [value for _, value in decode_records(encode_batch_of(made, 1, 0))[0].headers] == [
        *(b"%d" % (2**63 - 1),) * 2,
        b"-%d" % 2**63,
    ]


@BOTH
def test_what_contradicts_itself_is_refused(kernel: Kernel) -> None:
    entry, body = ENTRY.pack(5, 0, 0, 3), body_of(Record(None, b"v"))
    for bodies, terms in (
        (b"ab", ALL),
        (b"abcd", ALL),
        (b"abc", ALL._replace(base_offset=-1)),
        (b"abc", ALL._replace(start=-1)),
        (b"abc", ALL._replace(base_offset=2**62 + 1)),
    ):
        with pytest.raises(ValueError, match=r"contradict|other bodies"):
            kernel.due_rows(entry, bodies, terms)
    size = len(body)
    for start, length, part in ((0, size + 1, 0), (1, size, 0), (-1, size, 0), (0, -1, 0), (0, size, 1), (0, size, -1)):
        with pytest.raises(ValueError, match=r"contradict|other bodies"):
            kernel.delivered_records(array("q", (5, 0, 0, start, length)), array("q", [part]), [body])
    with pytest.raises(ValueError, match=r"contradict|other bodies"):
        kernel.delivered_records(array("q", (5, 0, 0, 0)), array("q", [0]), [body])
    for damaged in (b"", body[:-1], b"\xff" * 11, b"\x03\x01\x01", b"\x01\x01\x03"):
        with pytest.raises(Damage):
            kernel.delivered_records(array("q", (5, 0, 0, 0, len(damaged))), array("q", [0]), [damaged + b"x"])
