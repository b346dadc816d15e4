"""The checker finds a record that is missing, doubled, moved, reordered or damaged, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.history import (
    EXAMPLES_MAX,
    PADDING_BYTES_MAX,
    Acknowledged,
    NotOurs,
    Origin,
    Reading,
    compare,
    differences,
    origin_of,
    payload,
)

pytestmark = pytest.mark.campaign("unit")

PARTITION = 3


def reading_of(origins: Sequence[Origin]) -> Reading:
    reading = Reading(PARTITION)
    for offset, origin in enumerate(origins):
        reading.add(offset, payload(PARTITION, origin))
    return reading


def log_of(producers: Sequence[int]) -> list[Origin]:
    """A right log: who is next in it, each with sequences of its own."""
    sequences: dict[int, int] = {}
    log = []
    for producer in producers:
        log.append(Origin(producer, sequences.get(producer, 0)))
        sequences[producer] = sequences.get(producer, 0) + 1
    return log


def told(log: Sequence[Origin], offsets: set[int]) -> Acknowledged:
    acknowledged = Acknowledged()
    for offset in sorted(offsets):
        acknowledged.add(PARTITION, log[offset], offset)
    return acknowledged


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Origin], set[int]]:
    """A log and the offsets of it that were acknowledged: any of them."""
    log = log_of(draw(st.lists(st.integers(0, 2), min_size=2, max_size=40)))
    return log, draw(st.sets(st.integers(0, len(log) - 1), min_size=1))


@given(histories(), st.integers(0, 39))
def test_a_record_that_was_acknowledged_without_an_offset_may_be_anywhere_but_not_missing(
    history: tuple[list[Origin], set[int]], place: int
) -> None:
    log, offsets = history
    origin = log[place % len(log)]
    acknowledged = told(log, offsets - {place % len(log)})
    acknowledged.add_anywhere(PARTITION, origin)
    assert compare(acknowledged, reading_of(log)) == []
    without = [each for each in log if each != origin]
    found = compare(acknowledged, reading_of(without))
    assert f"{origin} of partition {PARTITION} was acknowledged and is not there" in found or len(found) > EXAMPLES_MAX


@given(histories())
def test_a_right_log_has_nothing_wrong(history: tuple[list[Origin], set[int]]) -> None:
    log, acknowledged = history
    assert compare(told(log, acknowledged), reading_of(log)) == []


@given(histories(), st.data())
def test_an_acknowledged_record_that_is_gone_is_found(
    history: tuple[list[Origin], set[int]], data: st.DataObject
) -> None:
    log, acknowledged = history
    lost = data.draw(st.sampled_from(sorted(acknowledged)))
    found = compare(told(log, acknowledged), reading_of([*log[:lost], *log[lost + 1 :]]))
    assert any(f"{log[lost]} of partition {PARTITION} was acknowledged at offset {lost}" in one for one in found)


@given(histories(), st.data())
def test_a_cut_end_is_found(history: tuple[list[Origin], set[int]], data: st.DataObject) -> None:
    log, acknowledged = history
    length = data.draw(st.integers(0, max(acknowledged)))
    assert compare(told(log, acknowledged), reading_of(log[:length]))


@given(histories(), st.data())
def test_a_record_that_is_there_twice_is_found_even_if_nobody_was_told_of_it(
    history: tuple[list[Origin], set[int]], data: st.DataObject
) -> None:
    log, _ = history
    doubled = data.draw(st.integers(0, len(log) - 1))
    place = data.draw(st.integers(doubled + 1, len(log)))
    found = compare(Acknowledged(), reading_of([*log[:place], log[doubled], *log[place:]]))
    assert any(f"has {log[doubled].sequence} of producer {log[doubled].producer}" in one for one in found)


@given(st.integers(2, 30), st.data())
def test_a_changed_order_of_one_producer_is_found(count: int, data: st.DataObject) -> None:
    log = log_of([0] * count)
    place = data.draw(st.integers(0, count - 2))
    log[place], log[place + 1] = log[place + 1], log[place]
    assert compare(Acknowledged(), reading_of(log))


def test_records_of_other_partitions_are_not_looked_for_here() -> None:
    acknowledged = Acknowledged()
    acknowledged.add(PARTITION + 1, Origin(0, 0), 5)
    assert compare(acknowledged, reading_of([])) == []


def test_an_offset_that_is_skipped_or_repeated_is_found() -> None:
    for offset in (0, 2):
        reading = reading_of(log_of([0]))
        reading.add(offset, payload(PARTITION, Origin(0, 1)))
        assert compare(Acknowledged(), reading) == [f"partition {PARTITION} came with offset {offset} after 0"]


def test_two_readers_that_saw_different_records_are_found() -> None:
    log = log_of([0, 1, 0])
    assert differences(reading_of(log), reading_of(log[:2])) == []
    assert differences(reading_of(log), reading_of([log[1], log[0], log[2]])) != []


def test_problems_are_named_by_a_few_examples() -> None:
    log = log_of([0] * 50)
    found = compare(told(log, set(range(50))), reading_of([]))
    assert len(found) == EXAMPLES_MAX + 1
    assert found[-1] == f"… and {50 - EXAMPLES_MAX} more like the last"


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**40 - 1))
def test_a_payload_says_where_it_comes_from(producer: int, sequence: int) -> None:
    origin = Origin(producer, sequence)
    value = payload(PARTITION, origin)
    assert origin_of(PARTITION, value) == origin
    assert len(value) <= PADDING_BYTES_MAX + 12


@given(st.integers(0, 10_000), st.data())
def test_a_damaged_payload_is_found(sequence: int, data: st.DataObject) -> None:
    value = bytearray(payload(PARTITION, Origin(1, sequence)))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] ^= data.draw(st.integers(1, 255))
    try:
        found = origin_of(PARTITION, bytes(value))
    except NotOurs:
        return
    # Only a changed producer or sequence number can go unseen here, where lengths and paddings happen to be the same.
    assert found != Origin(1, sequence)


def test_a_record_of_another_partition_or_a_foreign_one_is_found() -> None:
    with pytest.raises(NotOurs):
        origin_of(PARTITION, payload(PARTITION + 1, Origin(0, 0)))
    with pytest.raises(NotOurs):
        origin_of(PARTITION, b"hello")
    reading = Reading(PARTITION)
    reading.add(0, b"hello")
    assert len(reading.problems) == 1
    assert len(reading) == 1
