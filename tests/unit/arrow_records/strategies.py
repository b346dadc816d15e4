"""Logs of record batches of every kind, with what the plain decoder says of them as the expected rows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bmq.log.origin import Origin
from bmq.log.padding import padding_end
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import TimestampType, batches, rewrite_log_append_time
from tests.support.flagged_batch import flagged_batch

ORIGIN = Origin("orders", 3, "00000000000000000000.log", 0)
CODECS = st.sampled_from(Compression)

NAMES = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(["a", "trace", "\udcff"])
RECORDS = st.builds(
    Record,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=300),
    headers=st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=3).map(tuple),
    timestamp_ms=st.integers(-1, 2**45) | st.integers(-(2**61), 2**61),
    offset=st.just(0),
)


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
