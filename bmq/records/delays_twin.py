"""Delayed records in Python: as native/delays.c, for any bytes, and the oracle of its tests. Pure."""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.delay_layout import (
    DELIVER_AFTER,
    DELIVER_AT,
    OUR_PREFIX,
    TIMER_PREFIX,
    UNUSUAL,
    DelayedSplit,
    DelayTerms,
)
from bmq.records.records_twin import Damage, RecordPlaces, record_places, varint, wrapped

_ENTRY: Final = Struct(">qqii")
_NO_TIMESTAMP: Final = -1
_DIGITS: Final = re.compile(rb"[0-9]{1,19}")


class _Unusual(Exception):
    """A record that is not of the usual kind."""


def split_delays(body: Buffer, record_count: int, last_delta: int, terms: DelayTerms) -> DelayedSplit | None:
    """As delays.split_delays."""
    return split_with_status(body, record_count, last_delta, terms)[1]


def split_with_status(
    body: Buffer, record_count: int, last_delta: int, terms: DelayTerms
) -> tuple[int, DelayedSplit | None]:
    """0, UNUSUAL, or the negative of a kind of damage; and what was found, after 0. Raises ValueError."""
    if record_count < 0 or not 0 <= last_delta < 1 << 31 or not 0 <= terms.now_ms <= terms.time_max_ms <= 2**61:
        raise ValueError("numbers that contradict each other")
    entries, bodies, kept = bytearray(), bytearray(), bytearray()
    held_count = kept_count = 0
    newest_ms = _NO_TIMESTAMP
    try:
        for record in record_places(body, 0, len(body), record_count, last_delta, WANTS_HEADERS):
            own_ms = wrapped(terms.base_timestamp_ms + record.timestamp_delta)
            timestamp_ms = own_ms if terms.append_time_ms is None else terms.append_time_ms
            due_ms = _due_ms(body, record, terms)
            if due_ms <= terms.now_ms:
                kept += body[record.begin : record.stop]
                kept_count += 1
                newest_ms = max(newest_ms, timestamp_ms)
                continue
            _, start = varint(body, record.behind_timestamp, record.stop)
            size_bytes = record.stop - start
            entries += _ENTRY.pack(max(due_ms, terms.floor_ms), timestamp_ms, record.offset_delta, size_bytes)
            bodies += body[start : record.stop]
            held_count += 1
    except Damage as damage:
        return -damage.kind, None
    except _Unusual:
        return UNUSUAL, None
    found = DelayedSplit(held_count, memoryview(entries), memoryview(bodies), kept_count, memoryview(kept), newest_ms)
    return 0, found


def _due_ms(body: Buffer, record: RecordPlaces, terms: DelayTerms) -> int:
    """-1: the record does not ask. Raises _Unusual."""
    asked: dict[bytes, int] = {}
    count, place = varint(body, record.headers, record.stop)
    for _ in range(count):
        length, place = varint(body, place, record.stop)
        name = bytes(body[place : place + length])
        length, place = varint(body, place + length, record.stop)
        if name in (DELIVER_AT, DELIVER_AFTER):
            value = bytes(body[place : place + max(length, 0)])
            if name in asked or _DIGITS.fullmatch(value) is None or int(value) > terms.time_max_ms:
                raise _Unusual
            asked[name] = int(value)
        elif name.startswith(OUR_PREFIX) and not name.startswith(TIMER_PREFIX):
            raise _Unusual
        place += max(length, 0)
    if DELIVER_AT in asked:
        due_ms = asked[DELIVER_AT]
    elif DELIVER_AFTER in asked:
        after = asked[DELIVER_AFTER]
        due_ms = terms.now_ms + (terms.levels_ms[after - 1] if 1 <= after <= len(terms.levels_ms) else after)
    else:
        return -1
    if due_ms > terms.now_ms and (due_ms - terms.now_ms > terms.delay_max_ms or due_ms > terms.time_max_ms):
        raise _Unusual
    return due_ms
