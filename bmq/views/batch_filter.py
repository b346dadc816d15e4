"""A record batch with only the records that pass a filter: same offsets, times and producer, fewer records. Pure.

The records that stay are copied as they are, as the base offset and the base time stay too. So a batch that passes as a whole is
not rewritten, and clients see gaps as they see them behind compaction. Of control batches only the markers that end transactions
stay: readers of committed records need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress, decompress
from bmq.protocol.control_batch import ControlType
from bmq.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    BatchHeader,
    CorruptRecords,
    TimestampType,
    assemble_batch,
)
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.records_twin import Damage, RecordPlaces, headers_of, record_places
from bmq.views.record_fields import RecordFields
from bmq.views.view_filter import ViewFilter

PAUSE_RECORDS: Final = 256
"""Records between two pauses."""
ANSWERS_MAX: Final = 4096
"""Different headers of records whose answers a filter remembers."""
ANSWER_BYTES_MAX: Final = 512
"""Longest headers of a record that are remembered."""
_LAST_DELTA_MAX: Final = 2**31 - 1
_MARKERS: Final = (ControlType.ABORT, ControlType.COMMIT)

NOTHING: Final = b""
"""No record of a batch passes."""


class BatchFilter:
    """One view's filter for batches; used by one thread at a time. `pause` is called now and then: others may run."""

    def __init__(self, view_filter: ViewFilter, pause: Callable[[], None] = lambda: None) -> None:
        self._predicate = view_filter.predicate
        self._is_by_headers = view_filter.is_by_headers
        self._pause = pause
        self._answers: dict[bytes, bool] = {}

    def filtered(self, batch: Buffer, header: BatchHeader, partition: int) -> Buffer | None:
        """A whole batch in its place, NOTHING, or None: the batch as it is.

        Raises CorruptRecords, BadCompressedData, UnknownCompression for a batch that cannot be opened.
        """
        if header.attributes & CONTROL:
            return None if _is_marker(batch, header) else NOTHING
        if header.record_count <= 0:
            return NOTHING
        body = decompress(header.compression, memoryview(batch)[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
        body = body if isinstance(body, bytes) else bytes(body)
        runs, count = self._passing(body, header, partition)
        if count == header.record_count:
            return None
        if not count:
            return NOTHING
        kept = b"".join([body[begin:end] for begin, end in runs])
        attributes = header.attributes & ~COMPRESSION_MASK
        if header.compression is not Compression.NONE and HEADER_BYTES + len(kept) > len(batch):
            # Never much longer than what was stored: the limits of a fetch count stored bytes.
            kept, attributes = compress(header.compression, kept), header.attributes
        return assemble_batch(header._replace(attributes=attributes, record_count=count), kept)

    def _passing(self, body: bytes, header: BatchHeader, partition: int) -> tuple[list[tuple[int, int]], int]:
        """Where runs of records that pass begin and end, and how many records they are."""
        append_time_ms = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        runs: list[tuple[int, int]] = []
        count, run_begin, run_end, left = 0, 0, -1, PAUSE_RECORDS
        try:
            for places in record_places(
                body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS
            ):
                left -= 1
                if not left:
                    left = PAUSE_RECORDS
                    self._pause()
                if not self._passes(body, places, header, append_time_ms, partition):
                    continue
                count += 1
                if places.begin != run_end:
                    if run_end >= 0:
                        runs.append((run_begin, run_end))
                    run_begin = places.begin
                run_end = places.stop
        except Damage as damage:
            raise CorruptRecords(f"offset {header.base_offset}: {damage}") from damage
        if run_end >= 0:
            runs.append((run_begin, run_end))
        return runs, count

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
    """Offsets [base_offset, next_offset) without records that pass, all of one leader epoch."""

    base_offset: int
    next_offset: int
    leader_epoch: int

    def joined(self, header: BatchHeader) -> EmptyRun | None:
        """With the offsets of the batch that follows; None: that needs a run of its own."""
        if header.leader_epoch != self.leader_epoch or header.last_offset - self.base_offset > _LAST_DELTA_MAX:
            return None
        return EmptyRun(self.base_offset, header.end_offset, self.leader_epoch)

    def encoded(self) -> bytearray:
        """A batch without records: clients go on behind it."""
        return assemble_batch(
            BatchHeader(
                base_offset=self.base_offset,
                length=0,
                leader_epoch=self.leader_epoch,
                magic=2,
                crc=0,
                attributes=0,
                last_offset_delta=self.next_offset - self.base_offset - 1,
                base_timestamp_ms=NO_TIMESTAMP_MS,
                max_timestamp_ms=NO_TIMESTAMP_MS,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_PRODUCER_EPOCH,
                base_sequence=NO_SEQUENCE,
                record_count=0,
            ),
            b"",
        )


def run_of(header: BatchHeader) -> EmptyRun:
    """The run of one batch none of whose records passes."""
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
    """Whether a control batch ends a transaction: by its first record's key, as every reader of control batches does."""
    body = bytes(decompress(header.compression, memoryview(batch)[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX))
    try:
        first = next(record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS))
    except (Damage, StopIteration):
        return False
    key = body[first.key : first.key + max(first.key_bytes, 0)]
    return len(key) >= 4 and int.from_bytes(key[2:4], "big") in _MARKERS and header.producer_id >= 0
