"""The errors of single records in the answer to a produce: each record's place in its batch and Kafka's text (KIP-467). Pure.

bmq/records/record_check decides which records are wrong. Source of the texts: Kafka's LogValidator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn, Protocol

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_produce import RecordError
from bmq.records.record_check import RefusalKind, RefusedRecord

NAMED_MAX: Final = 10_000
"""Records beyond these are not named, so that a small request that holds millions of records has a bounded answer."""
TEXTS_MAX: Final = 1_000
"""Records beyond these are named without a text, so that an answer is not many times longer than its request."""
_SHOWN_MAX: Final = 3


class RecordsRefused(KafkaError):
    """A batch is refused for some of its records; the client learns which, and may send the others again."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


def refuse_records(
    refused: Sequence[RefusedRecord],
    refused_count: int,
    base_offset: int,
    partition_name: str,
    times_ms: tuple[int, int],
) -> NoReturn:
    """Raises RecordsRefused naming these records, of `refused_count` in all. `times_ms`: both bounds, included."""
    errors = [
        RecordError(one.batch_index, _text(one, base_offset, partition_name, times_ms) if number < TEXTS_MAX else None)
        for number, one in enumerate(refused)
    ]
    has_wrong_time = any(one.kind is not RefusalKind.NO_KEY for one in refused)
    code = ErrorCode.INVALID_TIMESTAMP if has_wrong_time else ErrorCode.INVALID_RECORD
    _refuse(code, errors, refused_count)


class NamedRefusal(Protocol):
    """A record that is refused, and why."""

    @property
    def batch_index(self) -> int: ...

    @property
    def reason(self) -> str: ...


def refuse_named(refused: Sequence[NamedRefusal]) -> NoReturn:
    """Raises RecordsRefused INVALID_RECORD naming these records, each with its reason."""
    errors = [
        RecordError(one.batch_index, one.reason if number < TEXTS_MAX else None)
        for number, one in enumerate(refused[:NAMED_MAX])
    ]
    _refuse(ErrorCode.INVALID_RECORD, errors, len(refused))


def _text(one: RefusedRecord, base_offset: int, partition_name: str, times_ms: tuple[int, int]) -> str:
    match one.kind:
        case RefusalKind.NO_KEY:
            return f"Compacted topic cannot accept message without key in topic partition {partition_name}"
        case RefusalKind.TIME:
            return (
                f"Timestamp {one.timestamp_ms} of message with offset {base_offset + one.batch_index} is out of range. "
                f"The timestamp should be within [{times_ms[0]}, {times_ms[1]}]"
            )
        case RefusalKind.STAMPED:
            return (
                f"Invalid timestamp type in message with offset {base_offset + one.batch_index}. Producer should not "
                "set timestamp type to LogAppendTime."
            )


def _refuse(code: ErrorCode, errors: Sequence[RecordError], count: int) -> NoReturn:
    if code is ErrorCode.INVALID_TIMESTAMP:
        raise RecordsRefused(code, "One or more records have been rejected due to invalid timestamp", errors)
    shown = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message={_quoted(error.message)})"
        for error in errors[:_SHOWN_MAX]
    )
    raise RecordsRefused(
        code,
        f"One or more records have been rejected due to {count} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]",
        errors,
    )


def _quoted(text: str | None) -> str:
    return "null" if text is None else f"'{text}'"
