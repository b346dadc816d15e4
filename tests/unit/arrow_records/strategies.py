"""Logs of record batches of every kind, with what the plain decoder says of them as the expected rows."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from bmq.log.origin import Origin
from bmq.log.padding import padding_end
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import TimestampType, batches, rewrite_log_append_time
from tests.support.flagged_batch import flagged_batch
from tests.unit.protocol.strategies import drawn_text

ORIGIN = Origin("orders", 3, "00000000000000000000.log", 0)
CODECS = st.sampled_from(Compression)


def drawn_record(dice: Random) -> Record:
    """Of any key, value, headers and time; by dice, as a strategy for each part takes ten times as long."""
    times_ms = (dice.randint(-1, 2**45), dice.randint(-(2**61), 2**61), dice.choice((-1, 0, 2**45, -(2**61), 2**61)))
    return Record(
        key=_drawn_bytes(dice, 20),
        value=_drawn_bytes(dice, 300),
        headers=tuple((_drawn_name(dice), _drawn_bytes(dice, 20)) for _ in range(dice.randint(0, 3))),
        timestamp_ms=dice.choice(times_ms),
        offset=0,
    )


def _drawn_bytes(dice: Random, most: int) -> bytes | None:
    length = dice.choice((None, 0, dice.randint(1, 3), dice.randint(0, most)))
    return None if length is None else dice.randbytes(length)


def _drawn_name(dice: Random) -> str:
    if dice.randrange(2):
        return dice.choice(("", "a", "trace", "\udcff"))
    return drawn_text(dice, 20)


LEAST_RECORD = Record(key=None, value=None, headers=(), timestamp_ms=0, offset=0)
RECORDS = st.integers(0, 2**64 - 1).map(lambda seed: drawn_record(Random(seed)) if seed else LEAST_RECORD)
"""A failed example shrinks to LEAST_RECORD, or not at all."""


@st.composite
def one_batch(draw: st.DrawFn, base_offset: int, records_min: int = 0) -> bytearray:
    """A batch as a producer, a coordinator or a cleaner makes it: of any codec, dense or with gaps, maybe without records."""
    found = draw(st.lists(RECORDS, min_size=records_min, max_size=8))
    is_dense = bool(found) and draw(st.booleans())
    last_offset: int | None = None
    if not is_dense:
        offset = base_offset
        placed = []
        for record in found:
            offset += draw(st.integers(0, 3))
            placed.append(record._replace(offset=offset))
            offset += 1
        found, last_offset = placed, max(base_offset, offset - 1 + draw(st.integers(0, 3)))
    has_producer = draw(st.booleans())
    fields: dict[str, Any] = {"producer_id": draw(st.integers(0, 3)), "producer_epoch": 2, "base_sequence": 5}
    batch = flagged_batch(
        found,
        base_offset=base_offset,
        last_offset=last_offset,
        leader_epoch=draw(st.integers(-1, 9)),
        compression=draw(CODECS),
        is_transactional=has_producer and draw(st.booleans()),
        is_control=draw(st.booleans()),
        **(fields if has_producer else {}),
    )
    if draw(st.booleans()):
        ((_, header),) = batches(batch)
        rewrite_log_append_time(batch, 0, header, draw(st.integers(0, 2**45)))
    return batch


@st.composite
def logs(draw: st.DrawFn, batches_max: int = 6) -> bytes:
    """Batches in the order of their offsets, padding between them or not, as a segment file holds them."""
    log = bytearray()
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, batches_max))):
        batch = draw(one_batch(offset))
        ((_, header),) = batches(batch)
        log += batch
        offset = header.end_offset + draw(st.integers(0, 2))
        if draw(st.integers(0, 4)) == 0:
            log += bytes(padding_end(len(log)) - len(log))
    return bytes(log)


def batches_in(log: bytes) -> list[bytes]:
    """One by one, without padding."""
    found = []
    place = 0
    while place < len(log):
        if not any(log[place + 8 : place + 12]):
            place = padding_end(place)
            continue
        size = int.from_bytes(log[place + 8 : place + 12], "big") + 12
        found.append(log[place : place + size])
        place += size
    return found


def expected_rows(log: bytes) -> list[dict[str, Any]]:
    """What the plain decoder reads, with all columns; names of headers as bytes."""
    rows = []
    for batch in batches_in(log):
        ((_, header),) = batches(batch)
        rows += [
            {
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "timestamp_type": int(header.timestamp_type is TimestampType.LOG_APPEND_TIME),
                "key": record.key,
                "value": record.value,
                "headers": [
                    {"key": name.encode("utf-8", "surrogateescape"), "value": value} for name, value in record.headers
                ],
                "leader_epoch": header.leader_epoch,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "is_transactional": header.is_transactional,
                "is_control": header.is_control,
            }
            for record in decode_records(batch)
        ]
    return rows
