"""The records of a batch in an answer, as clients have them: none of a batch that stands for skipped offsets."""

from __future__ import annotations

from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.compression import Buffer
from bmq.protocol.control_batch import OwnControlType, own_control_key
from bmq.protocol.record_batch import BatchHeader

_KEY = own_control_key(OwnControlType.SKIPPED_OFFSETS)


def shown_records(batch: Buffer, position: int = 0) -> tuple[Record, ...]:
    """Markers of transactions are among them."""
    records = tuple(decode_records(batch, position))
    is_control = BatchHeader.parse(batch, position).is_control
    return tuple(record for record in records if not (is_control and record.key == _KEY))
