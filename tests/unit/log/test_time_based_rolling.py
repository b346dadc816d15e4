"""When a segment rolls, rule by rule and beside Kafka's rule."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.log.config import LogConfig
from bmq.log.segment_index import IndexBuilder
from bmq.log.time_based_rolling import roll_base_after, roll_due_ms
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.record_batch import BatchHeader

pytestmark = pytest.mark.unit

CHECK_MS = 1_000


def roll_due(config: LogConfig, now_ms: int, *, first_ms: int = 100, max_ms: int = 200, valid_bytes: int = 1) -> bool:
    due_ms = roll_due_ms(
        config,
        opened_ms=50,
        base_timestamp_ms=first_ms,
        max_timestamp_ms=max_ms,
        valid_bytes=valid_bytes,
        check_interval_ms=CHECK_MS,
    )
    return due_ms is not None and now_ms >= due_ms


def test_a_segment_rolls_by_age() -> None:
    config = LogConfig(segment_ms=1_000, retention_ms=-1)
    assert not roll_due(config, 1_050)
    assert roll_due(config, 1_051)
    assert not roll_due(config, 10**9, valid_bytes=0)
    assert roll_due(config, 1_051, first_ms=-1, max_ms=-1)


def test_a_segment_rolls_by_the_time_between_its_records() -> None:
    config = LogConfig(segment_ms=1_000, retention_ms=-1)
    assert not roll_due(config, 60, first_ms=100, max_ms=1_100)
    assert roll_due(config, 60, first_ms=100, max_ms=1_101)
    assert not roll_due(config, 60, first_ms=-1, max_ms=1_101)


def test_old_records_alone_roll_nothing() -> None:
    """A backfill would have a file for each second, or fewer."""
    day_ms = 24 * 3600 * 1000
    now_ms = 100 * day_ms
    for retention_ms in (-1, 7 * day_ms):
        config = LogConfig(segment_ms=7 * day_ms, retention_ms=retention_ms)
        old_ms = now_ms - 30 * day_ms
        opened = {
            "base_timestamp_ms": old_ms,
            "max_timestamp_ms": old_ms + 1,
            "valid_bytes": 1,
            "check_interval_ms": CHECK_MS,
        }
        due_ms = roll_due_ms(config, opened_ms=now_ms, **opened)
        assert due_ms == now_ms + (CHECK_MS if retention_ms > 0 else 7 * day_ms + 1)


def rolls_of_kafka(times_ms: list[int], segment_ms: int) -> int:
    """By LogSegment.shouldRoll, asked before each append; batches without a timestamp first in a segment: by age alone."""
    rolls, base_ms = 0, None
    for time_ms in times_ms:
        if base_ms is not None and base_ms >= 0 and time_ms - base_ms > segment_ms:
            rolls, base_ms = rolls + 1, None
        base_ms = time_ms if base_ms is None else base_ms
    return rolls


@given(st.lists(st.sampled_from([-1, 0, 5, 10, 11, 20, 21, 22, 500, 1_000])), st.integers(1, 5))
@example([0, 1_000] * 25, 1)
@example([0, 1_000] * 25, 4)
@example([1_000, 0, 1_000, 0], 1)
@example([-1, 1_000, -1], 1)
def test_as_many_segments_as_kafka_makes_of_records_of_any_time(times_ms: list[int], looks_each: int) -> None:
    """`looks_each`: after how many batches it is looked whether the segment has to roll. Kafka looks before each."""
    config = LogConfig(segment_ms=10, retention_ms=-1)
    rolls, roll_base_ms = 0, None
    builder = IndexBuilder(1, 0, 0, 0, interval_bytes=1)
    for place, time_ms in enumerate(times_ms):
        builder.add(parsed_header(time_ms), place, builder.valid_bytes)
        if (place + 1) % looks_each:
            continue
        base_ms = builder.roll_base_ms
        assert base_ms is not None
        due_ms = roll_due_ms(
            config,
            opened_ms=10**9,
            base_timestamp_ms=base_ms,
            max_timestamp_ms=builder.max_timestamp_ms,
            valid_bytes=builder.valid_bytes,
            check_interval_ms=CHECK_MS,
        )
        if due_ms == 0:
            rolls, roll_base_ms = rolls + 1, roll_base_after(builder, config)
            builder = IndexBuilder(1, rolls, 0, 0, interval_bytes=1, roll_base_ms=roll_base_ms)
    wanted = rolls_of_kafka(times_ms[: len(times_ms) - len(times_ms) % looks_each], config.segment_ms)
    assert rolls == wanted if looks_each == 1 else rolls <= wanted


def parsed_header(timestamp_ms: int) -> BatchHeader:
    record = Record(None, b"v", timestamp_ms=timestamp_ms)
    return BatchHeader.parse(memoryview(encode_batch([record])))


def test_a_segment_rolls_when_all_of_it_is_past_retention() -> None:
    config = LogConfig(segment_ms=10**9, retention_ms=10**6)
    newest_ms = 200
    assert not roll_due(config, newest_ms + 10**6, max_ms=newest_ms)
    assert roll_due(config, newest_ms + 10**6 + 1, max_ms=newest_ms)
    compacted = LogConfig(segment_ms=10**9, retention_ms=10**6, cleanup_policy=frozenset({"compact"}))
    assert not roll_due(compacted, newest_ms + 10**6 + 1, max_ms=newest_ms)
