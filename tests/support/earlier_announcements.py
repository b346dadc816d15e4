"""Control batches of ours as earlier releases wrote them: with the key's version that clients know."""

from __future__ import annotations

from bmq.protocol.batch_records import decode_records, encode_batch
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import CONTROL


def of_earlier_release(batch: Buffer) -> bytearray:
    """The same announcement; logs may have it for years."""
    (record,) = decode_records(batch)
    assert record.key is not None and record.key[:2] == b"\0\1"
    return encode_batch((record._replace(key=b"\0\0" + record.key[2:]),), attributes=CONTROL)
