"""Filters a record batch: the result has the same offsets, times and producer, and only the records that pass. Pure.

Records are copied byte by byte, because the batch's base offset and base time stay. A batch whose records all pass is not
rewritten. Clients see gaps between offsets, as in a compacted log. Of control batches only transaction markers pass: readers of
committed records need them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final, NamedTuple, cast

from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress, decompress
from bmq.protocol.control_batch import ControlType
from bmq.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    BatchHeader,
    CorruptRecords,
    TimestampType,
    assemble_batch,
)
from bmq.records.batch_layout import BYTES_LEFT, WANTS_HEADERS
from bmq.records.record_filter import IS_IN_C, CompiledFilter
from bmq.records.record_filter_layout import BEGIN
from bmq.records.records_twin import Damage, RecordPlaces, headers_of, record_places
from bmq.records.skipped_offsets import skipped_offsets
from bmq.views.record_fields import RecordFields
from bmq.views.view_filter import ViewFilter

STEP_RECORDS: Final = 256
"""Records that the Python filter evaluates in one step, which takes a millisecond or two."""
KERNEL_STEP_RECORDS: Final = 4096
"""Records that the kernel evaluates in one step."""
ANSWERS_MAX: Final = 4096
"""Most results in a filter's cache, by the bytes of a record's headers."""
ANSWER_BYTES_MAX: Final = 512
"""Records whose headers have more bytes than this are not cached."""
_LAST_DELTA_MAX: Final = 2**31 - 1
_MARKERS: Final = (ControlType.ABORT, ControlType.COMMIT)

_Found = tuple[list[tuple[int, int]], int]
"""([(begin, end)] of neighbouring records that pass, as byte positions in the body, and the number of these records)."""
NOTHING: Final = b""
"""The result of filtering a batch of which no record passes."""


class BatchFilter:
    """Applies one view's filter to record batches. Any number of threads may use it at once."""

    def __init__(self, view_filter: ViewFilter) -> None:
        self._predicate = view_filter.predicate
        self._is_by_headers = view_filter.is_by_headers
        self._passing = None if view_filter.kernel_filter is None else CompiledFilter(view_filter.kernel_filter)
        self._answers: dict[bytes, bool] = {}

    @property
    def passing(self) -> CompiledFilter | None:
        """The form of the filter that the C kernel evaluates; None if Python evaluates it."""
        return self._passing if IS_IN_C else None

    def filtered(self, batch: Buffer, header: BatchHeader, partition: int) -> Buffer | None:
        """The batch to send instead of `batch`; NOTHING if no record passes, None if all do (send `batch` itself).

        Raises CorruptRecords, BadCompressedData, UnknownCompression for a batch that cannot be opened.
        """
        steps = self.steps(batch, header, partition)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(Buffer | None, end.value)

    def steps(self, batch: Buffer, header: BatchHeader, partition: int) -> Generator[None, None, Buffer | None]:
        """Do as `filtered` does, and yield after each bounded number of records. Keeps the decompressed batch until the end."""
        if header.attributes & CONTROL:
            return None if _is_marker(batch, header) else NOTHING
        if header.record_count <= 0:
            return NOTHING
        body = decompress(header.compression, memoryview(batch)[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
        body = body if isinstance(body, bytes) else bytes(body)
        runs: list[tuple[int, int]] = []
        found = self._kernel_steps(body, header) if self._passing else self._python_steps(body, header, partition)
        count = 0
        try:
            for number, (more, passed) in enumerate(found):
                if number:
                    yield
                count += passed
                if more and runs and runs[-1][1] == more[0][0]:
                    more[0] = (runs.pop()[0], more[0][1])
                runs += more
        except Damage as damage:
            raise CorruptRecords(f"offset {header.base_offset}: {damage}") from damage
        if count == header.record_count:
            return None
        if not count:
            return NOTHING
        kept = b"".join([body[begin:end] for begin, end in runs])
        attributes = header.attributes & ~COMPRESSION_MASK
        if header.compression is not Compression.NONE and HEADER_BYTES + len(kept) > len(batch):
            # The result must not be much longer than the stored batch: the limits of a fetch count stored bytes.
            kept, attributes = compress(header.compression, kept), header.attributes
        return assemble_batch(header._replace(attributes=attributes, record_count=count), kept)

    def _kernel_steps(self, body: bytes, header: BatchHeader) -> Iterator[_Found]:
        assert self._passing is not None
        last, left = BEGIN, header.record_count
        while left:
            count = min(left, KERNEL_STEP_RECORDS)
            last = self._passing.filter_records(body, last, count, header.last_offset_delta)
            left -= count
            yield last.runs, last.passed
        if last.place != len(body):
            raise Damage(BYTES_LEFT)

    def _python_steps(self, body: bytes, header: BatchHeader, partition: int) -> Iterator[_Found]:
        append_time_ms = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        every = record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS)
        while some := list(islice(every, STEP_RECORDS)):
            runs: list[tuple[int, int]] = []
            passed = 0
            for places in some:
                if not self._passes(body, places, header, append_time_ms, partition):
                    continue
                passed += 1
                if runs and runs[-1][1] == places.begin:
                    runs[-1] = (runs[-1][0], places.stop)
                else:
                    runs.append((places.begin, places.stop))
            yield runs, passed

    def _passes(
        self, body: bytes, places: RecordPlaces, header: BatchHeader, append_time_ms: int | None, partition: int
    ) -> bool:
        if not self._is_by_headers:
            return self._predicate(_fields(body, places, header, append_time_ms, partition)) is True
        named = body[places.headers : places.stop]
        known = self._answers.get(named)
        if known is None:
            known = self._predicate(_fields(body, places, header, append_time_ms, partition)) is True
            if len(named) <= ANSWER_BYTES_MAX:
                if len(self._answers) >= ANSWERS_MAX:
                    self._answers.clear()
                self._answers[named] = known
        return known


class EmptyRun(NamedTuple):
    """A run of offsets [base_offset, next_offset) of one leader epoch, of which no record passes the filter."""

    base_offset: int
    next_offset: int
    leader_epoch: int

    def joined(self, following: EmptyRun) -> EmptyRun | None:
        """This run extended by the `following` one; None if that has to stay a run of its own."""
        is_too_long = following.next_offset - 1 - self.base_offset > _LAST_DELTA_MAX
        if following.leader_epoch != self.leader_epoch or is_too_long:
            return None
        return EmptyRun(self.base_offset, following.next_offset, self.leader_epoch)

    def encoded(self) -> bytearray:
        """A batch without records for the run's offsets. Clients continue with the offset behind it."""
        return skipped_offsets(self.base_offset, self.next_offset - self.base_offset - 1, self.leader_epoch)


def run_of(header: BatchHeader) -> EmptyRun:
    """The run of a batch of which no record passes."""
    return EmptyRun(header.base_offset, header.end_offset, header.leader_epoch)


def _fields(
    body: bytes, places: RecordPlaces, header: BatchHeader, append_time_ms: int | None, partition: int
) -> RecordFields:
    return RecordFields(
        None if places.key_bytes < 0 else body[places.key : places.key + places.key_bytes],
        headers_of(body, places),
        header.base_timestamp_ms + places.timestamp_delta if append_time_ms is None else append_time_ms,
        header.base_offset + places.offset_delta,
        partition,
    )


def _is_marker(batch: Buffer, header: BatchHeader) -> bool:
    """Whether a control batch ends a transaction. The key of its first record decides, as in Kafka's clients."""
    body = bytes(decompress(header.compression, memoryview(batch)[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX))
    try:
        first = next(record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS))
    except (Damage, StopIteration):
        return False
    key = body[first.key : first.key + max(first.key_bytes, 0)]
    return len(key) >= 4 and int.from_bytes(key[2:4], "big") in _MARKERS and header.producer_id >= 0
