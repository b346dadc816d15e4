"""A batch with records left out has the others where they were, under the header it had."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.compaction.batch_cleaner import write_survivors
from bmq.log.origin import DamagedBatch
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import BatchHeader, TimestampType, verify_crc
from tests.support.flagged_batch import flagged_batch
from tests.unit.arrow_records.strategies import ORIGIN, one_batch

pytestmark = pytest.mark.unit

TAKEN_FROM_THE_BATCH = (
    "base_offset",
    "leader_epoch",
    "magic",
    "last_offset_delta",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)


@given(batch=one_batch(50), seed=st.integers(0, 2**32), horizon_ms=st.none() | st.integers(0, 2**45))
def test_what_is_kept_stays_as_it_was(batch: bytearray, seed: int, horizon_ms: int | None) -> None:
    records = decode_records(batch)
    keep = bytes(random.Random(seed).choices((0, 1), k=len(records)))
    before = BatchHeader.parse(batch)
    cleaned = write_survivors(batch, ORIGIN, keep, delete_horizon_ms=horizon_ms)
    after = BatchHeader.parse(cleaned)
    verify_crc(cleaned, 0, after)
    kept = tuple(record for record, is_kept in zip(records, keep, strict=True) if is_kept)
    assert all(getattr(before, name) == getattr(after, name) for name in TAKEN_FROM_THE_BATCH)
    assert (after.is_control, after.is_transactional) == (before.is_control, before.is_transactional)
    assert after.timestamp_type is before.timestamp_type
    assert after.record_count == len(kept)
    assert after.size_bytes == len(cleaned)
    if not kept:
        assert (len(cleaned), after.max_timestamp_ms, after.compression) == (61, before.max_timestamp_ms, 0)
        return
    assert decode_records(cleaned) == kept
    assert after.compression == before.compression
    assert after.delete_horizon_ms == horizon_ms
    assert after.max_timestamp_ms == max(record.timestamp_ms for record in kept)
    if horizon_ms is None and len(kept) == len(records):
        assert cleaned == batch
    elif horizon_ms is None and before.timestamp_type is TimestampType.CREATE_TIME:
        assert cleaned == flagged_batch(
            kept,
            base_offset=before.base_offset,
            leader_epoch=before.leader_epoch,
            compression=before.compression,
            producer_id=before.producer_id,
            producer_epoch=before.producer_epoch,
            base_sequence=before.base_sequence,
            is_transactional=before.is_transactional,
            is_control=before.is_control,
            last_offset=before.last_offset,
        )


def test_a_delete_horizon_that_was_set_stays() -> None:
    batch = encode_batch([Record(b"k", None, (), 1_000 + i) for i in range(3)], compression=Compression.LZ4)
    everything = bytes((1, 1, 1))
    first = write_survivors(batch, ORIGIN, everything, delete_horizon_ms=900_000)
    assert write_survivors(first, ORIGIN, everything, delete_horizon_ms=950_000) == first
    second = write_survivors(first, ORIGIN, bytes((0, 1, 1)), delete_horizon_ms=950_000)
    assert BatchHeader.parse(second).delete_horizon_ms == 900_000
    assert [record.timestamp_ms for record in decode_records(second)] == [1_001, 1_002]


def test_what_is_not_one_good_batch_is_damage() -> None:
    batch = encode_batch([Record(b"k", b"v", (), 1_000)])
    keep = b"\1"
    for bad in (batch + batch, batch[:-1], bytes(batch[:-1]) + b"x", b"", bytes(512) + batch):
        with pytest.raises(DamagedBatch):
            write_survivors(bad, ORIGIN, keep)
    with pytest.raises(ValueError, match="2 records to keep or not"):
        write_survivors(batch, ORIGIN, b"\1\1")
