"""Rows of held records: by the kernel as by its twin, sorted, and in blocks that a run's reader takes."""

from __future__ import annotations

from array import array
from random import Random
from struct import pack

import pytest
from crc32c import crc32c

from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_file import records_in
from bmq.records import held_rows_native, held_rows_twin
from bmq.records.held_row_layout import CANCELS
from tests.fuzz.kernel_cases import mutated
from tests.unit.records.held_row_cases import ENTRY, HEAD, Kernel, line_by, random_case

pytestmark = pytest.mark.unit

CASES = 1_500
BOTH = pytest.mark.parametrize("kernel", [held_rows_native, held_rows_twin], ids=["native", "twin"])


def test_the_kernel_answers_as_its_twin() -> None:
    dice, whole, blocks = Random(5), 0, 0
    made = [random_case(dice) for _ in range(CASES)]
    for case in (*made, *(one for one in mutated(made, dice, CASES) if len(one) >= HEAD.size)):
        line = line_by(held_rows_twin, case)
        assert line_by(held_rows_native, case) == line, case.hex()
        whole += " 0 " in line
        blocks += line.startswith("1 ")
    assert whole > CASES / 4 and blocks > CASES / 30


@BOTH
def test_a_block_has_records_in_order_and_cancellations(kernel: Kernel) -> None:
    bodies = b"-onetwo"
    entries = ENTRY.pack(20, 5, 0, 3) + ENTRY.pack(10, 6, 2, 3)
    rows = kernel.held_rows(entries, 100, 6, 1, (-1, -1))
    rows.extend((15, 7, -1, 0, CANCELS))
    kernel.sort_rows(rows)
    body, behind = kernel.write_rows(rows, 0, bodies, 1 << 16)
    assert behind == 3
    block = pack("<II", 3, crc32c(body)) + body
    found = [one._replace(body=bytes(one.body)) for one in records_in(block)]
    assert found == [
        DueRecord(102, 10, 6, b"two"),
        DueRecord(7, 15, -1, b"", is_cancellation=True),
        DueRecord(100, 20, 5, b"one"),
    ]
    assert kernel.write_rows(rows, 1, bodies, 1)[1] == 2 and kernel.write_rows(rows, 3, bodies, 1) == (bytearray(), 3)


@BOTH
def test_a_block_is_read_as_it_was_written(kernel: Kernel) -> None:
    bodies = b"onetwo"
    rows = array("q", (5, 1, 8, 0, 3, 5, 2, -1, 0, CANCELS, 6, 0, 9, 3, 3))
    block, _ = kernel.write_rows(rows, 0, bodies, 1 << 16)
    found = kernel.block_rows(block, 3)
    for place in range(0, len(rows), 5):
        assert found[place : place + 3] == rows[place : place + 3] and found[place + 4] == rows[place + 4]
    assert block[found[3] : found[3] + 3] == b"one" and block[found[13] : found[13] + 3] == b"two"
    for data, count in (
        (block, 2),
        (block, 4),
        (block[:-1], 3),
        (block + b"x", 3),
        (block, -1),
        (block, 1 << 40),
        (b"", 1),
    ):
        with pytest.raises(ValueError, match=r"."):
            kernel.block_rows(data, count)
    backwards = kernel.write_rows(rows[5:10] + rows[:5], 0, bodies, 1 << 16)[0]
    with pytest.raises(ValueError, match=r"."):
        kernel.block_rows(backwards, 2)


@BOTH
def test_what_was_delivered_has_no_row(kernel: Kernel) -> None:
    entries = b"".join(ENTRY.pack(due_ms, 0, delta, 0) for delta, due_ms in enumerate((5, 6, 5, 7)))
    rows = kernel.held_rows(entries, 10, 0, 0, (5, 10))
    assert list(zip(rows[0::5], rows[1::5], strict=True)) == [(6, 11), (5, 12), (7, 13)]


@BOTH
def test_a_long_record_has_a_block_of_its_own(kernel: Kernel) -> None:
    body = Random(1).randbytes(300_000)
    rows = kernel.held_rows(ENTRY.pack(5, 0, 0, len(body)), 1, len(body), 0, (-1, -1))
    block, behind = kernel.write_rows(rows, 0, body, 1_000)
    assert behind == 1 and block[28:] == body


@BOTH
def test_rows_that_contradict_themselves_are_refused(kernel: Kernel) -> None:
    entry = ENTRY.pack(5, 0, 0, 3)
    for base_offset, bodies_bytes, start in ((-1, 3, 0), (0, 2, 0), (0, 4, 0), (0, 3, -1), (2**62 + 1, 3, 0)):
        with pytest.raises(ValueError, match=r"."):
            kernel.held_rows(entry, base_offset, bodies_bytes, start, (-1, -1))
    twice = array("q", (1, 2, 0, 0, 0, 1, 2, 0, 0, 0))
    with pytest.raises(ValueError, match="two held records"):
        kernel.sort_rows(twice)
    for body, length in ((0, 4), (1, 3), (-1, 1), (0, -2), (2**62, 2**31)):
        with pytest.raises(ValueError, match=r"."):
            kernel.write_rows(array("q", (1, 2, 0, body, length)), 0, b"abc", 99)
    with pytest.raises(ValueError, match=r"."):
        kernel.write_rows(twice, 3, b"", 99)
