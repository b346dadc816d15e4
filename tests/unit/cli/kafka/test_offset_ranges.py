"""Ranges of offsets by times and offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.kafka.offset_ranges import offset_ranges
from tests.fakes.kafka_client import FakeKafka

pytestmark = pytest.mark.unit

MAYBE = st.none() | st.integers(0, 60)
AT = ("t", 0)


@given(st.lists(st.integers(0, 50), max_size=20).map(sorted), st.integers(0, 30), MAYBE, MAYBE, MAYBE, MAYBE)
def test_a_range_is_what_a_scan_of_the_log_finds(
    times: list[int],
    start: int,
    from_ms: int | None,
    to_ms: int | None,
    from_offset: int | None,
    to_offset: int | None,
) -> None:
    kafka = FakeKafka()
    kafka.add("t", times)
    kafka.starts[AT] = start
    (first, end) = offset_ranges(
        kafka, [AT], from_ms=from_ms, to_ms=to_ms, from_offset=from_offset, to_offset=to_offset
    )[AT]
    log_end = start + len(times)
    wanted = [
        offset
        for offset, time_ms in enumerate(times, start)
        if (from_ms is None or time_ms >= from_ms)
        and (to_ms is None or time_ms < to_ms)
        and (from_offset is None or offset >= from_offset)
        and (to_offset is None or offset < to_offset)
    ]
    assert list(range(first, end)) == wanted
    assert start <= first <= log_end
