"""Held records that are due, and the lines that tests/fuzz/deliveries_driver.c writes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from random import Random
from struct import Struct
from typing import Final, Protocol

from bmq.protocol.batch_records import Record, encode_records
from bmq.protocol.compression import Buffer
from bmq.records.batch_layout import BAD_CALL
from bmq.records.held_row_layout import BODY, DueTerms
from bmq.records.records_twin import Damage, varint

ENTRY: Final = Struct(">qqii")
HEAD: Final = Struct("<BBqqqq")
BASE_OFFSET: Final = 1_000
START: Final = 7


class Kernel(Protocol):
    """The module deliveries_native, or its twin."""

    def due_rows(self, entries: Buffer, bodies: Buffer, terms: DueTerms) -> tuple[array[int], bytearray]: ...

    def delivered_records(self, rows: array[int], part_of: array[int], parts: Sequence[Buffer]) -> bytearray: ...


def body_of(record: Record) -> bytes:
    """Its bytes from the length of its key on."""
    data = bytes(encode_records([record], 0))
    _, place = varint(data, 0, len(data))
    return data[place + 3 :]  # behind attributes and two deltas of a byte each


def random_body(dice: Random) -> bytes:
    def some(*lengths: int) -> bytes | None:
        return dice.choice((None, dice.randbytes(dice.choice(lengths))))

    headers = tuple(("h" * dice.randrange(3), some(0, 3)) for _ in range(dice.choice((0, 0, 1, 2, 70))))
    return body_of(Record(some(0, 1, 70), some(0, 5, 200), headers))


def random_case(dice: Random) -> bytes:
    count = dice.choice((0, 1, 2, 3, 7))
    bodies = [random_body(dice) if dice.random() < 0.9 else dice.randbytes(dice.randrange(9)) for _ in range(count)]
    entries = b"".join(
        ENTRY.pack(dice.randrange(9), dice.choice((-1, 0, 99, 2**62, -(2**63))), delta, len(body))
        for delta, body in enumerate(bodies)
    )
    above = dice.choice(((-1, -1), (-1, -1), (4, BASE_OFFSET + 3)))
    until = dice.choice(((2**62, 0), (2**62, 0), (6, BASE_OFFSET + 1), (0, 0)))
    return HEAD.pack(count, dice.choice((0, 0, 0, 1)), *above, *until) + entries + b"".join(bodies)


def line_by(kernel: Kernel, case: bytes) -> str:
    count, other_part, *places = HEAD.unpack_from(case)
    rest = case[HEAD.size :]
    split = min(count, len(rest) // ENTRY.size) * ENTRY.size
    terms = DueTerms(BASE_OFFSET, START, (places[0], places[1]), (places[2], places[3]))
    try:
        rows, taken = kernel.due_rows(rest[:split], rest[split:], terms)
    except ValueError:
        return f"-{BAD_CALL}"
    assert len(rows) % 5 == 0 and all(place >= START for place in rows[BODY::5])
    line = f"{len(rows) // 5} {taken.hex()} "
    try:
        parts = [b"", bytes(START) + taken]
        part_of = array("q", [1 + other_part] * (len(rows) // 5))
        return line + kernel.delivered_records(rows, part_of, parts).hex()
    except ValueError:
        return f"{line}-{BAD_CALL}"
    except Damage as damage:
        return f"{line}-{damage.kind}"
