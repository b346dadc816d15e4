"""A record batch with some of its records: as Kafka's log cleaner leaves one. Pure.

The batch keeps its offsets, epoch, producer and sequences, so positions and transactions go on as with the whole one. Its
records keep their offset and time deltas, so those that stay are copied as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from bmq.protocol.compression import Buffer, compress
from bmq.protocol.record_batch import COMPRESSION_MASK, BatchHeader, assemble_batch


def with_records(header: BatchHeader, body: Buffer, kept: Sequence[slice]) -> bytearray:
    """The batch with the records at these places of its decompressed records, in order; perhaps none.

    The greatest time in the header stays: it is that of all records, and look-ups by time take it for a bound.
    """
    if not kept:
        return assemble_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK, record_count=0), b"")
    data = b"".join([bytes(body[place]) for place in kept])
    return assemble_batch(header._replace(record_count=len(kept)), compress(header.compression, data))
