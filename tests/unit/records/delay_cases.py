"""Bodies of batches with delayed records, and the lines that tests/fuzz/delays_driver.c writes."""

from __future__ import annotations

from random import Random
from typing import Final

from bmq.protocol.batch_records import Record, append_record
from bmq.records.delay_layout import DelayedSplit, DelayTerms
from bmq.records.delays_twin import split_with_status

NOW_MS: Final = 1_700_000_000_000
TERMS: Final = DelayTerms((1_000, 5_000, 10_000), NOW_MS, 3_600_000, 1 << 42, NOW_MS + 20, NOW_MS - 100, None)
NAMES: Final = ("bmq-deliver-at", "bmq-deliver-after", "bmq-deliver-af", "bmq-timer-offset", "bmq-cancel", "own", "")
"""Mostly usual ones: a batch with another header of ours is looked at elsewhere."""
WEIGHTS: Final = (8, 8, 1, 4, 1, 4, 2)
VALUES: Final = (
    *(b"1", b"3", b"4", b"0", b"500", b"3600000", b"3600001", b"", b"soon", b"-1", b"007", None),
    *(b"%d" % (NOW_MS + after_ms) for after_ms in (-1, 0, 1, 15, 50, 3_600_000, 3_600_001)),
    *(b"%d" % number for number in (2**42, 2**42 + 1, 2**63, 9_999_999_999_999_999_999, 10**19)),
)


def random_records(dice: Random) -> list[Record]:
    def header() -> tuple[str, bytes | None]:
        (name,) = dice.choices(NAMES, WEIGHTS)
        return name, dice.choice(VALUES if name.startswith("bmq-del") and dice.random() < 0.6 else VALUES[1:6])

    return [
        Record(
            dice.choice((None, b"", b"key")),
            dice.choice((None, b"", dice.randbytes(dice.randrange(70)))),
            [header() for _ in range(dice.choice((0, 0, 1, 1, 1, 2, 3)))],
            dice.choice((NOW_MS, NOW_MS - 50, NOW_MS + 1)),
        )
        for _ in range(dice.randint(1, 6))
    ]


def body_of(records: list[Record]) -> bytearray:
    body = bytearray()
    for number, record in enumerate(records):
        append_record(body, record, number, record.timestamp_ms - TERMS.base_timestamp_ms)
    return body


def random_case(dice: Random) -> bytes:
    records = random_records(dice)
    return bytes((len(records), len(records) - 1, dice.randrange(2))) + bytes(body_of(records))


def split_line(case: bytes) -> str:
    terms = TERMS._replace(append_time_ms=NOW_MS if case[2] else None)
    status, found = split_with_status(case[3:], case[0], case[1], terms)
    return f"{status}" if found is None else f"{status} {line_of(found)}"


def line_of(found: DelayedSplit) -> str:
    parts = (found.entries, found.bodies, found.kept)
    return " ".join((f"{found.held_count} {found.kept_count} {found.newest_ms}", *(part.hex() for part in parts)))
