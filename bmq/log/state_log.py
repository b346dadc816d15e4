"""Keeps a state machine in a ReplayableLog: records are appended, applied once they are durable, and replayed after a restart.

Rules for all users: deciding returns records and changes no state; only `apply_record` changes state, live and after a restart
alike, in the order of the log; an answer is sent once its records are below the high watermark. So a failed append leaves nothing
to undo, and memory never has more than the log. A RecordRun is applied by its own `apply`, with the same effect.

If `apply_record` raises for a durable record, that record may be half applied (rule 23). Then nothing more is applied, appended,
proved or saved; callers get the errors of a lost log, and the state has to be loaded again. The same happens when the state is
given up, and when a record becomes durable that does not follow the last one applied: the records between them were appended for
a state given up since, or by another owner, and are missing here.

Records appended in one turn of the event loop share a record batch. One append's records are never split, so all or none are
applied. A snapshot is the state after all applied records, encoded in the same turn.

A record may belong to a producer's transaction (KIP-98): its batch has the producer's id and epoch, without sequence
numbers, and the state machine gets the producer and the offset. A marker, a control batch of its own, ends the
transaction. Both are applied in the order of the log with all other records. The log itself refuses a fenced epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final, NamedTuple, Protocol

import structlog

from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import AppendResult, ReplayableLog, StateSnapshot, internal_batch
from bmq.log.store import Buffer, CorruptFile, FencedWriter
from bmq.log.transactions import TransactionMarker
from bmq.protocol.batch_records import Record, decode_records, encode_batch_of, encode_records
from bmq.protocol.control_batch import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
    parse_end_transaction_marker,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, BatchHeader, batches

KeyValue = tuple[bytes, bytes | None]
ApplyRecord = Callable[[bytes | None, bytes | None], None]
"""Applies (key, value); a value of None is a tombstone. Should not raise for any bytes that were appended through StateLog."""

ApplySnapshot = Callable[[bytes], Awaitable[None] | None]
"""Restores the state from a snapshot's bytes, perhaps over several turns of the loop; no record is applied before it ends."""

BATCH_BYTES_MAX: Final = 512 * 1024
"""Appends are merged into batches up to this size. A single larger append is a batch of its own."""
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Most appended bytes that are not durable yet. Above it appends get REQUEST_TIMED_OUT, because the store is too slow."""
REPLAY_CHUNK_BYTES: Final = 1024 * 1024
"""Bytes of one read during a replay; each read is a round trip to the store."""
_REPLAY_TURN_BYTES: Final = 128 * 1024
_RECORD_OVERHEAD_BYTES: Final = 24
_MARKER_BYTES: Final = 78
_LOAD_AGAIN: Final = "the state is not what the log holds: it has to be loaded again"

_log = structlog.get_logger("bmq.log")


class Producer(NamedTuple):
    """The producer of a transaction's records or marker."""

    producer_id: int
    producer_epoch: int


class TransactionReplay(NamedTuple):
    """A state machine's callbacks for transactions. Neither should raise, as ApplyRecord.

    `apply_record`: gets (key, value, offset, producer) of a record, which takes effect once its transaction is committed.
    `end`: gets (producer, whether its transaction is committed).
    """

    apply_record: Callable[[bytes | None, bytes | None, int, Producer], None]
    end: Callable[[Producer, bool], None]


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a snapshot is due: when the log since the last one has this many records or bytes."""

    records_max: int = 50_000
    bytes_max: int = 16 * 1024 * 1024


class RecordRun(Protocol):
    """Records that their state machine encodes and applies in one go, without a key, a value and a future for each.

    `apply` must have the same effect as ApplyRecord for each record in `encoded`, in order, because a replay after a restart uses
    ApplyRecord. `size_bytes`: bytes of keys and values. `record_count` is at least 1.
    """

    @property
    def record_count(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    def encoded(self, first_delta: int) -> Buffer:
        """The records' bytes in a batch, as batch_records.encode_records makes them; offset deltas begin at `first_delta`."""

    def apply(self) -> None:
        """Apply the records, which are durable now. Should not raise."""

    def finished(self, error: KafkaError | None) -> None:
        """Called once, and after `apply` if the records became durable. Errors are those of `append`. Should not raise."""


@dataclass(slots=True)
class _Append:
    """One waiting append of `records`, of a `marker`, or of a `run`.

    `producer`: the records are part of this producer's transaction. `run` gets the result itself, and `done` is None.
    """

    records: Sequence[KeyValue]
    size_bytes: int
    offset_count: int
    done: asyncio.Future[int] | None
    producer: Producer | None = None
    marker: TransactionMarker | None = None
    run: RecordRun | None = None
    is_notified: bool = False

    def succeed(self, end_offset: int) -> None:
        if self.done is None:
            self._notify_run(None)
        elif not self.done.done():
            self.done.set_result(end_offset)

    def fail(self, error: KafkaError) -> None:
        if self.done is None:
            self._notify_run(error)
        elif not self.done.done():
            self.done.set_exception(error)

    def _notify_run(self, error: KafkaError | None) -> None:
        if self.run is None or self.is_notified:
            return
        self.is_notified = True
        try:
            self.run.finished(error)
        except Exception as raised:  # noqa: BLE001 the other appends must still be answered
            _log.error("append_not_answered", error=repr(raised), exc_info=raised)


class StateLog:
    """One state machine's log. All calls come from the event loop of the log's owner; `replay` comes first, once.

    `applied_offset`: the offset behind the last record applied. `is_broken`: the state has to be loaded again.
    `proven_ms`: the last time, by `Clock.elapsed_s`, at which the log was certainly ours: when the last successful proof, or the
    last append that became durable, was begun; -inf before the first.
    `has_gap`: an operator accepted that records before the first replayed one are lost, so later ones may refer to state that
    is missing.
    """

    def __init__(self, log: ReplayableLog, clock: Clock, policy: SnapshotPolicy | None = None) -> None:
        self.log = log
        self.applied_offset = -1
        self.is_broken = False
        self.has_gap = False
        self.records_since_snapshot = 0
        self.bytes_since_snapshot = 0
        self.waiting_bytes = 0
        self.proven_ms = -inf
        self._clock = clock
        self._policy = policy or SnapshotPolicy()
        self._apply: ApplyRecord | None = None
        self._transactions: TransactionReplay | None = None
        self._queued: list[_Append] = []
        self._is_snapshot_running = False
        self._proof: asyncio.Future[None] | None = None
        self._next_proof: asyncio.Future[None] | None = None
        self._proofs: set[asyncio.Task[None]] = set()

    async def replay(
        self,
        apply_record: ApplyRecord,
        apply_snapshot: ApplySnapshot,
        transactions: TransactionReplay | None = None,
    ) -> int:
        """Bring the state up to the high watermark, and keep the callbacks for later appends. Returns how many were applied.

        `transactions`: None for a state machine without transactions; their records are then applied like others.

        Starts at the newest snapshot, reads in bounded chunks, and lets the event loop run in between. Raises KafkaError,
        StoreError, CorruptFile (also if a batch is not at its expected offset), and StateDamaged if the state cannot be
        restored wholly (rule 25).
        """
        snapshot = await self.log.latest_snapshot()
        offset = self.log.log_start_offset
        if snapshot is not None:
            taken = apply_snapshot(snapshot.data)
            if taken is not None:
                await taken
        state_offset = 0 if snapshot is None else snapshot.next_offset
        self.has_gap = state_offset < offset  # recovery lets this pass only if an operator has accepted the loss
        offset = max(offset, state_offset)
        end = self.log.high_watermark
        count = 0
        while offset < end:
            chunk = await self.log.read(offset, REPLAY_CHUNK_BYTES)
            if chunk is None:
                break
            turn_end = _REPLAY_TURN_BYTES
            for position, header in batches(chunk.data):
                if header.base_offset > offset:
                    raise CorruptFile(
                        f"no record batch holds offset {offset}; the next one begins at {header.base_offset}"
                    )
                if position >= turn_end:
                    turn_end = position + _REPLAY_TURN_BYTES
                    await asyncio.sleep(0)
                if transactions is not None and header.is_transactional:
                    count += _replay_transactional(transactions, chunk.data, position, header, offset)
                elif not header.is_control:
                    for record in decode_records(chunk.data, position):
                        if record.offset >= offset:
                            apply_record(record.key, record.value)
                            count += 1
                offset = max(offset, header.end_offset)
            self.bytes_since_snapshot += len(chunk.data)
            await asyncio.sleep(0)
        self.records_since_snapshot = count
        self.applied_offset = offset
        self._apply = apply_record
        self._transactions = transactions
        return count

    def append(self, records: Sequence[KeyValue], producer: Producer | None = None) -> asyncio.Future[int]:
        """Append these records together. The result, set after they were applied, is the offset behind the last one.

        `producer`: append them as part of this producer's open transaction; INVALID_PRODUCER_EPOCH if its epoch is over. Fails
        with KafkaError of the append's error code. Then no record was applied, except after NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        those records are in the log and were applied. After NOT_LEADER_OR_FOLLOWER discard the state: another owner has the log,
        or a record was applied in part.
        """
        size = sum(len(key) + len(value or b"") for key, value in records) + _RECORD_OVERHEAD_BYTES * len(records)
        return self._queue(records, size, producer, None)

    def append_run(self, run: RecordRun) -> None:
        """Append these records together, as `append` does. `run.finished` gets the result, perhaps at once."""
        size = run.size_bytes + _RECORD_OVERHEAD_BYTES * run.record_count
        append = _Append((), size, run.record_count, None, run=run)
        refusal = self._refusal(size)
        if refusal is not None:
            append.fail(refusal)
            return
        self._enqueue(append)

    def append_marker(self, marker: TransactionMarker) -> asyncio.Future[int]:
        """End a producer's transaction. The result, set after the marker was applied, is the offset behind it.

        Fails as `append` does, and with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        return self._queue((), _MARKER_BYTES, None, marker)

    def _queue(
        self,
        records: Sequence[KeyValue],
        size: int,
        producer: Producer | None,
        marker: TransactionMarker | None,
    ) -> asyncio.Future[int]:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._transactions is None and (producer is not None or marker is not None):
            raise RuntimeError("a transaction in the log of a state machine that has none")
        refusal = self._refusal(size)
        if refusal is not None:
            done.set_exception(refusal)
        elif not records and marker is None:
            done.set_result(self.applied_offset)
        else:
            count = len(records) if marker is None else 1
            self._enqueue(_Append(records, size, count, done, producer, marker))
        return done

    def _refusal(self, size: int) -> KafkaError | None:
        if self._apply is None:
            raise RuntimeError("append before replay")
        if self.is_broken:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, _LOAD_AGAIN)
        if size and self.waiting_bytes and self.waiting_bytes + size > WAITING_BYTES_MAX:
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too much waits for the state log")
        return None

    def _enqueue(self, append: _Append) -> None:
        if not self._queued:
            asyncio.get_running_loop().call_soon(self._flush)
        self.waiting_bytes += append.size_bytes
        self._queued.append(append)

    def give_up(self) -> None:
        """Stop using this state: appends in flight are not applied to it, and their callers get errors."""
        self.is_broken = True

    @property
    def has_unapplied(self) -> bool:
        """Whether appended records are not durable yet."""
        return self.waiting_bytes > 0

    async def prove_ownership(self) -> None:
        """Prove ownership for an answer from memory (rule 15): one proof, begun after this call, for all waiting callers.

        Raises FencedWriter, StoreError.
        """
        if self._next_proof is None:
            self._next_proof = asyncio.get_running_loop().create_future()
        waiting = self._next_proof
        if self._proof is None:
            self._start_proof()
        await asyncio.shield(waiting)
        if self.is_broken:
            raise FencedWriter(_LOAD_AGAIN)

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the log since the last snapshot is long enough for another one."""
        return not self._is_snapshot_running and (
            self.records_since_snapshot >= self._policy.records_max
            or self.bytes_since_snapshot >= self._policy.bytes_max
        )

    async def save_snapshot(self, encode: Callable[[], bytes | Awaitable[bytes]], *, force: bool = False) -> bool:
        """Save the state that `encode` returns, if a snapshot is due or `force` is set. Returns whether it was saved.

        `encode` is called at once, and has to capture the state of that moment. For a big state it makes a cheap copy, and
        returns an awaitable that encodes the copy in small turns. Raises KafkaError, StoreError; a failure only makes a later
        replay longer, and the next call tries again.
        """
        if self.is_broken:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, _LOAD_AGAIN)
        if self._is_snapshot_running or not (force or self.is_snapshot_due):
            return False
        records, size, next_offset = self.records_since_snapshot, self.bytes_since_snapshot, self.applied_offset
        self._is_snapshot_running = True
        try:
            encoded = encode()
            data = encoded if isinstance(encoded, bytes) else await encoded
            await self.log.save_snapshot(StateSnapshot(next_offset, data))
        finally:
            self._is_snapshot_running = False
        self.records_since_snapshot -= records
        self.bytes_since_snapshot -= size
        return True

    def _flush(self) -> None:
        queued, self._queued = self._queued, []
        group: list[_Append] = []
        size = 0
        for append in queued:
            if group and (
                size + append.size_bytes > BATCH_BYTES_MAX
                or append.producer != group[0].producer
                or append.marker is not None
                or group[0].marker is not None
            ):
                self._write(group)
                group, size = [], 0
            group.append(append)
            size += append.size_bytes
        self._write(group)

    def _write(self, group: list[_Append]) -> None:
        try:
            batch = _encode(group, self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 nothing was appended
            _log.error("state_not_encoded", error=repr(error), exc_info=error)
            self.waiting_bytes -= sum(append.size_bytes for append in group)
            _fail(group, AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR, message=repr(error)))
            return
        begun_ms = self._clock.elapsed_s() * 1000
        self.log.append(
            internal_batch(
                self.log.topic_partition, memoryview(batch), lambda result: self._finish(group, result, begun_ms)
            )
        )

    def _finish(self, group: list[_Append], result: AppendResult, begun_ms: float) -> None:
        size = sum(append.size_bytes for append in group)
        self.waiting_bytes -= size
        if self.is_broken:
            _fail(group, AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message=_LOAD_AGAIN))
            return
        if result.error_code not in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            _fail(group, result)
            return
        if result.error_code is ErrorCode.NONE:
            self._proven(begun_ms)  # before any caller is answered
        try:
            if result.base_offset != self.applied_offset:
                raise ValueError(f"records up to {result.base_offset} were never applied here")
            self._apply_group(group, result)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self.is_broken = True
            _log.error("state_not_applied", offset=self.applied_offset, error=repr(error), exc_info=error)
            _fail(group, AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, message=_LOAD_AGAIN))
            return
        self.bytes_since_snapshot += size
        if result.error_code is not ErrorCode.NONE:
            _fail(group, result)

    def _apply_group(self, group: list[_Append], result: AppendResult) -> None:
        apply = self._apply
        assert apply is not None
        offset = result.base_offset
        for append in group:
            if append.run is not None:
                append.run.apply()
            elif append.producer is None and append.marker is None:
                for key, value in append.records:
                    apply(key, value)
            else:
                self._apply_transactional(append, offset)
            offset += append.offset_count
            self.applied_offset = offset
            self.records_since_snapshot += append.offset_count
            if result.error_code is ErrorCode.NONE:
                append.succeed(offset)

    def _apply_transactional(self, append: _Append, offset: int) -> None:
        transactions, producer, marker = self._transactions, append.producer, append.marker
        assert transactions is not None
        if marker is not None:
            transactions.end(Producer(marker.producer_id, marker.producer_epoch), marker.is_commit)
        elif producer is not None:
            for number, (key, value) in enumerate(append.records):
                transactions.apply_record(key, value, offset + number, producer)

    def _proven(self, begun_ms: float) -> None:
        self.proven_ms = max(self.proven_ms, begun_ms)

    def _start_proof(self) -> None:
        self._proof, self._next_proof = self._next_proof, None
        task = asyncio.get_running_loop().create_task(self._prove())
        self._proofs.add(task)
        task.add_done_callback(self._proofs.discard)

    async def _prove(self) -> None:
        proof = self._proof
        assert proof is not None
        begun_ms = self._clock.elapsed_s() * 1000
        try:
            await self.log.prove_ownership()
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            proof.set_exception(error)
            proof.exception()  # waiting callers still get it; if all were cancelled, asyncio would log a warning
        else:
            self._proven(begun_ms)
            proof.set_result(None)
        finally:
            if not proof.done():
                proof.cancel()
            self._proof = None
        if self._next_proof is not None:
            self._start_proof()


def _encode(group: list[_Append], now_ms: int) -> bytearray:
    """The record batch of a group of appends: all of one producer's transaction, all of none, or a single marker."""
    marker, producer = group[0].marker, group[0].producer
    if marker is not None:
        return encode_end_transaction_marker(
            EndTransactionMarker(
                ControlType.COMMIT if marker.is_commit else ControlType.ABORT, marker.coordinator_epoch
            ),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
        )
    body = bytearray()
    count = 0
    for append in group:
        if append.run is not None:
            body += append.run.encoded(count)
        else:
            body += encode_records([Record(key, value) for key, value in append.records], count)
        count += append.offset_count
    return encode_batch_of(
        body,
        count,
        now_ms,
        producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
        is_transactional=producer is not None,
    )


def _replay_transactional(
    transactions: TransactionReplay, data: Buffer, position: int, header: BatchHeader, offset: int
) -> int:
    """Apply a transaction's batch from `offset` on. Returns how many records were applied."""
    producer = Producer(header.producer_id, header.producer_epoch)
    if header.is_control:
        marker = parse_end_transaction_marker(data, position)
        if marker is None:
            return 0
        transactions.end(producer, marker.control_type is ControlType.COMMIT)
        return 1
    count = 0
    for record in decode_records(data, position):
        if record.offset >= offset:
            transactions.apply_record(record.key, record.value, record.offset, producer)
            count += 1
    return count


def _fail(group: list[_Append], result: AppendResult) -> None:
    for append in group:
        append.fail(KafkaError(result.error_code, result.message or ""))
