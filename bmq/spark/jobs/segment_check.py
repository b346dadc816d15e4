"""The invariants of one segment: checksums, readable records, offsets without gaps, a correct index. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bmq.arrow_records.batch_headers import CONTROL, Headers, has, scan
from bmq.arrow_records.decoder import decode
from bmq.arrow_records.layout import Layout
from bmq.log.batch_bodies import Scratch
from bmq.log.origin import DamagedBatch, Origin
from bmq.log.segment_index import SegmentIndex
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX
from bmq.protocol.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, LOG_APPEND_TIME

FINDINGS_MAX: Final = 100
_EVERYTHING: Final = 1 << 62
_LENGTH: Final = Struct(">8xi")
_ALL_OF_A_RECORD: Final = Layout(("offset", "timestamp", "headers"), content=pa.binary_view())
"""Reading headers walks each record to its end, so all of it is checked; keys and values are not collected."""

Int64s = npt.NDArray[np.int64]


class Kind(StrEnum):
    BATCH = "batch"
    """A batch's checksum, header or records are wrong."""
    OFFSETS = "offsets"
    """A gap or an overlap between two batches, or between two segments."""
    INDEX = "index"
    """The index or the manifest disagrees with the log."""
    REPLICA = "replica"
    """A replica that differs from the others of its block, or that cannot be read."""
    RUN = "run"
    """A run of delayed records is damaged, or is not what the manifest says."""
    FILE = "file"
    """The file cannot be read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One error. Offset, position and node are None where they do not apply."""

    kind: Kind
    topic: str
    partition: int
    file: str
    reason: str
    offset: int | None = None
    position_bytes: int | None = None
    node: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.value}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Finding:
        return cls(**{**document, "kind": Kind(document["kind"])})


class SegmentCheck:
    """Takes a segment's bytes in order (`take`); then `compare` checks its index.

    `base_offset` None: its start is unknown. `is_compacted`: offsets may be missing. After FINDINGS_MAX findings the
    others are only counted.
    """

    def __init__(self, origin: Origin, base_offset: int | None, *, is_compacted: bool) -> None:
        self._origin = origin
        self._is_compacted = is_compacted
        self._scratch = Scratch()
        self._base_offset = base_offset
        self._next_offset = base_offset
        self._places: list[Int64s] = []
        self._offsets: list[Int64s] = []
        self._timestamps: list[Int64s] = []
        self._control_offsets: list[Int64s] = []
        self.findings: list[Finding] = []
        self.finding_count = 0
        self.batch_count = 0
        self.record_count = 0
        self.bytes = 0
        self._is_given_up = False

    @property
    def end_offset(self) -> int | None:
        """The offset after the last batch."""
        return self._next_offset

    def found(self, kind: Kind, reason: str, *, offset: int | None = None, position_bytes: int | None = None) -> None:
        self.finding_count += 1
        if len(self.findings) < FINDINGS_MAX:
            topic, partition, file, _ = self._origin
            self.findings.append(Finding(kind, topic, partition, file, reason, offset, position_bytes))

    def take(self, position: int, data: memoryview) -> tuple[int, int]:
        """Check the whole batches in `data`, which begins with one at `position`. Returns (bytes used, bytes missing for the
        next).

        A bad batch is skipped by its length. If no length is plausible, the rest of the segment is not checked.
        """
        place = 0
        while place < len(data) and not self._is_given_up:
            try:
                found = scan(
                    data,
                    self._at(position),
                    place,
                    rows_max=_EVERYTHING,
                    bytes_max=_EVERYTHING,
                    batch_bytes_max=DECOMPRESSED_BYTES_MAX,
                )
            except DamagedBatch as damage:
                bad = damage.position_bytes - position
                if bad > place:
                    self.take_whole(position, data[:bad], place)
                self._name(damage)
                self._next_offset = None  # do not compare the next batch with offsets from a damaged header
                size = _believable_bytes(data, bad)
                self._is_given_up = not size
                place = bad + size
                continue
            self._check(position, data, place, found.end, found.places, found.headers)
            return found.end, found.missing_bytes
        return len(data), 0

    def take_whole(self, position: int, data: memoryview, place: int) -> None:
        """Check batches that are known to be complete, up to the end of `data`."""
        found = scan(
            data,
            self._at(position),
            place,
            rows_max=_EVERYTHING,
            bytes_max=_EVERYTHING,
            batch_bytes_max=DECOMPRESSED_BYTES_MAX,
        )
        self._check(position, data, place, found.end, found.places, found.headers)

    def _check(self, position: int, data: memoryview, place: int, end: int, places: Int64s, headers: Headers) -> None:
        if not len(headers):
            return
        base_offsets = headers["base_offset"].astype(np.int64)
        ends = base_offsets + headers["last_offset_delta"] + 1
        self._check_offsets(position + places, headers, base_offsets, ends)
        self._places.append(position + places)
        self._offsets.append(base_offsets)
        self._timestamps.append(headers["max_timestamp_ms"].astype(np.int64))
        self._control_offsets.append(base_offsets[has(headers, CONTROL)])
        self._next_offset = int(ends[-1])
        self.batch_count += len(headers)
        self.record_count += int(headers["record_count"].sum(dtype=np.int64))
        self.bytes += int((headers["length"].astype(np.int64) + LENGTH_OVERHEAD_BYTES).sum())
        while place < end:
            try:
                decoded = decode(data[:end], self._at(position), _ALL_OF_A_RECORD, place=place, scratch=self._scratch)
            except DamagedBatch as damage:
                place = self._pass_over(damage, position, data, place)
                continue
            if decoded.end == place:
                break
            first, behind = np.searchsorted(places, (place, decoded.end))
            self._check_times(position + places[first:behind], headers[first:behind], decoded.table)
            place = decoded.end

    def _check_times(self, positions: Int64s, headers: Headers, table: pa.RecordBatch) -> None:
        """Each header's greatest time is that of its records: look-ups by time and retention go by it."""
        counts = headers["record_count"].astype(np.int64)
        if int(counts.sum()) != table.num_rows:
            return
        times = table.column("timestamp").view(pa.int64()).to_numpy()
        filled = np.flatnonzero(counts)
        if not len(filled):
            return
        newest = np.maximum.reduceat(times, (np.cumsum(counts) - counts)[filled])
        told = headers["max_timestamp_ms"].astype(np.int64)[filled]
        lies = (np.maximum(newest, -1) != told) & ~(has(headers, LOG_APPEND_TIME) | has(headers, CONTROL))[filled]
        for at in np.flatnonzero(lies).tolist():
            self.found(
                Kind.BATCH,
                f"the header's greatest time is {told[at]}, that of the records {newest[at]}",
                offset=int(headers["base_offset"][filled[at]]),
                position_bytes=int(positions[filled[at]]),
            )

    def _pass_over(self, damage: DamagedBatch, position: int, data: memoryview, place: int) -> int:
        """Decode the batches before a damaged one separately; returns the place after the damaged one."""
        bad = damage.position_bytes - position
        while place < bad:
            # An earlier batch here may be damaged too, since `decode` walks records only after all checksums.
            try:
                place = decode(data[:bad], self._at(position), _ALL_OF_A_RECORD, place=place, scratch=self._scratch).end
            except DamagedBatch as earlier:
                place = self._pass_over(earlier, position, data[:bad], place)
        self._name(damage)
        return bad + _batch_bytes(data, bad)

    def _check_offsets(self, positions: Int64s, headers: Headers, base_offsets: Int64s, ends: Int64s) -> None:
        first = base_offsets[0] if self._next_offset is None else self._next_offset
        expected = np.concatenate([np.array([first], np.int64), ends[:-1]])
        for at in np.flatnonzero(base_offsets != expected).tolist():
            has_hole = base_offsets[at] > expected[at]
            if has_hole and self._is_compacted:
                continue
            what = "offsets are missing in front of this batch" if has_hole else "offsets are there twice"
            self.found(
                Kind.OFFSETS,
                f"{what}: it begins at {base_offsets[at]}, {expected[at]} was due",
                offset=int(base_offsets[at]),
                position_bytes=int(positions[at]),
            )
        if self._is_compacted:
            return
        is_sparse = headers["record_count"] != headers["last_offset_delta"].astype(np.int64) + 1
        for at in np.flatnonzero(is_sparse).tolist():
            self.found(
                Kind.OFFSETS,
                f"a batch of {ends[at] - base_offsets[at]} offsets has {headers['record_count'][at]} records",
                offset=int(base_offsets[at]),
                position_bytes=int(positions[at]),
            )

    def _name(self, damage: DamagedBatch) -> None:
        self.found(Kind.BATCH, damage.reason, offset=damage.base_offset, position_bytes=damage.position_bytes)

    def _at(self, position: int) -> Origin:
        return self._origin._replace(position_bytes=position)

    # --- the index

    def compare(self, index: SegmentIndex) -> None:
        """Compare the index with the batches seen."""
        places, offsets, timestamps = (_joined(each) for each in (self._places, self._offsets, self._timestamps))
        summary = index.summary
        if not len(places):
            self.found(Kind.INDEX, f"the index has offsets up to {summary.end_offset}, the segment has no batch")
            return
        greatest = np.maximum.accumulate(timestamps)
        positions = np.frombuffer(index.positions, np.int64)
        at = np.searchsorted(places, positions)
        is_batch = (at < len(places)) & (places[np.minimum(at, len(places) - 1)] == positions)
        for entry in np.flatnonzero(~is_batch).tolist():
            self.found(Kind.INDEX, f"entry {entry} of the index names a place where no batch begins",
                       offset=index.offsets[entry], position_bytes=index.positions[entry])  # fmt: skip
        before = np.concatenate([np.array([-1], np.int64), np.maximum(greatest, -1)])
        at = np.minimum(at, len(places) - 1)
        for name, told, true in (
            ("offset", np.frombuffer(index.offsets, np.int64), offsets[at]),
            ("greatest timestamp", np.frombuffer(index.timestamps_ms, np.int64), before[at]),
        ):
            for entry in np.flatnonzero(is_batch & (told != true)).tolist():
                self.found(
                    Kind.INDEX,
                    f"entry {entry} of the index has {name} {told[entry]}, the log has {true[entry]}",
                    offset=int(offsets[at[entry]]),
                    position_bytes=int(positions[entry]),
                )
        newest = int(greatest[-1])
        # A segment that compaction made begins where those did that it replaces, whether or not a record is left there.
        base_offset = int(offsets[0])
        if self._is_compacted and self._base_offset is not None:
            base_offset = min(base_offset, self._base_offset)
        first_newest = int(places[np.searchsorted(greatest, newest)]) if newest >= 0 else -1
        for name, in_index, in_log in (
            ("base offset", summary.base_offset, base_offset),
            ("end offset", summary.end_offset, self._next_offset),
            ("greatest timestamp", summary.max_timestamp_ms, max(newest, -1)),
            ("position of the greatest timestamp", summary.max_timestamp_position, first_newest),
        ):
            if in_index != in_log:
                self.found(Kind.INDEX, f"the index's {name} is {in_index}, the log's {in_log}")
        controls = set(_joined(self._control_offsets).tolist())
        for aborted in index.aborted:
            if aborted.last_offset not in controls:
                self.found(
                    Kind.INDEX,
                    f"the index has a transaction of producer {aborted.producer_id} that was aborted, and no marker ends it",
                    offset=aborted.last_offset,
                )


def _joined(parts: list[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _batch_bytes(data: memoryview, place: int) -> int:
    """The batch's length according to its header."""
    length: int = _LENGTH.unpack_from(data, place)[0]
    return length + LENGTH_OVERHEAD_BYTES


def _believable_bytes(data: memoryview, place: int) -> int:
    """The plausible length of a batch with a bad header; 0 when it is too small or reaches past `data`."""
    if len(data) - place < HEADER_BYTES:
        return 0
    size = _batch_bytes(data, place)
    return size if HEADER_BYTES <= size <= len(data) - place else 0
