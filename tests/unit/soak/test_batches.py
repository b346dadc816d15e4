"""Batches are taken apart as they were put together, and everything that is wrong with them is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.wire import record_batch
from tests.soak.cluster.batches import Damaged, batches_of

pytestmark = pytest.mark.campaign("unit")

BASE_OFFSET, LEADER_EPOCH = 1_000, 7


def written(values: list[bytes], base_offset: int = BASE_OFFSET, leader_epoch: int = LEADER_EPOCH) -> bytes:
    """As a broker hands it out: what lies outside the checksum is filled in."""
    sent = record_batch(values)
    return base_offset.to_bytes(8, "big") + sent[8:12] + leader_epoch.to_bytes(4, "big") + sent[16:]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_records_and_offsets_come_out_as_they_went_in(values: list[bytes]) -> None:
    (batch,) = batches_of(written(values))
    assert (batch.base_offset, batch.end_offset) == (BASE_OFFSET, BASE_OFFSET + len(values))
    assert (batch.leader_epoch, batch.record_count) == (LEADER_EPOCH, len(values))
    assert list(batch.records()) == list(enumerate(values, BASE_OFFSET))


@given(st.integers(0, 200))
def test_what_was_cut_off_at_the_end_is_left_out(length: int) -> None:
    first, second = written([b"a"]), written([b"b" * 100], BASE_OFFSET + 1)
    found = list(batches_of(first + second[:length]))
    assert [batch.base_offset for batch in found] == [BASE_OFFSET, BASE_OFFSET + 1][: 1 + (length >= len(second))]


@given(st.integers(21, 100), st.integers(1, 255))
def test_a_changed_byte_is_found(position: int, change: int) -> None:
    data = bytearray(written([b"x" * 100]))
    data[position] ^= change
    with pytest.raises(Damaged):
        list(batches_of(bytes(data)))


def test_other_formats_are_refused() -> None:
    data = bytearray(written([b"x"]))
    data[16] = 1
    with pytest.raises(Damaged, match="magic 1"):
        list(batches_of(bytes(data)))


def test_records_that_are_longer_than_their_batch_are_found() -> None:
    (batch,) = batches_of(written([b"x" * 50]))
    short = type(batch)(
        batch.base_offset, batch.end_offset, batch.leader_epoch, batch.checksum, batch.record_count, batch.body[:20]
    )
    with pytest.raises(Damaged):
        list(short.records())
