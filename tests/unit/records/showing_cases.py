"""Batches back to back, and filters of their records, for the kernel's `show` and for its twin.

A case is two bytes: which of record_filter_cases.FILTERS, and the offset to begin at; then batches.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import CONTROL
from bmq.records.record_filter_layout import SHOWN_PART
from bmq.records.record_filter_twin import CompiledFilter, ScanBuffers
from tests.unit.records.record_filter_cases import FILTERS, random_records

HEAD_BYTES: Final = 2


def random_case(dice: Random) -> bytes:
    batches, offset = b"", 0
    for _ in range(dice.randint(0, 5)):
        records = random_records(dice) or [Record(None, b"")]
        batch = encode_batch(
            records,
            base_offset=offset,
            leader_epoch=dice.choice((3, 3, 3, 4)),
            compression=dice.choice((Compression.NONE,) * 5 + (Compression.LZ4,)),
            attributes=dice.choice((0,) * 6 + (CONTROL,)),
        )
        batches += bytes(batch)
        offset += len(records) + dice.choice((0, 0, 3))
    return bytes((dice.randrange(len(FILTERS)), dice.randint(0, 12))) + batches


def showed(case: bytes, maker: Any = CompiledFilter, room: Any = None) -> str:
    """The case's answer as a line: where the next batch begins, then what is shown, with the bytes of rewritten batches."""
    room = room or ScanBuffers()
    found, place = maker(FILTERS[case[0] % len(FILTERS)]).filter_batches(case[HEAD_BYTES:], 0, case[1], room)
    line = str(place)
    for one in found:
        line += " | " + " ".join(map(str, one))
        if one.kind == SHOWN_PART:
            line += " " + bytes(room.out[one.place : one.place + one.size_bytes]).hex()
    return line
