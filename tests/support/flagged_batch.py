"""Record batches with flags by name, and with gaps between their offsets, as a cleaner leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bmq.protocol.batch_records import Record, append_record, encode_batch
from bmq.protocol.compression import Compression, compress
from bmq.protocol.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    TimestampType,
    assemble_batch,
)


def flagged_batch(
    records: Sequence[Record],
    *,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    last_offset: int | None = None,
    **fields: Any,
) -> bytearray:
    """As encode_batch, with `fields` of it. `last_offset`: each record keeps its own offset, and the batch reaches to it."""
    attributes = TRANSACTIONAL if is_transactional else 0
    attributes |= CONTROL if is_control else 0
    attributes |= LOG_APPEND_TIME if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    batch = encode_batch(records, attributes=attributes, **fields)
    if last_offset is None:
        return batch
    header = BatchHeader.parse(batch)
    body = bytearray()
    for record in records:
        append_record(body, record, record.offset - header.base_offset, record.timestamp_ms - header.base_timestamp_ms)
    codec = header.compression
    data = body if codec is Compression.NONE else compress(codec, body, None)
    return assemble_batch(header._replace(last_offset_delta=last_offset - header.base_offset), data)
