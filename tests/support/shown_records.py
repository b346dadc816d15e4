"""The records of a batch in an answer, as clients have them: none of a batch that stands for skipped offsets."""

from __future__ import annotations

from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.compression import Buffer
from bmq.protocol.control_batch import own_control_key
from bmq.protocol.record_batch import BatchHeader
from bmq.records.skipped_offsets import SKIPPED_TYPE

_KEY = own_control_key(SKIPPED_TYPE)


def shown_records(batch: Buffer, position: int = 0) -> tuple[Record, ...]:
    """Markers of transactions are among them."""
    records = tuple(decode_records(batch, position))
    is_control = BatchHeader.parse(batch, position).is_control
    return tuple(record for record in records if not (is_control and record.key == _KEY))
