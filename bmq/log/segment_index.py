"""The index of one segment file: positions by offset and time, and a summary of the file for its owner. Pure.

While a segment is open an `IndexBuilder` collects the index in memory. Once the segment is closed, the index becomes an immutable
`SegmentIndex` in a file beside the segment. An index file is trusted only if its checksums match and it names exactly this file
at this length (`is_for`, rule 12); else it is rebuilt.

The file is a container of checksummed parts:
    head  JSON: the SegmentSummary
    offs  int64 array: base offset of the batch at each entry's position
    poss  int64 array: position of each entry, the first is 0, at least index.interval.bytes apart
    time  int64 array: greatest timestamp of all batches before each entry's position, -1 for none
    abrt  aborted transactions whose marker lies in the segment
    prod  producer state of everything below the segment's end offset (empty: not known)
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import asdict, field
from itertools import pairwise
from typing import Annotated, ClassVar, Final

from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.checksummed_parts import (
    CONTAINER_BYTES_MAX,
    CorruptParts,
    decode_int64s,
    decode_parts,
    encode_int64s,
    encode_parts,
)
from bmq.log.json_adapter import ConfigDict, Field, TypeAdapter, ValidationError
from bmq.log.partition_log import Location, Span
from bmq.log.store import Buffer
from bmq.protocol.record_batch import LENGTH_OVERHEAD_BYTES, BatchHeader

INDEX_BYTES_MAX: Final = CONTAINER_BYTES_MAX
"""The longest index that a writer can make: without its index a segment, and perhaps those before it, are read whole."""
_MAGIC: Final = b"BMQINDX1"
_PARTS: Final = (b"head", b"offs", b"poss", b"time", b"abrt", b"prod")

NaturalNumber = Annotated[int, Field(ge=0)]


class CorruptIndex(CorruptParts):
    """An index file that is not whole, or whose parts contradict each other."""


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """The segment file that an index describes, and a summary of its content.

    `closed_bytes`: the file's length when it was closed. `valid_bytes`: how many of these belong to the log; fewer if a torn tail
    was cut. `max_timestamp_position`: position of the first batch with the greatest timestamp; -1 without a timestamp.
    `epoch_starts`: (leader epoch, first offset) of the epochs that wrote it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    leader_epoch: NaturalNumber
    roll: NaturalNumber
    file_id: int
    closed_bytes: NaturalNumber
    valid_bytes: NaturalNumber
    base_offset: NaturalNumber
    end_offset: NaturalNumber
    max_timestamp_ms: int
    max_timestamp_position: int
    epoch_starts: tuple[tuple[int, int], ...]


_SUMMARY: Final = TypeAdapter(SegmentSummary)


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """A finished index. Its tables have an entry per index interval (see the module's docstring), and must not be changed."""

    summary: SegmentSummary
    offsets: array[int]
    positions: array[int]
    timestamps_ms: array[int]
    aborted: AbortedTransactions = field(default_factory=AbortedTransactions)
    producers: bytes = b""

    @property
    def memory_bytes(self) -> int:
        """Approximate size in memory."""
        return 24 * len(self.positions) + 40 * len(self.aborted) + len(self.producers) + 1024

    def is_for(self, leader_epoch: int, roll: int, file_id: int, closed_bytes: int) -> bool:
        """Whether the index names exactly this segment file (rule 12)."""
        summary = self.summary
        return (
            summary.leader_epoch == leader_epoch
            and summary.roll == roll
            and summary.file_id == file_id
            and summary.closed_bytes == closed_bytes
        )

    def position_of(self, offset: int) -> int:
        """Where to start reading for this offset: the position of its batch, or of one before it."""
        place = bisect_right(self.offsets, offset) - 1
        return self.positions[place] if place >= 0 else 0

    def position_of_timestamp(self, timestamp_ms: int) -> int:
        """Where to start searching for the first batch whose greatest timestamp is at or past this one."""
        place = bisect_left(self.timestamps_ms, timestamp_ms) - 1
        return self.positions[place] if place >= 0 else 0

    def without_producers(self) -> SegmentIndex:
        """A copy without the producer state, to keep in memory: only recovery needs that state."""
        return SegmentIndex(self.summary, self.offsets, self.positions, self.timestamps_ms, self.aborted)

    def encode(self) -> bytes:
        return encode_parts(
            _MAGIC,
            {
                b"head": json.dumps(asdict(self.summary), separators=(",", ":")).encode(),
                b"offs": encode_int64s(self.offsets),
                b"poss": encode_int64s(self.positions),
                b"time": encode_int64s(self.timestamps_ms),
                b"abrt": self.aborted.encode(),
                b"prod": self.producers,
            },
        )

    @classmethod
    def decode(cls, data: Buffer) -> SegmentIndex:
        """Decode an index file. Raises CorruptIndex."""
        parts = decode_parts(_MAGIC, data, _PARTS, CorruptIndex)
        try:
            summary = _SUMMARY.validate_json(bytes(parts[b"head"]))
        except ValidationError as error:
            raise CorruptIndex(f"the index's head has {error.error_count()} errors") from error
        offsets, positions, timestamps_ms = (decode_int64s(parts[n], CorruptIndex) for n in (b"offs", b"poss", b"time"))
        if not len(offsets) == len(positions) == len(timestamps_ms):
            raise CorruptIndex("the index's tables differ in length")
        if positions and (positions[0] != 0 or positions[-1] >= summary.valid_bytes):
            raise CorruptIndex("the index's positions lie outside the segment")
        if offsets and (offsets[0] < summary.base_offset or offsets[-1] >= summary.end_offset):
            raise CorruptIndex("the index's offsets lie outside the segment")
        if not _is_ascending(offsets) or not _is_ascending(positions):
            raise CorruptIndex("the index's tables are out of order")
        if any(later < earlier for earlier, later in pairwise(timestamps_ms)):
            raise CorruptIndex("the index's timestamps are out of order")
        if summary.valid_bytes > summary.closed_bytes or summary.base_offset > summary.end_offset:
            raise CorruptIndex("the index's head contradicts itself")
        aborted = AbortedTransactions.decode(parts[b"abrt"], CorruptIndex)
        return cls(summary, offsets, positions, timestamps_ms, aborted, bytes(parts[b"prod"]))


def _is_ascending(numbers: array[int]) -> bool:
    return all(earlier < later for earlier, later in pairwise(numbers))


def span_from(
    location: Location, offsets: array[int], positions: array[int], length_bytes_max: int, bound_offset: int
) -> Span | None:
    """The span from a location to the last batch boundary within the limits that the index has; None without one."""
    start = location.position
    limit = min(start + length_bytes_max, location.valid_bytes)
    if limit == location.valid_bytes and location.end_offset <= bound_offset:
        end, next_offset = location.valid_bytes, location.end_offset
    else:
        place = min(bisect_right(positions, limit), bisect_right(offsets, bound_offset)) - 1
        if place < 0:
            return None
        end, next_offset = positions[place], offsets[place]
    if end <= start:
        return None
    first = bisect_left(positions, start)
    base_offset = offsets[first] if first < len(positions) and positions[first] == start else -1
    return Span(location.path, location.file_id, start, end - start, base_offset, next_offset)


class IndexBuilder:
    """Builds the index of a segment that grows. Call `add` for every batch, in order, once it is durable.

    `roll_base_ms`: the timestamp at which the span that is compared with segment.ms begins (Kafka's
    LogSegment.rollingBasedTimestamp): if not given, the first batch's, or -1 if that has none.
    """

    __slots__ = (
        "_interval_bytes",
        "_next_entry_position",
        "_timestamps_ms",
        "base_offset",
        "end_offset",
        "file_id",
        "leader_epoch",
        "max_timestamp_ms",
        "max_timestamp_position",
        "offsets",
        "positions",
        "roll",
        "roll_base_ms",
        "valid_bytes",
    )

    def __init__(
        self,
        leader_epoch: int,
        roll: int,
        file_id: int,
        base_offset: int,
        *,
        interval_bytes: int,
        roll_base_ms: int | None = None,
    ) -> None:
        self.leader_epoch = leader_epoch
        self.roll = roll
        self.file_id = file_id
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.valid_bytes = 0
        self.max_timestamp_ms = -1
        self.max_timestamp_position = -1
        self.roll_base_ms = roll_base_ms
        self._interval_bytes = interval_bytes
        self._next_entry_position = 0
        self.offsets = array("q")
        self.positions = array("q")
        self._timestamps_ms = array("q")

    @property
    def entry_count(self) -> int:
        """How many entries the index has in memory, 24 bytes each."""
        return len(self.positions)

    def add(self, header: BatchHeader, base_offset: int, position: int) -> None:
        """Add the next batch, at `position` in the file.

        `base_offset`: the offset that it was placed at; the header may still have the client's.
        """
        if position >= self._next_entry_position:
            if self.roll_base_ms is None:
                self.roll_base_ms = header[8]
            self.offsets.append(base_offset)
            self.positions.append(position)
            self._timestamps_ms.append(self.max_timestamp_ms)
            self._next_entry_position = position + self._interval_bytes
        timestamp_ms = header[8]
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
            self.max_timestamp_position = position
        self.valid_bytes = position + header[1] + LENGTH_OVERHEAD_BYTES
        self.end_offset = base_offset + header[6] + 1

    def position_of(self, offset: int) -> int:
        place = bisect_right(self.offsets, offset) - 1
        return self.positions[place] if place >= 0 else 0

    def timestamp_of(self, offset: int) -> int:
        """The greatest timestamp up to the first index entry behind this offset; -1 without one."""
        place = bisect_right(self.offsets, offset)
        return self._timestamps_ms[place] if place < len(self._timestamps_ms) else self.max_timestamp_ms

    def first_above(self, timestamp_ms: int) -> int:
        """The first timestamp above this one, or a greater one within the same index interval; -1 without one."""
        if self.max_timestamp_ms <= timestamp_ms:
            return -1
        place = bisect_right(self._timestamps_ms, timestamp_ms)
        return self._timestamps_ms[place] if place < len(self._timestamps_ms) else self.max_timestamp_ms

    def position_of_timestamp(self, timestamp_ms: int) -> int:
        place = bisect_left(self._timestamps_ms, timestamp_ms) - 1
        return self.positions[place] if place >= 0 else 0

    def build(
        self, closed_bytes: int, *, aborted: AbortedTransactions | None = None, producers: bytes = b""
    ) -> SegmentIndex:
        """The finished index. `aborted`: transactions with markers in this segment. `producers`: state at its end offset.

        Raises ValueError for a segment without a batch: an empty segment is not part of the log.
        """
        if not self.valid_bytes:
            raise ValueError(f"segment {self.roll} of epoch {self.leader_epoch} is empty")
        summary = SegmentSummary(
            leader_epoch=self.leader_epoch,
            roll=self.roll,
            file_id=self.file_id,
            closed_bytes=closed_bytes,
            valid_bytes=self.valid_bytes,
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            max_timestamp_ms=self.max_timestamp_ms,
            max_timestamp_position=self.max_timestamp_position,
            epoch_starts=((self.leader_epoch, self.base_offset),),
        )
        return SegmentIndex(
            summary, self.offsets, self.positions, self._timestamps_ms, aborted or AbortedTransactions(), producers
        )
