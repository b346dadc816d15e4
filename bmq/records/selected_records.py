"""A record batch with some of its records: as Kafka's log cleaner leaves one. Pure.

The batch keeps its offsets, epoch, producer and sequences, so positions and transactions go on as with the whole one. Its
records keep their offset and time deltas, so those that stay are copied as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bmq.protocol.compression import Buffer, compress
from bmq.protocol.record_batch import COMPRESSION_MASK, BatchHeader, assemble_batch
from bmq.records.records_twin import RecordPlaces, varint


def headers_of(body: Buffer, record: RecordPlaces) -> Iterator[tuple[bytes, bytes | None]]:
    """Name and value of each header of a record, whose places were read with WANTS_HEADERS."""
    count, place = varint(body, record.headers, record.stop)
    for _ in range(count):
        length, place = varint(body, place, record.stop)
        name = bytes(body[place : place + length])
        length, place = varint(body, place + length, record.stop)
        yield name, None if length < 0 else bytes(body[place : place + length])
        place += max(length, 0)


def with_records(header: BatchHeader, body: Buffer, kept: Sequence[slice]) -> bytearray:
    """The batch with the records at these places of its decompressed records, in order; perhaps none.

    The greatest time in the header stays: it is that of all records, and look-ups by time take it for a bound.
    """
    if not kept:
        return assemble_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK, record_count=0), b"")
    data = b"".join([bytes(body[place]) for place in kept])
    return assemble_batch(header._replace(record_count=len(kept)), compress(header.compression, data))
