"""Finds the records of a batch that a topic refuses, each by its place, in Kafka's words (LogValidator, KIP-467).

Used only for a batch that is refused or has to be opened anyway: the usual path looks at headers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, NoReturn

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_produce import RecordError
from bmq.protocol.record_batch import NO_TIMESTAMP_MS, Record

TEXTS_MAX: Final = 1_000
"""Records beyond these are named without a text, so that an answer is not many times longer than its request."""
_SHOWN_MAX: Final = 3


class RecordsRefused(KafkaError):
    """A batch is refused for some of its records; the client learns which, and may send the others again."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


class RecordRules(NamedTuple):
    """What a topic asks of each record. Times are milliseconds since 1970, both bounds included; None: any time."""

    partition_name: str
    needs_key: bool
    times_ms: tuple[int, int] | None


def require_records(records: Iterable[Record], rules: RecordRules) -> None:
    """Raises RecordsRefused naming every record that breaks a rule, and whatever `records` raises while it is read."""
    errors: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    times = rules.times_ms
    for index, record in enumerate(records):
        if rules.needs_key and record.key is None:
            text = f"Compacted topic cannot accept message without key in topic partition {rules.partition_name}"
        elif (
            times is not None
            and record.timestamp_ms != NO_TIMESTAMP_MS
            and not times[0] <= record.timestamp_ms <= times[1]
        ):
            code = ErrorCode.INVALID_TIMESTAMP
            text = (
                f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out of range. "
                f"The timestamp should be within [{times[0]}, {times[1]}]"
            )
        else:
            continue
        errors.append(RecordError(index, text if len(errors) < TEXTS_MAX else None))
    if errors:
        _refuse(code, errors)


def refuse_append_time(record_count: int, base_offset: int) -> NoReturn:
    """Raises RecordsRefused for a whole batch whose producer has set the timestamp type to LogAppendTime."""
    _refuse(
        ErrorCode.INVALID_TIMESTAMP,
        [
            RecordError(
                index,
                f"Invalid timestamp type in message with offset {base_offset + index}. Producer should not set "
                "timestamp type to LogAppendTime."
                if index < TEXTS_MAX
                else None,
            )
            for index in range(record_count)
        ],
    )


def _refuse(code: ErrorCode, errors: Sequence[RecordError]) -> NoReturn:
    if code is ErrorCode.INVALID_TIMESTAMP:
        raise RecordsRefused(code, "One or more records have been rejected due to invalid timestamp", errors)
    shown = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message={_quoted(error.message)})"
        for error in errors[:_SHOWN_MAX]
    )
    raise RecordsRefused(
        code,
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]",
        errors,
    )


def _quoted(text: str | None) -> str:
    return "null" if text is None else f"'{text}'"
