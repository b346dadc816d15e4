"""How the records of a refused batch are named."""

from __future__ import annotations

import pytest

from bmq.broker.record_errors import TEXTS_MAX, RecordsRefused, refuse_records
from bmq.protocol.error_codes import ErrorCode
from bmq.records.record_check import RefusalKind, RefusedRecord

pytestmark = pytest.mark.unit


def refused(*records: RefusedRecord, count: int | None = None) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        refuse_records(records, len(records) if count is None else count, 0, "t-0", (1_000, 2_000))
    return caught.value


def test_the_words_are_kafkas() -> None:
    error = refused(*(RefusedRecord(index, RefusalKind.NO_KEY, -1) for index in range(4)))
    one = "Compacted topic cannot accept message without key in topic partition t-0"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{one}')" for index in range(3))
    assert str(error) == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [{shown}]"
    )
    assert error.code is ErrorCode.INVALID_RECORD
    error = refused(RefusedRecord(0, RefusalKind.TIME, 5), RefusedRecord(3, RefusalKind.NO_KEY, 1))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert str(error) == "One or more records have been rejected due to invalid timestamp"
    assert [named.batch_index for named in error.record_errors] == [0, 3]
    assert error.record_errors[0].message == (
        "Timestamp 5 of message with offset 0 is out of range. The timestamp should be within [1000, 2000]"
    )
    error = refused(RefusedRecord(2, RefusalKind.STAMPED, -1))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert error.record_errors[0].message == (
        "Invalid timestamp type in message with offset 2. Producer should not set timestamp type to LogAppendTime."
    )


def test_texts_are_bounded() -> None:
    records = [RefusedRecord(index, RefusalKind.NO_KEY, -1) for index in range(TEXTS_MAX + 5)]
    error = refused(*records, count=5_000_000)
    assert [one.batch_index for one in error.record_errors] == list(range(TEXTS_MAX + 5))
    assert [one.batch_index for one in error.record_errors if one.message is None] == [*range(TEXTS_MAX, TEXTS_MAX + 5)]
    assert "due to 5000000 record errors" in str(error)
