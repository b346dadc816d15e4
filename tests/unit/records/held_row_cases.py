"""Held records for rows, and the lines that tests/fuzz/held_rows_driver.c writes."""

from __future__ import annotations

from array import array
from random import Random
from struct import Struct
from typing import Final, Protocol

from bmq.protocol.compression import Buffer
from bmq.records.held_row_layout import ROW_FIELDS

ENTRY: Final = Struct(">qqii")
HEAD: Final = Struct("<BHHqq")
BLOCK_HEAD: Final = Struct("<qqqI")
BASE_OFFSET: Final = 1_000
START: Final = 7


class Kernel(Protocol):
    """The module held_rows_native, or its twin."""

    def held_rows(
        self, entries: Buffer, base_offset: int, bodies_bytes: int, start: int, above: tuple[int, int]
    ) -> array[int]: ...

    def block_rows(self, block: Buffer, count: int) -> array[int]: ...

    def sort_rows(self, rows: array[int]) -> None: ...

    def write_rows(self, rows: array[int], row: int, bodies: Buffer, block_bytes: int) -> tuple[bytearray, int]: ...


def random_case(dice: Random) -> bytes:
    count = dice.choice((0, 1, 2, 3, 7, 30))
    deltas = list(range(count)) if dice.random() < 0.8 else [dice.randrange(3) for _ in range(count)]
    bodies = [dice.randbytes(dice.choice((0, 1, 5, 40))) for _ in deltas]
    dues = sorted(dice.randrange(9) for _ in deltas) if dice.random() < 0.3 else [dice.randrange(9) for _ in deltas]
    entries = b"".join(
        ENTRY.pack(due, dice.randrange(-1, 99), delta, len(body))
        for due, delta, body in zip(dues, deltas, bodies, strict=True)
    )
    said = sum(map(len, bodies)) + dice.choice((0, 0, 0, 0, 0, 1, -1))
    above = dice.choice(((-1, -1), (-1, -1), (4, BASE_OFFSET + 3), (9, 0)))
    if dice.random() < 0.1:  # as a block has them
        count = len(bodies)
        entries = b""
        bodies = [
            BLOCK_HEAD.pack(due, place, 0, len(body)) + body
            for place, (due, body) in enumerate(zip(sorted(dues), bodies, strict=True))
        ]
    head = HEAD.pack(count, max(said, 0), dice.choice((0, 1, 30, 80, 4_000)), *above)
    return head + entries + b"".join(bodies)


def is_block(kernel: Kernel, block: Buffer, count: int) -> int:
    try:
        kernel.block_rows(block, count)
    except ValueError:
        return 0
    return 1


def line_by(kernel: Kernel, case: bytes) -> str:
    count, said, block_bytes, *above = HEAD.unpack_from(case)
    rest = case[HEAD.size :]
    whole = is_block(kernel, rest, count)
    split = min(count, len(rest) // ENTRY.size) * ENTRY.size
    bodies = bytes(START) + rest[split:]
    try:
        rows = kernel.held_rows(rest[:split], BASE_OFFSET, said, START, (above[0], above[1]))
    except ValueError:
        return f"{whole} -1"
    parts, has_twice, row = [f"{whole} {len(rows) // ROW_FIELDS}"], 0, 0
    try:
        kernel.sort_rows(rows)
    except ValueError:
        has_twice = 1
    parts.append(f"{has_twice}")
    while row < len(rows) // ROW_FIELDS:
        before = row
        try:
            block, row = kernel.write_rows(rows, row, bodies, block_bytes)
        except ValueError:
            block = bytearray()
        if not block:
            parts.append("none")
            break
        parts += (block.hex(), f"{is_block(kernel, block, row - before)}")
    return " ".join(parts)
