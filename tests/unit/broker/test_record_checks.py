"""Which records are named when a batch is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.record_checks import TEXTS_MAX, RecordRules, RecordsRefused, refuse_append_time, require_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import NO_TIMESTAMP_MS, Record

pytestmark = pytest.mark.unit

BOUNDS = (1_000, 2_000)


def refused(records: Sequence[Record], rules: RecordRules) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        require_records(records, rules)
    return caught.value


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([NO_TIMESTAMP_MS, 999, 1_000, 2_000, 2_001]))),
    st.booleans(),
    st.sampled_from([None, BOUNDS]),
)
def test_exactly_the_records_that_break_a_rule_are_named(
    drawn: list[tuple[bool, int]], needs_key: bool, times_ms: tuple[int, int] | None
) -> None:
    records = [
        Record(b"k" if has_key else None, b"v", timestamp_ms=time_ms, offset=index)
        for index, (has_key, time_ms) in enumerate(drawn)
    ]
    keyless = {index for index, (has_key, _) in enumerate(drawn) if needs_key and not has_key}
    mistimed = {index for index, (_, time_ms) in enumerate(drawn) if times_ms is not None and time_ms in (999, 2_001)}
    rules = RecordRules("t-0", needs_key, times_ms)
    if not keyless | mistimed:
        require_records(records, rules)
        return
    error = refused(records, rules)
    assert [one.batch_index for one in error.record_errors] == sorted(keyless | mistimed)
    assert (error.code is ErrorCode.INVALID_TIMESTAMP) == bool(mistimed - keyless)
    assert {one.batch_index for one in error.record_errors if "without key" in (one.message or "")} == keyless


def test_the_words_are_kafkas() -> None:
    keyless = [Record(None, b"v")] * 4
    error = refused(keyless, RecordRules("t-0", True, None))
    one = "Compacted topic cannot accept message without key in topic partition t-0"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{one}')" for index in range(3))
    assert str(error) == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [{shown}]"
    )
    error = refused([Record(b"k", b"v", timestamp_ms=5, offset=0)], RecordRules("t-0", True, BOUNDS))
    assert str(error) == "One or more records have been rejected due to invalid timestamp"
    assert error.record_errors[0].message == (
        "Timestamp 5 of message with offset 0 is out of range. The timestamp should be within [1000, 2000]"
    )


def test_texts_are_bounded_and_names_are_not() -> None:
    errors = refused([Record(None, b"v")] * (TEXTS_MAX + 5), RecordRules("t-0", True, None)).record_errors
    assert [error.batch_index for error in errors] == list(range(TEXTS_MAX + 5))
    assert [error.batch_index for error in errors if error.message is None] == list(range(TEXTS_MAX, TEXTS_MAX + 5))


def test_a_producers_append_time_is_every_records_fault() -> None:
    with pytest.raises(RecordsRefused) as caught:
        refuse_append_time(TEXTS_MAX + 1, 0)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert len(caught.value.record_errors) == TEXTS_MAX + 1
