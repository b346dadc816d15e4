"""Which records of a log compaction keeps, and the batches that are left. Bytes in, bytes out. Pure.

Two passes: `note` goes through the part that was not cleaned yet and notes the newest offset of each key, then `clean`
goes through the log from its start. The same records survive as in Kafka: of each key the newest, a tombstone until its
delete horizon has passed (KIP-534), nothing of aborted transactions, a marker until nothing of its transaction is left
and its own delete horizon has passed, and of each live producer the batch with its last sequence, if need be without
records. Source: Kafka's Cleaner, CleanedTransactionMetadata and MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bmq.arrow_records import kernels
from bmq.arrow_records.batch_headers import CONTROL, Headers, has, scan, transactional
from bmq.arrow_records.bodies import Bodies, Rows, Scratch, open_bodies, walk
from bmq.arrow_records.cleaner import with_some, without_records
from bmq.arrow_records.origin import Origin
from bmq.log.aborted_transactions import AbortedEntry
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, parse_end_transaction_marker
from bmq.protocol.record_batch import BatchHeader

ROWS_MAX: Final = 1 << 18
BYTES_MAX: Final = 8 << 20
_DELETE_HORIZON: Final = 1 << 6
_WANTED: Final = kernels.WANTS_KEY | kernels.WANTS_VALUE
_WANTED_WHOLE: Final = _WANTED | kernels.WANTS_TIMESTAMP | kernels.WANTS_HEADERS


class LastRecord(NamedTuple):
    """The state of a producer: the offset of its last record (None: its last batch was a marker), and its epoch."""

    offset: int | None
    epoch: int


class Keys(Protocol):
    """Newest offsets of keys: bmq.arrow_records.key_map.KeyMap, or one that only takes them."""

    def put(
        self,
        data: kernels.Bytes,
        views: npt.NDArray[np.int32],
        takes: npt.NDArray[np.bool_],
        offsets: npt.NDArray[np.int64],
    ) -> int: ...

    def newest(
        self,
        data: kernels.Bytes,
        views: npt.NDArray[np.int32],
        takes: npt.NDArray[np.bool_],
        offsets: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]: ...


class Step(NamedTuple):
    """How far the batches of a buffer were gone through: to `end` in it. `missing_bytes`: as in decoder.Decoded."""

    end: int
    missing_bytes: int


class CleanedBatch(NamedTuple):
    """A batch that stays: its header, and its bytes."""

    header: BatchHeader
    data: Buffer


@dataclass(slots=True)
class CleaningCounts:
    """What a pass saw and left."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0


class TransactionState(NamedTuple):
    """Between two batches of a log. `seen`: producers with records of an aborted transaction before, whose marker follows.

    `committed`: producers with records of a transaction that was not aborted, whose marker was not met.
    """

    seen: frozenset[int] = frozenset()
    committed: frozenset[int] = frozenset()


NO_TRANSACTIONS: Final = TransactionState()


class TransactionPart(NamedTuple):
    """What a run of batches changes in a TransactionState. `ended`: producers with a marker of an aborted transaction.

    `settled`: with another marker. `state`: at its end, if nothing was there at its start.
    """

    ended: frozenset[int]
    settled: frozenset[int]
    state: TransactionState

    def after(self, before: TransactionState) -> TransactionState:
        """The state behind the run."""
        return TransactionState(
            self.state.seen | (before.seen - self.ended), self.state.committed | (before.committed - self.settled)
        )


class Transactions:
    """Follows the transactions of a log, batch by batch. `aborted`: all whose records may come.

    To begin in the middle: the offset, and the state there.
    """

    def __init__(
        self,
        aborted: Iterable[AbortedEntry],
        begin_offset: int = -1,
        state: TransactionState = NO_TRANSACTIONS,
    ) -> None:
        coming = [entry for entry in aborted if entry.last_offset >= begin_offset]
        self._coming = deque(sorted(coming, key=lambda entry: entry.first_offset))
        self._aborted: dict[int, bool] = {}  # producer id -> a batch of its transaction was seen
        self._committed: set[int] = set(state.committed)
        self._ended: set[int] = set()
        self._settled: set[int] = set()
        if begin_offset >= 0:
            self._begin(begin_offset - 1)
            self._aborted = {producer_id: producer_id in state.seen for producer_id in self._aborted}

    def part(self) -> TransactionPart:
        """What all batches so far have changed."""
        seen = frozenset(producer_id for producer_id, is_seen in self._aborted.items() if is_seen)
        state = TransactionState(seen, frozenset(self._committed))
        return TransactionPart(frozenset(self._ended), frozenset(self._settled), state)

    def discards(self, producer_id: int, last_offset: int) -> bool:
        """Whether a transactional batch, not a marker, belongs to an aborted transaction."""
        self._begin(last_offset)
        if producer_id in self._aborted:
            self._aborted[producer_id] = True
            return True
        self._committed.add(producer_id)
        return False

    def discards_marker(self, producer_id: int, last_offset: int, marker: EndTransactionMarker | None) -> bool:
        """Whether nothing of the marker's transaction is left. `marker` None: the batch was emptied before."""
        self._begin(last_offset)
        if marker is None:
            return True
        if marker.control_type is ControlType.ABORT:
            self._ended.add(producer_id)
            return not self._aborted.pop(producer_id, False)
        self._settled.add(producer_id)
        is_last = producer_id not in self._committed
        self._committed.discard(producer_id)
        return is_last

    def _begin(self, last_offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= last_offset:
            self._aborted.setdefault(self._coming.popleft().producer_id, False)


@dataclass(slots=True)
class _Opened:
    """The first batches of a buffer, with their rows; `row_batches` has the number of each row's batch."""

    data: kernels.Bytes
    bodies: Bodies
    rows: Rows
    first_rows: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    row_batches: npt.NDArray[np.int64]
    end: int
    missing_bytes: int

    @property
    def headers(self) -> Headers:
        return self.bodies.headers


@dataclass(slots=True)
class LogCleaner:
    """One cleaning of a log. `keys`: empty, from `dirty_offset` on, where the last cleaning had come to.

    `aborted`: all aborted transactions with records in the log. `last_records`: of each producer that is still known.
    `delete_retention_ms`: what a tombstone has from now on; `marker_retention_ms`: what a marker has.
    """

    keys: Keys
    dirty_offset: int
    now_ms: int
    delete_retention_ms: int
    marker_retention_ms: int
    aborted: tuple[AbortedEntry, ...] = ()
    last_records: Mapping[int, LastRecord] = field(default_factory=dict)
    counts: CleaningCounts = field(default_factory=CleaningCounts)
    is_full: bool = False
    """The map took no more keys: what follows `noted_offset` is left for the next cleaning."""
    noted_offset: int = 0
    """The map knows the records below; newer ones stay as they are."""
    dropped_aborts: list[int] = field(default_factory=list)
    """Offsets of markers of aborted transactions that are not in the log any more."""
    begin_offset: int = -1
    """Where the cleaning begins, if that is in the middle of the log; `transactions`: the state there."""
    transactions: TransactionState = NO_TRANSACTIONS
    _scratch: Scratch = field(default_factory=Scratch)
    _noted: Transactions = field(init=False)
    _cleaned: Transactions = field(init=False)

    def __post_init__(self) -> None:
        self.noted_offset = self.dirty_offset
        noted = (entry for entry in self.aborted if entry.last_offset >= self.dirty_offset)
        self._noted = Transactions(noted, self.begin_offset, self.transactions)
        self._cleaned = Transactions(self.aborted, self.begin_offset, self.transactions)

    def note(self, buffer: Buffer, origin: Origin) -> Step:
        """Note the keys of the whole batches in the buffer. Call with all of the part that is to be noted, in order.

        Raises DamagedBatch.
        """
        opened = self._open(buffer, origin, _WANTED)
        if not len(opened.headers):
            return Step(opened.end, opened.missing_bytes)
        discarded = self._discarded(opened, self._noted)
        offsets = opened.rows.offsets
        takes = (opened.rows.key_nulls == 0) & (offsets >= self.dirty_offset)
        takes &= ~(discarded | has(opened.headers, CONTROL))[opened.row_batches]
        came = self.keys.put(opened.bodies.data, opened.rows.key_views, takes, offsets)
        if came < len(takes):
            self.is_full = True
            self.noted_offset = max(self.noted_offset, int(offsets[came]))
        else:
            self.noted_offset = max(self.noted_offset, _end_offset(opened.headers))
        return Step(opened.end, opened.missing_bytes)

    @property
    def noted_part(self) -> TransactionPart:
        """What the batches that `note` went through change in the state of transactions."""
        return self._noted.part()

    def clean(self, buffer: Buffer, origin: Origin, end_offset: int, out: list[CleanedBatch]) -> Step:
        """Append what is left of the whole batches in the buffer to `out`. Call with the log from its start, in order.

        The batch that ends at `end_offset` stays, if need be without records, so that the file that is made ends there.
        Raises DamagedBatch.
        """
        opened = self._open(buffer, origin, _WANTED_WHOLE)
        headers, rows = opened.headers, opened.rows
        if not len(headers):
            return Step(opened.end, opened.missing_bytes)
        is_control = has(headers, CONTROL)
        horizons = np.where(has(headers, _DELETE_HORIZON), headers["base_timestamp_ms"], np.iinfo(np.int64).max)
        can_discard = self._discarded(opened, self._cleaned)
        # A marker of a transaction of which nothing is left has a delete horizon, as a tombstone has.
        discarded = can_discard & (~is_control | (horizons <= self.now_ms))
        has_value = rows.value_nulls == 0
        keep = self._kept_by_key(opened, has_value | (horizons > self.now_ms)[opened.row_batches])
        keep |= is_control[opened.row_batches]
        keep &= ~discarded[opened.row_batches]
        kept = _sums(keep, opened)
        needs_horizon = (_sums(keep & ~has_value, opened) > 0) & ~is_control | can_discard & is_control
        needs_horizon &= ~has(headers, _DELETE_HORIZON)
        self._write(opened, keep, kept, needs_horizon, end_offset, out)
        self._count(opened, kept)
        self._note_dropped_aborts(opened, discarded & is_control)
        return Step(opened.end, opened.missing_bytes)

    def _open(self, buffer: Buffer, origin: Origin, wanted: int) -> _Opened:
        data = kernels.read_only(buffer)
        found = scan(data, origin, 0, rows_max=ROWS_MAX, bytes_max=BYTES_MAX, batch_bytes_max=DECOMPRESSED_BYTES_MAX)
        bodies = open_bodies(
            data,
            origin,
            found.places,
            found.headers,
            wanted,
            bytes_max=BYTES_MAX,
            batch_bytes_max=DECOMPRESSED_BYTES_MAX,
            is_verified=False,
            scratch=self._scratch,
        )
        count = len(bodies.places)
        is_all = count == len(found.places)
        counts = bodies.headers["record_count"].astype(np.int64)
        return _Opened(
            data,
            bodies,
            walk(bodies, origin, wanted),
            np.cumsum(counts) - counts,
            counts,
            np.repeat(np.arange(count), counts),
            found.end if is_all else int(found.places[count]),
            found.missing_bytes if is_all else 0,
        )

    def _discarded(self, opened: _Opened, transactions: Transactions) -> npt.NDArray[np.bool_]:
        """Batches of aborted transactions, and markers of transactions of which nothing is left."""
        headers = opened.headers
        is_control = has(headers, CONTROL)
        discarded = np.zeros(len(headers), np.bool_)
        for number in np.flatnonzero(is_control | transactional(headers)).tolist():
            header = headers[number]
            producer_id = int(header["producer_id"])
            last_offset = int(header["base_offset"]) + int(header["last_offset_delta"])
            if not is_control[number]:
                discarded[number] = transactions.discards(producer_id, last_offset)
                continue
            marker = None
            if header["record_count"]:
                marker = parse_end_transaction_marker(memoryview(opened.data), int(opened.bodies.places[number]))
                if marker is None:
                    continue  # another kind of control record
            discarded[number] = transactions.discards_marker(producer_id, last_offset, marker)
        return discarded

    def _kept_by_key(self, opened: _Opened, may_stay: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        rows = opened.rows
        is_noted = rows.offsets < self.noted_offset
        newest = self.keys.newest(opened.bodies.data, rows.key_views, is_noted & (rows.key_nulls == 0), rows.offsets)
        return newest & may_stay | ~is_noted

    def _write(
        self,
        opened: _Opened,
        keep: npt.NDArray[np.bool_],
        kept: npt.NDArray[np.int64],
        needs_horizon: npt.NDArray[np.bool_],
        end_offset: int,
        out: list[CleanedBatch],
    ) -> None:
        bodies, view = opened.bodies, memoryview(opened.data)
        for number, place in enumerate(bodies.places.tolist()):
            header = BatchHeader.parse(view, place)
            if not kept[number]:
                if header.end_offset == end_offset or self._is_last_of_producer(header):
                    data: Buffer = without_records(header)
                    out.append(CleanedBatch(BatchHeader.parse(data), data))
            elif kept[number] == opened.counts[number] and not needs_horizon[number]:
                out.append(CleanedBatch(header, view[place : place + header.size_bytes]))
            else:
                first = opened.first_rows[number]
                of_batch = slice(first, first + opened.counts[number])
                data = with_some(
                    header,
                    bodies.data[bodies.starts[number] : bodies.ends[number]],
                    keep[of_batch],
                    opened.rows.timestamps[of_batch],
                    delete_horizon_ms=self._horizon_ms(header) if needs_horizon[number] else None,
                )
                out.append(CleanedBatch(BatchHeader.parse(data), data))

    def _horizon_ms(self, header: BatchHeader) -> int:
        return self.now_ms + (self.marker_retention_ms if header.is_control else self.delete_retention_ms)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id < 0 or (last := self.last_records.get(header.producer_id)) is None:
            return False
        if last.offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.end_offset - 1 == last.offset

    def _count(self, opened: _Opened, kept: npt.NDArray[np.int64]) -> None:
        self.counts.records_read += int(opened.counts.sum())
        self.counts.records_kept += int(kept.sum())

    def _note_dropped_aborts(self, opened: _Opened, dropped: npt.NDArray[np.bool_]) -> None:
        for number in np.flatnonzero(dropped).tolist():
            if not opened.counts[number]:
                continue
            marker = parse_end_transaction_marker(memoryview(opened.data), int(opened.bodies.places[number]))
            if marker is not None and marker.control_type is ControlType.ABORT:
                self.dropped_aborts.append(int(opened.headers["base_offset"][number]))


def _sums(rows: npt.NDArray[np.bool_], opened: _Opened) -> npt.NDArray[np.int64]:
    """How many rows of each batch are true."""
    return np.bincount(opened.row_batches[rows], minlength=len(opened.counts)).astype(np.int64)


def _end_offset(headers: Headers) -> int:
    return int(headers["base_offset"][-1]) + int(headers["last_offset_delta"][-1]) + 1
