"""Opens a produced batch whose records are read one by one on the event loop, and bounds that work. Pure."""

from __future__ import annotations

from typing import Final

from bmq.protocol.compression import BadCompressedData, Buffer, decompress
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader
from bmq.records.batch_layout import WANTS_VALUE
from bmq.records.records_twin import record_places, varint

OPENED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of the decompressed records."""
RECORDS_MAX: Final = 10_000
"""Most records of a batch: each takes some microseconds of the event loop."""
HEADERS_MAX: Final = 20_000
"""Headers of all records together: each takes a microsecond or two of the event loop."""
_HEADER_BYTES_MIN: Final = 2
"""The lengths of an empty name and of no value."""


class BatchTooLong(ValueError):
    """The batch is too long to read its records one by one. Its producer may send it in parts."""


def opened_body(batch: memoryview, header: BatchHeader, which: str) -> bytes:
    """The batch's records, decompressed. `which`: names the kind of batch in error messages. Raises BatchTooLong."""
    try:
        return bytes(decompress(header.compression, batch[HEADER_BYTES : header.size_bytes], OPENED_BYTES_MAX))
    except BadCompressedData as error:
        raise BatchTooLong(
            f"a compressed batch {which} may have {OPENED_BYTES_MAX} bytes of records: {error}"
        ) from error


def require_few_records(header: BatchHeader, which: str, records_max: int | None = None) -> None:
    """Refuse a batch with more than `records_max` records (default RECORDS_MAX). Raises BatchTooLong."""
    bound = RECORDS_MAX if records_max is None else records_max
    if header.record_count > bound:
        raise BatchTooLong(f"a batch of {header.record_count} records {which}, {bound} are allowed: send smaller ones")


def require_few_headers(body: Buffer, header: BatchHeader) -> None:
    """Raises BatchTooLong for a batch with more than HEADERS_MAX, without reading them. Perhaps Damage."""
    if len(body) <= HEADERS_MAX * _HEADER_BYTES_MIN:
        return
    places = record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_VALUE)
    count = sum(max(varint(body, one.value + max(one.value_bytes, 0), one.stop)[0], 0) for one in places)
    if count > HEADERS_MAX:
        raise BatchTooLong(
            f"a batch whose records have {count} headers together, {HEADERS_MAX} are allowed: send smaller ones"
        )
