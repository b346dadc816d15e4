"""Bodies of record batches, whole and with bytes that were changed, cut or added, beside headers that may lie."""

from __future__ import annotations

from array import array

from hypothesis import strategies as st

from bmq.protocol.batch_records import Record
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader
from bmq.records.batch_layout import BATCH, Bodies
from tests.support.flagged_batch import flagged_batch

KEYS = st.none() | st.binary(max_size=3) | st.binary(min_size=7, max_size=17) | st.binary(min_size=250, max_size=260)
RECORDS = st.builds(
    Record,
    key=KEYS,
    value=st.none() | st.binary(max_size=200),
    headers=st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3).map(tuple),
    timestamp_ms=st.integers(-1, 2**45) | st.integers(-(2**61), 2**61),
    offset=st.just(0),
)
ATTRIBUTES = st.sampled_from([0, 0, 1 << 3, 1 << 4, 1 << 5, 1 << 6, (1 << 3) | (1 << 6)])


@st.composite
def damaged(draw: st.DrawFn, body: bytes) -> bytes:
    """The body as it is, or a neighbour of it."""
    changed = bytearray(body)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        place = draw(st.integers(0, len(changed)))
        kind = draw(st.integers(0, 3))
        if kind == 0 and place < len(changed):
            changed[place] = draw(st.sampled_from([0, 1, 2, 127, 128, 255]) | st.integers(0, 255))
        elif kind == 1:
            del changed[place:]
        elif kind == 2:
            changed[place:place] = draw(st.sampled_from([b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 4, b"\x7f"]))
        elif place < len(changed):
            del changed[place]
    return bytes(changed)


@st.composite
def bodies(draw: st.DrawFn) -> Bodies:
    """Some batches, each in one piece of memory with the others."""
    data, entries = bytearray(draw(st.binary(max_size=3))), bytearray()
    starts, ends = array("q"), array("q")
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 4))):
        records = draw(st.lists(RECORDS, max_size=5))
        last_offset = offset + len(records) - 1 if records else offset
        batch = flagged_batch(records, base_offset=offset, last_offset=last_offset)
        header = BatchHeader.parse(batch)._replace(attributes=draw(ATTRIBUTES))
        if draw(st.integers(0, 4)) == 0:
            count = draw(st.sampled_from([0, header.record_count + 1, 2**31 - 1]))
            header = header._replace(record_count=count, last_offset_delta=draw(st.integers(0, 2**31 - 1)))
        entries += BATCH.pack(*header, 0, 0)
        starts.append(len(data))
        data += draw(damaged(bytes(batch[HEADER_BYTES:])))
        ends.append(len(data))
        offset = last_offset + 1 + draw(st.integers(0, 2))
    # What the owner of the memory knows before any walk: no more records than bytes.
    for number, header_and_place in enumerate(list(BATCH.iter_unpack(entries))):
        fields = list(header_and_place)
        fields[12] = min(fields[12], ends[number] - starts[number])
        BATCH.pack_into(entries, number * BATCH.size, *fields)
    return Bodies(bytes(data), bytes(entries), starts, ends, len(starts))
