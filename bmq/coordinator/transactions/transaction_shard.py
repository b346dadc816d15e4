"""The transaction coordinator's state machine: the transactional ids of one partition of `__transaction_state`.

Performs what transaction.py decides. The state of an id is its last durable record, plus whether another record is in
flight (`pending`). A settled end is pending until its markers are written, from when its record is replayed: live, or
after a load, when all markers are written again at the new coordinator epoch (the log's leader epoch).
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from struct import Struct
from typing import ClassVar, Final, Protocol, TypeVar

import structlog

from bmq.aio.backoff import Backoff
from bmq.coordinator.runtime.moment import NEVER_MS, Moment
from bmq.coordinator.runtime.shard import Shard
from bmq.coordinator.topics import CurrentTopics
from bmq.coordinator.transactions.check_back import is_asked_about
from bmq.coordinator.transactions.checker import Checks
from bmq.coordinator.transactions.config import TransactionConfig
from bmq.coordinator.transactions.marker_delivery import MarkerDelivery, MarkerWriter
from bmq.coordinator.transactions.metrics import TransactionMetrics
from bmq.coordinator.transactions.shard_checks import ShardChecks
from bmq.coordinator.transactions.transaction import (
    EPOCH_BUMPED_FROM,
    Outcome,
    abort_timed_out,
    completed,
    is_expired,
    is_prepared,
    is_timed_out,
    partitions_of,
    settle_by_check,
)
from bmq.coordinator.transactions.turns import Turns
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import KeyValue, SnapshotPolicy
from bmq.log.transactions import TransactionMarker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, MalformedMessage
from bmq.protocol.transaction_records import (
    NO_PRODUCER_ID,
    TransactionKey,
    TransactionStatus,
    TransactionValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

_log = structlog.get_logger("bmq.coordinator")

T = TypeVar("T")

_PART_HEADER: Final = Struct(">ii")  # of a snapshot: bytes of the key, bytes of the value


class ProducerIds(Protocol):
    """Source of producer ids."""

    async def next(self) -> int:
        """An id that was never given out. Raises KafkaError."""


class Transaction:
    """One transactional id. `value`: its last durable record. `pending`: the change of state under way, if any."""

    __slots__ = ("pending", "transactional_id", "value")

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.value: TransactionValue | None = None
        self.pending: _Pending | None = None


class _Pending:
    """A change of state that is not durable yet; compared by identity. `done`: its append, None while markers are written."""

    __slots__ = ("done", "status")

    def __init__(self, status: int, done: asyncio.Future[int] | None = None) -> None:
        self.status = status
        self.done = done


@dataclass(frozen=True, slots=True)
class TransactionShardContext:
    """What all shards of a coordinator share. `is_known(number, leader epoch)`: see StateShards.is_known."""

    clock: Clock
    config: TransactionConfig
    metrics: TransactionMetrics
    producer_ids: ProducerIds
    markers: MarkerWriter
    topics: CurrentTopics
    is_known: Callable[[int, int], bool]
    random: Random
    checks: Checks


class TransactionShard(Shard):
    """Transactional ids of one partition."""

    kind: ClassVar = "transaction"

    def __init__(
        self,
        number: int,
        log: ReplayableLog,
        on_lost: Callable[[TransactionShard], None],
        context: TransactionShardContext,
    ) -> None:
        config = context.config
        policy = SnapshotPolicy(config.snapshot_records_max, config.snapshot_bytes_max)
        super().__init__(number, log, context.clock, policy, context.metrics, on_lost)
        self.transactions: dict[str, Transaction] = {}
        self.delivery = MarkerDelivery(
            context.markers,
            context.topics,
            lambda: context.is_known(number, self.coordinator_epoch),
            context.random,
            config,
            self.fail,
        )
        self.turns = Turns()
        """Orders requests that begin something, by transactional id."""
        self._config = config
        self._metrics = context.metrics
        self._producer_ids = context.producer_ids
        self._random = context.random
        self._ongoing: dict[str, Transaction] = {}
        self._awaited: dict[Transaction, asyncio.Future[None]] = {}  # pending changes that a request waits for
        self._is_live = False
        self._abort_check_ms = NEVER_MS
        self._expiry_check_ms = NEVER_MS
        self._is_aborting = False
        self._is_expiring = False
        self._checks = context.checks
        self.checks = ShardChecks(self, context.checks, context.metrics, self._spawn)

    @property
    def coordinator_epoch(self) -> int:
        return self.state_log.log.leader_epoch

    # ---------------------------------------------------------------- life

    def begin(self) -> None:
        self._is_live = True
        loop_ms = self.now().loop_ms
        self._abort_check_ms = loop_ms + self._config.abort_timed_out_interval_ms
        self._expiry_check_ms = loop_ms + self._config.remove_expired_interval_ms
        self.checks.begin(self._open_values())
        self.arm()
        prepared = [one for one in self.transactions.values() if one.value is not None and is_prepared(one.value)]
        if prepared:
            self._spawn(self._resume(prepared))

    async def _resume(self, prepared: Sequence[Transaction]) -> None:
        """Write all their markers again: which of them the last owner wrote is unknown."""
        try:
            for some in self._slices(prepared):
                for transaction in some:
                    self._deliver(transaction)
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 a transaction without its markers would hang until the next owner
            self.fail(error)

    def unload(self, error: ErrorCode) -> None:
        self.transactions = {}
        self._ongoing = {}
        for transaction in tuple(self._awaited):
            self._tell(transaction)

    def close(self) -> None:
        """Stop the timer, background writes and markers."""
        super().close()
        self.delivery.close()

    @property
    def size(self) -> int:
        return len(self.transactions)

    @property
    def facts(self) -> dict[str, int]:
        counts = self.counts()
        return {
            "transactional_ids": len(self.transactions),
            "ongoing": counts[TransactionStatus.ONGOING],
            "prepared": counts[TransactionStatus.PREPARE_COMMIT] + counts[TransactionStatus.PREPARE_ABORT],
        }

    def counts(self) -> Counter[int]:
        """Transactional ids by status."""
        return Counter(one.value.status for one in self.transactions.values() if one.value is not None)

    # ---------------------------------------------------------------- writing

    async def write(self, transactional_id: str, value: TransactionValue) -> None:
        """Write a decided state; it is pending until then. Returns when it is applied.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE (too many ids), MESSAGE_TOO_LARGE, and the errors of an append.
        """
        record = self._record(transactional_id, value)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            if len(self.transactions) >= self._config.transactional_ids_per_shard_max:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the shard has too many transactional ids")
            transaction = self.transactions[transactional_id] = Transaction(transactional_id)
        # A client that disconnects does not cancel the append.
        await asyncio.shield(self._append_pending(transaction, value.status, record))

    async def moved_on(self, transactional_id: str, since_s: float) -> bool:
        """Wait until the pending change has ended or been replaced; False: nothing is pending, or it takes too long.

        For the holder of the id's turn. `since_s`: when the request came, on the loop's clock. The shard may be lost
        meanwhile.
        """
        transaction = self.transactions.get(transactional_id)
        pending = None if transaction is None else transaction.pending
        if transaction is None or pending is None:
            return False
        is_adding = pending.status == TransactionStatus.ONGOING
        wait_max_ms = self._config.add_wait_max_ms if is_adding else self._config.end_wait_max_ms
        until_s = since_s + wait_max_ms / 1000
        wait_s = until_s - self._loop.time()
        if wait_s <= 0:
            return False
        awaited = self._awaited.get(transaction)
        if awaited is None:
            awaited = self._awaited[transaction] = self._loop.create_future()
        done, _ = await asyncio.wait({awaited}, timeout=wait_s)
        return bool(done) and self._loop.time() <= until_s

    def _tell(self, transaction: Transaction) -> None:
        """The pending change has ended or been replaced: wake the requests that wait for it."""
        awaited = self._awaited.pop(transaction, None)
        if awaited is not None:
            awaited.set_result(None)

    def _append_pending(self, transaction: Transaction, status: int, record: KeyValue) -> asyncio.Future[int]:
        done = self.append([record])
        pending = transaction.pending = _Pending(status, done)

        def finish(done: asyncio.Future[int]) -> None:
            # If the record is in the log, `replay` has cleared it already, even if the append is reported as failed.
            if transaction.pending is pending:
                transaction.pending = None
                self._forget_if_unused(transaction)
                self._tell(transaction)

        done.add_done_callback(finish)
        return done

    def _forget_if_unused(self, transaction: Transaction) -> None:
        """Drop an id whose first record was refused."""
        is_here = self.transactions.get(transaction.transactional_id) is transaction
        if is_here and transaction.value is None:
            del self.transactions[transaction.transactional_id]

    def _record(self, transactional_id: str, value: TransactionValue) -> KeyValue:
        """Raises KafkaError MESSAGE_TOO_LARGE."""
        try:
            key, data = _encoded(transactional_id, value)
        except struct.error as error:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a name of a transaction is too long: {error}") from error
        size_bytes = len(key) + len(data)
        # An end may be somewhat larger than the accepted record. Refusing it would leave the transaction open for ever.
        if size_bytes > self._config.message_max_bytes and not is_prepared(value):
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a transaction's record of {size_bytes} bytes, {self._config.message_max_bytes} are allowed",
            )
        return key, data

    # ---------------------------------------------------------------- what is durable

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Raises KafkaError for an unreadable state: skipping it could leave a transaction open for ever."""
        if key is None:
            return
        try:
            named, state = decode_key(key), decode_value(value)
        except MalformedMessage as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the state of a transactional id cannot be read: {error}"
            ) from error
        if isinstance(named, UnknownKey):
            return
        transactional_id = named.transactional_id
        if state is None:
            self._ongoing.pop(transactional_id, None)
            self.checks.changed(transactional_id, None)
            gone = self.transactions.pop(transactional_id, None)
            if gone is not None and self._is_live:
                self._metrics.expired_ids += 1
                self._tell(gone)
            return
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = self.transactions[transactional_id] = Transaction(transactional_id)
        transaction.value = state
        transaction.pending = None
        self._tell(transaction)
        if state.status == TransactionStatus.ONGOING:
            self._ongoing[transactional_id] = transaction
        else:
            self._ongoing.pop(transactional_id, None)
        self.checks.changed(transactional_id, state)
        if is_prepared(state):
            transaction.pending = _Pending(completed(state, state.last_update_ms).status)
            if self._is_live:
                if state.status == TransactionStatus.PREPARE_COMMIT:
                    self._metrics.committed += 1
                else:
                    self._metrics.aborted += 1
                self._deliver(transaction)

    # ---------------------------------------------------------------- after a settled end

    def _deliver(self, transaction: Transaction) -> None:
        value = transaction.value
        assert value is not None
        marker = TransactionMarker(
            value.producer_id,
            value.producer_epoch,
            self.coordinator_epoch,
            value.status == TransactionStatus.PREPARE_COMMIT,
            min(value.client_transaction_version, EPOCH_BUMPED_FROM),
        )
        backoff = Backoff(
            self._random, first_s=self._config.retry_min_ms / 1000, max_s=self._config.retry_max_ms / 1000
        )
        self.delivery.begin(
            transaction.transactional_id,
            marker,
            partitions_of(value),
            lambda: self._complete(transaction, value, backoff),
        )

    def _complete(self, transaction: Transaction, prepared: TransactionValue, backoff: Backoff) -> None:
        """All markers are written: write the completion, retrying for ever. Until then the id stays pending."""
        if self.is_lost or transaction.value is not prepared:
            return
        try:
            record = _encoded(transaction.transactional_id, completed(prepared, self.now().wall_ms))
            done = self.append([record])
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self.fail(error)
            return

        def finish(done: asyncio.Future[int]) -> None:
            if not done.cancelled() and done.exception() is not None and not self.is_lost:
                self._loop.call_later(backoff.next_s(), self._complete, transaction, prepared, backoff)

        done.add_done_callback(finish)

    # ---------------------------------------------------------------- snapshots

    def snapshot(self) -> Awaitable[bytes]:
        values = [(one.transactional_id, one.value) for one in self.transactions.values() if one.value is not None]
        return self._encode(values)

    async def _encode(self, values: Sequence[tuple[str, TransactionValue]]) -> bytes:
        out = bytearray()
        for some in self._slices(values):
            for transactional_id, value in some:
                key, data = _encoded(transactional_id, value)
                out += _PART_HEADER.pack(len(key), len(data))
                out += key
                out += data
            await asyncio.sleep(0)
        return bytes(out)

    async def restore(self, data: bytes) -> None:
        for number, (key, value) in enumerate(snapshot_parts(data), 1):
            self.replay(key, value)
            if number % self._config.ids_per_turn_max == 0:
                await asyncio.sleep(0)

    # ---------------------------------------------------------------- time

    @property
    def wake_ms(self) -> float:
        return min(self._abort_check_ms, self._expiry_check_ms, self.checks.look_ms)

    def after_stall(self) -> None:
        """A client's EndTxn, sent in time, may be unread in a socket."""
        self._abort_check_ms = self.now().loop_ms + self._config.abort_timed_out_interval_ms

    def tick(self, now: Moment) -> None:
        if now.loop_ms >= self._abort_check_ms:
            self._abort_check_ms = now.loop_ms + self._config.abort_timed_out_interval_ms
            if not self._is_aborting:
                self._spawn(self._abort_timed_out(list(self._ongoing.values())))
        if now.loop_ms >= self._expiry_check_ms:
            self._expiry_check_ms = now.loop_ms + self._config.remove_expired_interval_ms
            if not self._is_expiring:
                self._spawn(self._remove_expired(list(self.transactions.values())))
        if now.loop_ms >= self.checks.look_ms:
            self.checks.look()

    async def _abort_timed_out(self, ongoing: Sequence[Transaction]) -> None:
        self._is_aborting = True
        try:
            for some in self._slices(ongoing):
                appended: list[asyncio.Future[int]] = []
                for transaction in some:
                    try:
                        appended += await self._abort_if_timed_out(transaction)
                    except BmqError as error:  # the next round tries again
                        _log.warning("transaction_not_aborted", id=transaction.transactional_id, error=str(error))
                await _settled(appended)
        finally:
            self._is_aborting = False

    async def _abort_if_timed_out(self, transaction: Transaction) -> Sequence[asyncio.Future[int]]:
        """The append of its abort, if it has timed out."""
        value = transaction.value
        if value is None or transaction.pending is not None:
            return ()
        policy, last_epoch = self._checks.policy, self._config.last_epoch
        extra_ms = policy.extra_ms if is_asked_about(policy, transaction.transactional_id, value) else 0
        if not is_timed_out(value, self._clock.now_ms(), extra_ms):
            return ()
        done = await self._end(
            transaction,
            value,
            lambda now_ms, fresh: abort_timed_out(value, now_ms, fresh, last_epoch, extra_ms),
        )
        if done is None:
            return ()
        self._metrics.timed_out += 1
        _log.info(
            "transaction_timed_out",
            id=transaction.transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.timeout_ms,
        )
        return (done,)

    async def _end(
        self, transaction: Transaction, value: TransactionValue, decide: Callable[[int, int], Outcome | None]
    ) -> asyncio.Future[int] | None:
        """Append an end of our own, unless this is not the id's state any more. `decide(now_ms, fresh producer id)`. Raises BmqError."""
        outcome = decide(self._clock.now_ms(), NO_PRODUCER_ID)
        if outcome is not None and outcome.needs_producer_id:
            producer_id = await self._producer_ids.next()
            if transaction.value is not value or transaction.pending is not None or self.is_lost:
                return None
            outcome = decide(self._clock.now_ms(), producer_id)
        if outcome is None or outcome.write is None:
            return None
        record = self._record(transaction.transactional_id, outcome.write)
        return self._append_pending(transaction, outcome.write.status, record)

    # ---------------------------------------------------------------- asked back

    def value_of(self, transactional_id: str) -> TransactionValue | None:
        """Its durable state; None: there is none, or another record is in flight."""
        transaction = self.transactions.get(transactional_id)
        return None if transaction is None or transaction.pending is not None else transaction.value

    async def settle(
        self, transactional_id: str, value: TransactionValue, is_commit: bool
    ) -> asyncio.Future[int] | None:
        """As CheckedShard.settle."""
        transaction, last_epoch = self.transactions.get(transactional_id), self._config.last_epoch
        if transaction is None or transaction.value is not value or transaction.pending is not None or self.is_lost:
            return None
        return await self._end(
            transaction, value, lambda now_ms, fresh: settle_by_check(value, is_commit, now_ms, fresh, last_epoch)
        )

    def reconfigure_checks(self) -> None:
        """The policy is another one."""
        self.checks.reconfigured(self._open_values())

    def _open_values(self) -> list[tuple[str, TransactionValue | None]]:
        return [(one.transactional_id, one.value) for one in self._ongoing.values()]

    async def _remove_expired(self, transactions: Sequence[Transaction]) -> None:
        self._is_expiring = True
        try:
            for some in self._slices(transactions):
                appended: list[asyncio.Future[int]] = []
                for transaction in some:
                    value = transaction.value
                    if value is None or transaction.pending is not None:
                        continue
                    if is_expired(value, self._clock.now_ms(), self._config.transactional_id_expiration_ms):
                        key = encode_key(TransactionKey(transactional_id=transaction.transactional_id))
                        appended.append(self._append_pending(transaction, TransactionStatus.DEAD, (key, None)))
                await _settled(appended)
        finally:
            self._is_expiring = False

    def _slices(self, things: Sequence[T]) -> Iterator[Sequence[T]]:
        """Slices that each fit into one turn of the event loop."""
        for start in range(0, len(things), self._config.ids_per_turn_max):
            yield things[start : start + self._config.ids_per_turn_max]


async def _settled(appended: Sequence[asyncio.Future[int]]) -> None:
    """Let the loop run, and wait for these appends to end, lest clients' records be refused for want of room."""
    await asyncio.sleep(0)
    if appended:
        await asyncio.wait(appended)


def _encoded(transactional_id: str, value: TransactionValue) -> tuple[bytes, bytes]:
    return encode_key(TransactionKey(transactional_id=transactional_id)), encode_value(value)


def snapshot_parts(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Records of a snapshot. Raises MalformedMessage for bytes that are no snapshot."""
    position = 0
    while position < len(data):
        try:
            key_bytes, value_bytes = _PART_HEADER.unpack_from(data, position)
        except struct.error as error:
            raise MalformedMessage("a snapshot of transactional ids ends in the middle of a part") from error
        start = position + _PART_HEADER.size
        middle = start + key_bytes
        position = middle + value_bytes
        if key_bytes < 0 or value_bytes < 0 or position > len(data):
            raise MalformedMessage("a snapshot of transactional ids that does not parse")
        yield data[start:middle], data[middle:position]
