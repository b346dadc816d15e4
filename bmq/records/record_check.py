"""What it takes to validate the records of produced batches: one call per batch, or per part of a long one's body, in the kernel
or in its Python twin.

A `BatchCheck` belongs to one topic's settings and one thread. It reads every record: lengths, varints, offset deltas,
headers, what is left behind the last one, keys where the topic is compacted, and times. Source: Kafka's LogValidator,
DefaultRecord. Stricter than Kafka, which stores records that its own clients cannot read or read as other ones: offset
deltas have to count up from 0, no varint may have more bits than its type, and of negative lengths only -1 means null.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final, NamedTuple, Protocol

from bmq.records.buffers import Buffer


class Rules(IntFlag):
    """What a topic asks of its records. The numbers are those of record_check.h."""

    NONE = 0
    NEEDS_KEY = 1
    IS_APPEND_TIME = 2


class Result(IntEnum):
    """The outcome of a check. Below CUT_SHORT the records can be read; the numbers are those of record_check.h."""

    RIGHT = 0
    OTHER_TIME = 1
    """Right, but the header's greatest time is not that of the records: `max_timestamp_ms` is."""
    REFUSED = 2
    CUT_SHORT = 3
    BYTES_LEFT = 4
    BAD_COUNT = 5
    BAD_OFFSET = 6
    BAD_VARINT = 7
    BAD_LENGTH = 8
    FIELD_TOO_LONG = 9
    BAD_HEADERS = 10
    LONGER = 11
    NO_HEADER = 12
    GOES_ON = 13
    """No fault so far: the next part of the body is due."""


_REASONS: Final = {
    Result.CUT_SHORT: "record {} runs past the end of its batch",
    Result.BYTES_LEFT: "bytes are left behind the last record of a batch, at {position}",
    Result.BAD_COUNT: "the header of a batch does not count one record or more",
    Result.BAD_OFFSET: "record {} of a batch has another offset delta",
    Result.BAD_VARINT: "record {} of a batch has a number that passes its end or its type",
    Result.BAD_LENGTH: "record {} of a batch has a negative length, or a field of less than -1 bytes",
    Result.FIELD_TOO_LONG: "record {} of a batch has a field that runs past its end",
    Result.BAD_HEADERS: "record {} of a batch has an impossible count of headers, or a header without a key",
    Result.LONGER: "record {} of a batch is longer than its fields",
    Result.NO_HEADER: "too few bytes for the header of a batch",
}


def reason_of(result: Result, failed_index: int, failed_position: int) -> str:
    """One clause for people, for results from CUT_SHORT on."""
    return _REASONS[result].format(failed_index, position=failed_position)


class RefusalKind(IntEnum):
    """Why a topic refuses a record. The numbers are those of record_check.h."""

    NO_KEY = 1
    TIME = 2
    STAMPED = 3


class RefusedRecord(NamedTuple):
    """One refused record: its place in the batch, and the time that is out of bounds or that it claims."""

    batch_index: int
    kind: RefusalKind
    timestamp_ms: int


class Details(NamedTuple):
    """What the last check found. `max_timestamp_ms`: of the records read, -1 for none; `max_timestamp_index`: the first
    record that has it. `failed_index`, `failed_position`: the record, and its place in the body, where reading stopped.
    """

    max_timestamp_ms: int
    max_timestamp_index: int
    refused_count: int
    failed_index: int
    failed_position: int


class BatchCheck(Protocol):
    """`batch`, `opened` and `part` return a number of `Result`; `details` and `refused` are of the last of these calls.

    `costs_per_record_ns`: about; for deciding what may run on an event loop. `records_max`: of a batch that may be checked
    at all, so that no batch takes minutes.
    """

    costs_per_record_ns: int
    records_max: int

    def batch(self, batch: memoryview, now_ms: int) -> int:
        """Check a whole uncompressed batch, header and records. The buffer is writable and not changed."""

    def opened(self, header: Buffer, body: Buffer, now_ms: int) -> int:
        """Check the decompressed records of a batch with this header (the first 61 bytes of `header`)."""

    def begin(self, header: Buffer, now_ms: int, refused_max: int) -> None:
        """Begin a batch with this header (61 bytes or more), whose decompressed body comes in parts.

        `refused_max`: of its refused records, so many are remembered.
        """

    def part(self, part: Buffer, *, is_last: bool) -> int:
        """Check the next part of the body, cut anywhere. Any result but GOES_ON is the whole body's, and ends it.

        The same as of `opened` for the whole body, if all of it is read. Nothing of the part is kept.
        """

    def details(self) -> Details: ...

    def refused(self, count_max: int) -> list[RefusedRecord]:
        """The first refused records of the last batch. One in one piece is read again, so its buffers must be as they were."""
