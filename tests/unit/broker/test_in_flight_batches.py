"""Which of the waiting batches go into the segment that is open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.partition_events import Limits
from bmq.log.partition_log import Batch

pytestmark = pytest.mark.unit


def sizes_taken(sizes: Sequence[int]) -> list[int]:
    """Sizes of the batches that an empty segment of 100 bytes takes."""
    log = InFlightBatches(0)
    for size in sizes:
        log.place(Batch(1, size))
    return [taken.size_bytes for taken in log.take_until_segment_is_full(Limits(segment_bytes=100, preopen_bytes=90))]


def test_a_segment_rolls_by_size_but_takes_one_batch_of_any_size() -> None:
    assert sizes_taken([500, 1]) == [500]
    assert sizes_taken([60, 40, 1]) == [60, 40]
    assert sizes_taken([60, 41]) == [60]
