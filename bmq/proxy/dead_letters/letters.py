"""Makes the records of dead letters (KIP-1191): headers that say why, and a copy of the rejected record. Pure.

Unlike in Kafka, the copy has the record's own headers as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bmq.protocol.batch_records import Record
from bmq.protocol.dead_letters import DeadRecords, headers_of
from bmq.protocol.record_batch import HEADER_BYTES

COPY_HEADER: Final = "bmq-dead-letter-copy"
"""Header that says why a dead letter has no copy although its group wants one: MISSING or TOO_LARGE."""
MISSING: Final = b"missing"
TOO_LARGE: Final = b"too-large"
_RECORD_OVERHEAD_BYTES: Final = 32
_HEADER_OVERHEAD_BYTES: Final = 10


class Letters(NamedTuple):
    """Some dead letters. `end`: the offset behind the last rejected record that has one among `records`."""

    records: list[Record]
    end: int


def letters_of(
    dead: DeadRecords,
    topic: str,
    copies: Mapping[int, Record],
    end: int,
    now_ms: int,
    *,
    batch_bytes_max: int,
    bytes_wanted: int,
) -> Letters:
    """The dead letters of the records from `dead.first` on, before `end`, up to `bytes_wanted` together, and at least one.

    `topic`: name of the records' topic. `copies`: the records by offset; a missing one is not in the log, or cannot be read.
    `batch_bytes_max`: that of the dead letters' topic; a copy that exceeds it alone is left out.
    """
    letters: list[Record] = []
    total_bytes = HEADER_BYTES
    for offset in range(dead.first, min(end, dead.last + 1)):
        letter = _letter(dead, topic, offset, copies.get(offset), now_ms)
        size_bytes = size_of(letter)
        if HEADER_BYTES + size_bytes > batch_bytes_max:
            letter = _without_copy(dead, topic, offset, TOO_LARGE, now_ms)
            size_bytes = size_of(letter)
        if letters and total_bytes + size_bytes > min(bytes_wanted, batch_bytes_max):
            return Letters(letters, offset)
        total_bytes += size_bytes
        letters.append(letter)
    return Letters(letters, dead.first + len(letters))


def _letter(dead: DeadRecords, topic: str, offset: int, copy: Record | None, now_ms: int) -> Record:
    headers = headers_of(dead, topic, offset)
    if not dead.terms.is_copying:
        return Record(None, None, headers, now_ms)
    if copy is None:
        return _without_copy(dead, topic, offset, MISSING, now_ms)
    return Record(copy.key, copy.value, [*headers, *copy.headers], now_ms)


def _without_copy(dead: DeadRecords, topic: str, offset: int, why: bytes, now_ms: int) -> Record:
    headers = [*headers_of(dead, topic, offset), (COPY_HEADER, why)]
    return Record(None, None, headers, now_ms)


def size_of(record: Record) -> int:
    """Upper estimate of the record's bytes in an uncompressed batch."""
    size_bytes = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, content in record.headers:
        size_bytes += _HEADER_OVERHEAD_BYTES + len(name.encode("utf-8", "surrogateescape")) + len(content or b"")
    return size_bytes
