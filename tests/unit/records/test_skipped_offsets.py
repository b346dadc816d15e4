"""bmq/records/skipped_offsets.py: a batch that moves a reader's position, and has nothing for it."""

from __future__ import annotations

import pytest

from bmq.protocol.batch_records import decode_records
from bmq.protocol.control_batch import control_type_of
from bmq.protocol.record_batch import BatchHeader, verify_crc
from bmq.records.skipped_offsets import skipped_offsets

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("last_offset_delta", [0, 1, 63, 64, 2**31 - 1])
def test_the_record_is_at_the_last_offset_and_of_a_type_that_clients_skip(last_offset_delta: int) -> None:
    batch = skipped_offsets(7, last_offset_delta, 3)
    header = BatchHeader.parse(batch)
    verify_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.end_offset, header.leader_epoch) == (7, 8 + last_offset_delta, 3)
    assert header.is_control and not header.has_producer_id
    (record,) = decode_records(batch)
    assert (record.key, record.value, record.headers) == (b"\0\1\0\x67", None, ())
    assert control_type_of(record) is None
