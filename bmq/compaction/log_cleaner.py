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
from dataclasses import field
from typing import Final, NamedTuple, NoReturn, Protocol

from bmq.compaction.batch_cleaner import with_some, without_records
from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.batch_bodies import Scratch, open_bodies
from bmq.log.batch_scan import scan
from bmq.log.origin import DamagedBatch, Origin
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, parse_end_transaction_marker
from bmq.protocol.record_batch import BatchHeader
from bmq.records import batch_layout as layout
from bmq.records.batch_layout import Bodies, Chosen, Noted

ROWS_MAX: Final = 1 << 18
BYTES_MAX: Final = 8 << 20
BATCHES_MAX: Final = 8192
"""Most batches of one step: each has some objects of Python, half a kilobyte of memory."""
_WANTED: Final = layout.WANTS_KEY | layout.WANTS_VALUE


class LastRecord(NamedTuple):
    """The state of a producer: the offset of its last record (None: its last batch was a marker), and its epoch."""

    offset: int | None
    epoch: int


class Keys(Protocol):
    """Newest offsets of keys: bmq.compaction.key_map.KeyMap, or one that only takes them."""

    def note(self, bodies: Bodies, skipped: Buffer, dirty_offset: int) -> Noted: ...

    def choose_survivors(self, bodies: Bodies, discarded: Buffer, noted_offset: int, now_ms: int) -> Chosen: ...


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
    """The first batches of a buffer with their records decompressed, and their headers and places in it."""

    data: Buffer
    origin: Origin
    bodies: Bodies
    headers: list[BatchHeader]
    places: list[int]
    end: int
    missing_bytes: int

    def damaged(self, number: int, status: int) -> NoReturn:
        reason = layout.REASONS[-status]
        raise DamagedBatch(self.origin, self.places[number], self.headers[number].base_offset, reason)


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
        opened = self._open(buffer, origin)
        if not opened.headers:
            return Step(opened.end, opened.missing_bytes)
        discards = self._discards(opened, self._noted)
        skipped = bytes(
            is_discarded or header.is_control for is_discarded, header in zip(discards, opened.headers, strict=True)
        )
        status, number, full_offset = self.keys.note(opened.bodies, skipped, self.dirty_offset)
        if status:
            opened.damaged(number, status)
        if full_offset >= 0:
            self.is_full = True
            self.noted_offset = max(self.noted_offset, full_offset)
        else:
            self.noted_offset = max(self.noted_offset, opened.headers[-1].end_offset)
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
        opened = self._open(buffer, origin)
        if not opened.headers:
            return Step(opened.end, opened.missing_bytes)
        discards = self._discards(opened, self._cleaned)
        # A marker of a transaction of which nothing is left has a delete horizon, as a tombstone has.
        discarded = bytes(
            discards_it and (not header.is_control or self._is_over(header))
            for discards_it, header in zip(discards, opened.headers, strict=True)
        )
        status, number, keep, kept = self.keys.choose_survivors(
            opened.bodies, discarded, self.noted_offset, self.now_ms
        )
        if status:
            opened.damaged(number, status)
        self._write(opened, discards, keep, kept, end_offset, out)
        self._note_dropped_aborts(opened, discarded)
        return Step(opened.end, opened.missing_bytes)

    def _open(self, buffer: Buffer, origin: Origin) -> _Opened:
        found = scan(
            buffer,
            origin,
            0,
            rows_max=ROWS_MAX,
            bytes_max=BYTES_MAX,
            batch_bytes_max=DECOMPRESSED_BYTES_MAX,
            batches_max=BATCHES_MAX,
        )
        bodies = open_bodies(
            buffer,
            origin,
            found.batches,
            _WANTED,
            bytes_max=BYTES_MAX,
            batch_bytes_max=DECOMPRESSED_BYTES_MAX,
            is_verified=False,
            scratch=self._scratch,
        ).bodies
        batches = list(layout.BATCH.iter_unpack(bodies.batches))
        is_all = bodies.batch_count == found.batch_count
        return _Opened(
            buffer,
            origin,
            bodies,
            [layout.header_of(batch) for batch in batches[: bodies.batch_count]],
            [batch[layout.PLACE] for batch in batches[: bodies.batch_count]],
            found.end if is_all else batches[bodies.batch_count][layout.PLACE],
            found.missing_bytes if is_all else 0,
        )

    def _discards(self, opened: _Opened, transactions: Transactions) -> list[bool]:
        """Whether each batch is of an aborted transaction, or a marker of a transaction of which nothing is left."""
        found = []
        for header, place in zip(opened.headers, opened.places, strict=True):
            if header.is_control:
                marker = parse_end_transaction_marker(opened.data, place) if header.record_count else None
                # None of a batch with records: another kind of control record.
                is_marker = marker is not None or not header.record_count
                found.append(is_marker and transactions.discards_marker(header.producer_id, header.last_offset, marker))
            else:
                found.append(header.is_transactional and transactions.discards(header.producer_id, header.last_offset))
        return found

    def _is_over(self, header: BatchHeader) -> bool:
        """Whether it has a delete horizon that has passed."""
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self.now_ms

    def _write(
        self,
        opened: _Opened,
        discards: list[bool],
        keep: bytearray,
        kept: bytearray,
        end_offset: int,
        out: list[CleanedBatch],
    ) -> None:
        view, keeps, row = memoryview(opened.data), memoryview(keep), 0
        counts = layout.KEPT.iter_unpack(kept)
        for number, (header, (count, tombstone_count)) in enumerate(zip(opened.headers, counts, strict=True)):
            may_go = discards[number] if header.is_control else tombstone_count > 0
            needs_horizon = may_go and header.delete_horizon_ms is None
            self.counts.records_read += header.record_count
            self.counts.records_kept += count
            if not count:
                if header.end_offset == end_offset or self._is_last_of_producer(header):
                    data: Buffer = without_records(header)
                    out.append(CleanedBatch(BatchHeader.parse(data), data))
            elif count == header.record_count and not needs_horizon:
                place = opened.places[number]
                out.append(CleanedBatch(header, view[place : place + header.size_bytes]))
            else:
                horizon_ms = self._horizon_ms(header) if needs_horizon else None
                of_batch = keeps[row : row + header.record_count]
                data = with_some(header, opened.bodies, number, of_batch, delete_horizon_ms=horizon_ms)
                out.append(CleanedBatch(BatchHeader.parse(data), data))
            row += header.record_count

    def _horizon_ms(self, header: BatchHeader) -> int:
        return self.now_ms + (self.marker_retention_ms if header.is_control else self.delete_retention_ms)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id < 0 or (last := self.last_records.get(header.producer_id)) is None:
            return False
        if last.offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.end_offset - 1 == last.offset

    def _note_dropped_aborts(self, opened: _Opened, discarded: bytes) -> None:
        for header, place, is_discarded in zip(opened.headers, opened.places, discarded, strict=True):
            if not is_discarded or not header.is_control or not header.record_count:
                continue
            marker = parse_end_transaction_marker(opened.data, place)
            if marker is not None and marker.control_type is ControlType.ABORT:
                self.dropped_aborts.append(header.base_offset)
