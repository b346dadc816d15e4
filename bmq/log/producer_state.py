"""Idempotent and transactional producers of one partition: which batch comes next, and which is a duplicate. Pure.

Each producer id has an entry with its epoch and its last five batches. `check` classifies a batch. `place` adds it once it has an
offset, before it is durable, so that duplicates of batches in flight are found as well. `synced` and `rollback` follow the high
watermark and cuts. The caller compares a duplicate's offset with the high watermark: below it, the duplicate is answered at once;
else it waits for the original (rule 11). Entries are replaced, never changed, and the entry from before a batch in flight is kept
until that batch is durable.

Not here: whether the producer may write, and KIP-890's verification.
Source: KIP-98, KIP-890, Kafka's ProducerAppendInfo, ProducerStateEntry and ProducerStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from crc32c import crc32c

from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.checksummed_parts import CorruptParts
from bmq.log.store import Buffer
from bmq.protocol.control_batch import ControlType, EndTransactionMarker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import NO_TIMESTAMP_MS, TRANSACTIONAL, BatchHeader
from bmq.protocol.turns import at_once

BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
EPOCH_BUMPS_FROM: Final = 2
"""First `transaction.version` with which each end of a transaction bumps the epoch, which its marker has (KIP-890)."""
IDLE_MS_MIN: Final = 600_000
"""A producer that wrote in this time is not forgotten to make room: it may still retry a batch (delivery.timeout.ms)."""
_SEQUENCE_MAX: Final = 2**31 - 1
_FORGOTTEN_SHARE: Final = 64  # forget 1/64 of the maximum at once: finding one costs as much as finding these
_LOOKS_MAX: Final = 1_000  # producers that cannot be forgotten, looked at in one go

_SNAPSHOT_HEAD: Final = Struct("<BII")  # version, crc32c of what follows, number of producers
_SNAPSHOT_VERSION: Final = 1
_PRODUCER: Final = Struct("<qhiqqB")  # id, epoch, coordinator epoch, placed at, transaction's first offset, batches
_BATCH: Final = Struct("<iiqqq")  # as PlacedBatch
PRODUCER_BYTES_MAX: Final = _PRODUCER.size + BATCHES_KEPT * _BATCH.size
"""Size of the longest entry of a producer in a snapshot."""
_PER_TURN: Final = 2_000  # producers encoded or decoded in one turn of the event loop: 4 to 8 ms


class CorruptSnapshot(CorruptParts):
    """A producer-state snapshot that is not whole."""


class PlacedBatch(NamedTuple):
    """One remembered batch: sequences and offsets of its first and last record."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry(NamedTuple):
    """The state of one producer id. `transaction_first_offset` is -1 without an open transaction. `batches`: oldest first.

    `placed_ms`: when its last batch or marker was placed, by the owner's wall clock; it decides when the producer is forgotten.
    `last_timestamp_ms`: the greatest timestamp of that batch, which may be old in a backfill.
    """

    epoch: int
    coordinator_epoch: int
    placed_ms: int
    transaction_first_offset: int
    batches: tuple[PlacedBatch, ...]
    last_timestamp_ms: int = NO_TIMESTAMP_MS


class _Completed(NamedTuple):
    first_offset: int
    marker_offset: int


class ProducerSnapshot:
    """The state of all producers at one moment. Immutable, so it may be encoded later, while the live state changes."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[int, ProducerEntry]) -> None:
        self._entries = entries

    def encode(self) -> bytes:
        """The snapshot's bytes, in one go. For many producers use `encoding`."""
        return at_once(self.encoding())

    def encoding(self) -> Generator[None, None, bytes]:
        """Encode as `encode` does, and yield whenever a turn of the event loop has been long enough."""
        body = bytearray()
        crc = 0
        encoded_bytes = 0
        for number, (producer_id, entry) in enumerate(self._entries.items(), 1):
            body += _PRODUCER.pack(producer_id, *entry[:4], len(entry.batches))
            for batch in entry.batches:
                body += _BATCH.pack(*batch)
            if number % _PER_TURN == 0:
                crc, encoded_bytes = _crc_of(body, encoded_bytes, crc), len(body)
                yield
        crc = _crc_of(body, encoded_bytes, crc)
        return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc, len(self._entries)) + body


def _crc_of(body: bytearray, start: int, crc: int) -> int:
    with memoryview(body) as view, view[start:] as part:
        return int(crc32c(part, crc))


class ProducerStates:
    """All producers of a partition, with their batches in flight, ordered by when their last batch was placed."""

    __slots__ = ("_completed", "_entries", "_ongoing", "_undo", "aborted")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._undo: deque[tuple[int, int, ProducerEntry | None]] = deque()  # (last offset, producer id, entry before)
        self._ongoing: dict[int, int] = {}  # producer id -> first offset, ascending
        self._completed: deque[_Completed] = deque()  # transactions whose marker is in flight
        self.aborted = AbortedTransactions()

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def entries(self) -> Iterable[tuple[int, ProducerEntry]]:
        """(producer id, entry) of all producers."""
        return self._entries.items()

    # --- appending

    def check(self, header: BatchHeader, *, is_client: bool = True) -> PlacedBatch | None:
        """Check a batch that has a producer id: the batch that it repeats, or None if it may be placed.

        `is_client`: check sequences, which coordinators do not send. Raises KafkaError INVALID_PRODUCER_EPOCH,
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        entry = self._entries.get(header.producer_id)
        # A producer never seen, or forgotten since, may start with any sequence.
        if entry is None:
            return None
        epoch = header.producer_epoch
        if epoch == entry.epoch:
            if is_client:
                base_sequence = header.base_sequence
                batches = entry.batches
                last_sequence = batches[-1][1] if batches else -1
                if base_sequence != last_sequence + 1 and (base_sequence != 0 or last_sequence != _SEQUENCE_MAX):
                    return self._duplicate_of(header, entry)
        elif epoch < entry.epoch:
            raise _stale_epoch(header, entry)
        elif is_client and header.base_sequence != 0 and entry.epoch != NO_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} starts epoch {epoch} with sequence {header.base_sequence}",
            )
        if entry.transaction_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} writes outside its open transaction",
            )
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """Refuse a batch if a later epoch of its producer was seen. Raises KafkaError INVALID_PRODUCER_EPOCH."""
        entry = self._entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise _stale_epoch(header, entry)

    def check_first_sequence(self, header: BatchHeader) -> None:
        """Refuse an unknown producer's batch unless it starts at sequence 0, for `transaction.version` 2 and later (KAFKA-18202).

        Its earlier batches were refused, and will be sent again. Raises KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if header.base_sequence != 0 and header.producer_id not in self._entries:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} is not known here and starts with sequence {header.base_sequence}",
            )

    def _duplicate_of(self, header: BatchHeader, entry: ProducerEntry) -> PlacedBatch:
        base_sequence, last_sequence = header.base_sequence, header.last_sequence
        for batch in entry.batches:
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return batch
        expected = entry.batches[-1].last_sequence if entry.batches else -1
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {base_sequence} after {expected}",
        )

    def place(self, header: BatchHeader, base_offset: int, placed_ms: int) -> None:
        """Add a batch at its offset. It has passed `check`, or was read from the log.

        `placed_ms`: the present time by the wall clock, also for a batch read from the log, whose time of writing is not known.
        """
        producer_id = header.producer_id
        epoch = header.producer_epoch
        last_offset = base_offset + header.last_offset_delta
        base_sequence = header.base_sequence
        timestamp_ms = header.max_timestamp_ms
        last_sequence = (base_sequence + header.last_offset_delta) & _SEQUENCE_MAX if base_sequence >= 0 else -1
        batch = PlacedBatch(base_sequence, last_sequence, base_offset, last_offset, timestamp_ms)
        before = self._entries.pop(producer_id, None)  # it becomes the last one
        if before is None:
            coordinator_epoch = first_offset = -1
            batches: tuple[PlacedBatch, ...] = (batch,)
        else:
            coordinator_epoch = before.coordinator_epoch
            first_offset = before.transaction_first_offset
            batches = (*before.batches[1 - BATCHES_KEPT :], batch) if before.epoch == epoch else (batch,)
        if header.attributes & TRANSACTIONAL and first_offset == NO_OFFSET:
            first_offset = self._ongoing[producer_id] = base_offset
        self._entries[producer_id] = ProducerEntry(
            epoch, coordinator_epoch, placed_ms, first_offset, batches, timestamp_ms
        )
        self._undo.append((last_offset, producer_id, before))

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int = 0) -> None:
        """Check the marker of a transaction's end. Raises KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.

        If each end bumps the epoch, a marker with the known epoch is a repeated one (KAFKA-19999), or a late one that would end
        the producer's next transaction if that is open here.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        is_late = transaction_version >= EPOCH_BUMPS_FROM and entry.transaction_first_offset != NO_OFFSET
        if header.producer_epoch < entry.epoch or (is_late and header.producer_epoch == entry.epoch):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker of producer {header.producer_id} has epoch {header.producer_epoch}, the last seen is {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of coordinator epoch {marker.coordinator_epoch}, {entry.coordinator_epoch} was seen",
            )

    def place_marker(self, header: BatchHeader, base_offset: int, marker: EndTransactionMarker, placed_ms: int) -> None:
        """Add the end of a transaction. Without an open transaction it only updates the epochs. `placed_ms`: as in `place`."""
        producer_id = header.producer_id
        before = self._entries.pop(producer_id, None)
        epoch = header.producer_epoch
        first_offset = NO_OFFSET if before is None else before.transaction_first_offset
        if first_offset != NO_OFFSET:
            self._ongoing.pop(producer_id, None)
            self._completed.append(_Completed(first_offset, base_offset))
            if marker.control_type is ControlType.ABORT:
                stable = min(self._ongoing.values(), default=base_offset + 1)
                self.aborted.add(AbortedEntry(producer_id, first_offset, base_offset, stable))
        batches = () if before is None or before.epoch != epoch else before.batches
        self._entries[producer_id] = ProducerEntry(
            epoch, marker.coordinator_epoch, placed_ms, NO_OFFSET, batches, header.max_timestamp_ms
        )
        self._undo.append((base_offset, producer_id, before))

    # --- following the log

    def synced(self, high_watermark: int) -> None:
        """All offsets below `high_watermark` are durable, and will not be rolled back."""
        undo = self._undo
        while undo and undo[0][0] < high_watermark:
            undo.popleft()
        completed = self._completed
        while completed and completed[0].marker_offset < high_watermark:
            completed.popleft()

    def rollback(self, end_offset: int) -> None:
        """Undo batches at or past `end_offset`: they are not in the log, and no high watermark has passed them."""
        undo = self._undo
        has_changed = False
        while undo and undo[-1][0] >= end_offset:
            _, producer_id, before = undo.pop()
            has_changed = True
            if before is None:
                self._entries.pop(producer_id, None)
            else:
                self._entries[producer_id] = before
        if not has_changed:
            return
        self._completed = deque(item for item in self._completed if item.marker_offset < end_offset)
        self.aborted.drop_from(end_offset)
        self._find_ongoing()

    def last_stable_offset(self, high_watermark: int) -> int:
        """The first offset of the oldest transaction that is open or whose end is not durable; else the high watermark."""
        if not self._ongoing and not self._completed:
            return high_watermark
        stable = min(
            min((item.first_offset for item in self._completed), default=high_watermark),
            next(iter(self._ongoing.values()), high_watermark),
        )
        return min(stable, high_watermark)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers whose last batch was placed `expiration_ms` ago (producer.id.expiration.ms). Returns how many.

        Producers with an open transaction or a batch in flight stay. Kafka compares the batch's timestamp instead, so it forgets
        a producer of old records while that writes, and its next retry is written twice.
        """
        in_flight = {producer_id for _, producer_id, _ in self._undo}
        expired = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.placed_ms >= expiration_ms
            and producer_id not in in_flight
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def forget_idle(self, count_max: int, now_ms: int) -> int:
        """If there are `count_max` producers, forget some of those silent for longest, to make room. Returns how many.

        A producer with an open transaction or a batch in flight, or that wrote less than IDLE_MS_MIN ago, is never forgotten. If
        all are such producers, there is no room.
        """
        entries = self._entries
        if len(entries) < count_max:
            return 0
        wanted = len(entries) - count_max + 1 + count_max // _FORGOTTEN_SHARE
        in_flight = {producer_id for _, producer_id, _ in self._undo}
        forgotten: list[int] = []
        kept: list[int] = []
        for producer_id, entry in entries.items():
            if now_ms - entry.placed_ms < IDLE_MS_MIN or len(forgotten) == wanted or len(kept) == _LOOKS_MAX:
                break
            has_to_stay = entry.transaction_first_offset != NO_OFFSET or producer_id in in_flight
            (kept if has_to_stay else forgotten).append(producer_id)
        for producer_id in forgotten:
            del entries[producer_id]
        for producer_id in kept:  # a transaction's end moves its producer last anyway, so do it now
            entries[producer_id] = entries.pop(producer_id)
        return len(forgotten)

    def correcting_times(self, now_ms: int) -> Generator[None, None, None]:
        """Correct `placed_ms` values of a state read from snapshots that cannot be right. Yields as `decoding` does.

        Older releases wrote the last batch's timestamp instead of the time at which it was placed. Such an entry, and one written
        while the wall clock was ahead, counts as placed now.
        """
        corrected: dict[int, ProducerEntry] = {}
        is_ascending, newest_ms = True, 0
        for number, (producer_id, entry) in enumerate(self._entries.items(), 1):
            epoch, coordinator, placed_ms, first_offset, batches, last_timestamp_ms = entry
            is_timestamp = placed_ms == last_timestamp_ms and not _ends_in_marker(coordinator, first_offset)
            if is_timestamp or placed_ms > now_ms:
                placed_ms = now_ms
                entry = ProducerEntry(epoch, coordinator, now_ms, first_offset, batches, last_timestamp_ms)
            is_ascending &= placed_ms >= newest_ms
            newest_ms = placed_ms
            corrected[producer_id] = entry
            if number % _PER_TURN == 0:
                yield
        self._entries = corrected if is_ascending else dict(sorted(corrected.items(), key=_placed_ms))

    # --- snapshots

    def snapshot(self, end_offset: int) -> ProducerSnapshot:
        """The state at `end_offset`, which may be below batches in flight, but not below the last offset given to `synced`."""
        entries = dict(self._entries)
        for last_offset, producer_id, before in reversed(self._undo):
            if last_offset < end_offset:
                break
            if before is None:
                entries.pop(producer_id, None)
            else:
                entries[producer_id] = before
        return ProducerSnapshot(entries)

    def encode_snapshot(self, end_offset: int) -> bytes:
        """The bytes of `snapshot(end_offset)`, in one go."""
        return self.snapshot(end_offset).encode()

    @classmethod
    def decode_snapshot(cls, data: Buffer) -> ProducerStates:
        """Decode an encoded snapshot. Aborted transactions are not in it. Raises CorruptSnapshot."""
        return at_once(cls.decoding(data))

    @classmethod
    def decoding(cls, data: Buffer) -> Generator[None, None, ProducerStates]:
        """Decode as `decode_snapshot` does, and yield whenever a turn of the event loop has been long enough."""
        view = memoryview(data)
        if len(view) < _SNAPSHOT_HEAD.size:
            raise CorruptSnapshot(f"{len(view)} bytes are too few for a producer snapshot")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(view)
        body = view[_SNAPSHOT_HEAD.size :]
        if version != _SNAPSHOT_VERSION:
            raise CorruptSnapshot(f"a producer snapshot of version {version}")
        if crc32c(body) != crc:
            raise CorruptSnapshot("the producer snapshot's checksum does not match")
        states = cls()
        position = 0
        try:
            for number in range(1, count + 1):
                position = states._decode_entry(body, position)
                if number % _PER_TURN == 0:
                    yield
        except struct_error as error:
            raise CorruptSnapshot("the producer snapshot is cut short") from error
        if position != len(body) or len(states._entries) != count:
            raise CorruptSnapshot(f"a producer snapshot of {len(body)} bytes for {count} producers")
        states._find_ongoing()
        return states

    def _decode_entry(self, body: memoryview, position: int) -> int:
        """Add the producer encoded at `position`. Returns the position behind it."""
        batch_count: int
        producer_id, epoch, coordinator, placed_ms, first_offset, batch_count = _PRODUCER.unpack_from(body, position)
        position += _PRODUCER.size
        if batch_count > BATCHES_KEPT:
            raise CorruptSnapshot(f"a producer with {batch_count} batches")
        batches = tuple(
            PlacedBatch._make(_BATCH.unpack_from(body, position + number * _BATCH.size))
            for number in range(batch_count)
        )
        is_batch_last = batches and not _ends_in_marker(coordinator, first_offset)
        last_timestamp_ms = batches[-1].timestamp_ms if is_batch_last else placed_ms
        entry = ProducerEntry(epoch, coordinator, placed_ms, first_offset, batches, last_timestamp_ms)
        self._entries[producer_id] = entry
        return position + batch_count * _BATCH.size

    def _find_ongoing(self) -> None:
        ongoing = [
            (entry.transaction_first_offset, producer_id)
            for producer_id, entry in self._entries.items()
            if entry.transaction_first_offset != NO_OFFSET
        ]
        self._ongoing = {producer_id: first_offset for first_offset, producer_id in sorted(ongoing)}


def _placed_ms(item: tuple[int, ProducerEntry]) -> int:
    return item[1].placed_ms


def _ends_in_marker(coordinator_epoch: int, transaction_first_offset: int) -> bool:
    """Whether the producer's last entry was a marker. `batches` lacks its timestamp, which is the time at which it was placed."""
    return coordinator_epoch != NO_EPOCH and transaction_first_offset == NO_OFFSET


def _stale_epoch(header: BatchHeader, entry: ProducerEntry) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} writes with epoch {header.producer_epoch}, the last seen is {entry.epoch}",
    )
