"""A producer with a transactional id, as stock clients are: what each error code does to it (KIP-98, KIP-360, KIP-890).

It speaks one of two dialects. In the first one (`is_bumping` False: EndTxn up to 4) it adds partitions itself and keeps its
epoch from one transaction to the next. In the second one (Produce 12, TxnOffsetCommit 5, EndTxn 5) the brokers add them, and
each end gives the next epoch, so that nothing late of one transaction can touch the next. In the first dialect it can: a
client there that gave a request up asks for a new epoch after the transaction.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    add_offsets_to_txn_request,
    add_partitions_to_txn_request,
    end_txn_request,
    init_producer_id_request,
    produce_request,
    txn_offset_commit_request,
)
from bmq.protocol.record_batch import TRANSACTIONAL
from bmq.proxy.transaction_check_ids import HEADER
from tests.simulation.check_answers import CHECK_IDS, Database
from tests.simulation.clients import TRANSACTION_KEY, Address, Client, Unhappy, expect, find_coordinator, now_ms
from tests.simulation.connection import Disconnected
from tests.simulation.history import Violation
from tests.simulation.late_requests import LateRequests
from tests.simulation.producer_epochs import Claim, TransactionalId
from tests.simulation.transaction_history import Place, Transaction, TransactionHistory

_ADDING_PRODUCE_VERSION = 12
_VERIFIED_PRODUCE_VERSIONS = (3, 7, 9, 11)
_REFUSED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,  # the id has another producer id by now
)
# A producer may go on after these, with the next transaction.
_ABORTABLE_PRODUCE = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
_ABORTABLE_MEMBER = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
)


class Refused(Exception):
    """It is not the id's producer any more, and can do nothing more (Kafka's ProducerFencedException and its like)."""


class MustAbort(Exception):
    """The transaction can only be aborted."""


@dataclass(frozen=True, slots=True)
class Member:
    """On whose behalf offsets are committed."""

    member_id: str = ""
    generation: int = -1


@dataclass(slots=True)
class Batch:
    sequence: int
    values: Sequence[bytes]
    time_ms: int
    was_fenced: bool


class TransactionalProducer(Client):
    """One client with a transactional id; `claim` is what it was told last. Times in seconds."""

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        history: TransactionHistory,
        identity: TransactionalId,
        is_bumping: bool,
        timeout_s: float,
    ) -> None:
        super().__init__(name, address, rng)
        self.late = LateRequests(self, address)
        self.is_bumping = is_bumping
        self.claim: Claim | None = None
        self.transaction = Transaction("none yet")
        self.database: Database | None = None
        self._history = history
        self._identity = identity
        self.timeout_s = timeout_s
        self._transaction_count = 0
        self._started_s: float | None = None
        self._added: set[Place | str] = set()
        self._sequences: dict[Place, int] = {}
        self._has_work = False  # something of the transaction was acknowledged
        self._has_lost = False  # something was given up that may come yet

    async def requests(self, api_key: ApiKey, version: int, messages: list[Any]) -> list[Any]:
        if self.late.delays(api_key, version, messages[0]):
            self._has_lost = True
            raise Disconnected("the request is late")
        try:
            return await super().requests(api_key, version, messages)
        except Disconnected:
            self._has_lost = True
            raise

    # --- beginning

    async def start(self) -> None:
        """Become the id's producer. Raises nothing: whoever comes last is let in."""
        await self.until_done(self._find)
        await self.until_done(self._init)

    async def start_once(self) -> None:
        """The same, once. Raises Unhappy, Disconnected."""
        await self._find()
        await self._init()

    async def _find(self) -> None:
        await find_coordinator(self, self._identity.name, TRANSACTION_KEY)

    async def _init(self) -> None:
        held = self.claim
        request = init_producer_id_request.InitProducerIdRequest(
            transactional_id=self._identity.name,
            transaction_timeout_ms=int(self.timeout_s * 1000),
            producer_id=-1 if held is None else held.producer_id,
            producer_epoch=-1 if held is None else held.epoch,
        )
        attempt = self._identity.ask(self.name)
        try:
            answer = await self.request(ApiKey.INIT_PRODUCER_ID, 4, request)
        except Disconnected:
            self._identity.lost(attempt)
            raise
        if answer.error_code:
            self._identity.failed(attempt)
            self._judge(answer.error_code)
        self.claim = self._identity.told(attempt, answer.producer_id, answer.producer_epoch)
        self._sequences.clear()
        self._has_lost = False
        if not self.is_bumping:
            self._history.keeps_its_epoch(answer.producer_id, answer.producer_epoch)

    def begin(self) -> Transaction:
        self._transaction_count += 1
        self.transaction = self._history.begin(f"{self.name}.{self._transaction_count}")
        self._started_s = None
        self._added.clear()
        self._has_work = False
        if self.database is not None:
            self.database.begin(self._identity, self._held(), self.transaction)
        return self.transaction

    def topic_made_again(self, name: str) -> None:
        """Its partitions are others now, and know nothing of this producer."""
        for place in [place for place in self._sequences if place[0] == name]:
            del self._sequences[place]

    # --- errors

    def _judge(self, code: int) -> None:
        """What coordinators say. Raises Unhappy (to be tried again), Refused, Violation; nothing for NONE."""
        if code in _REFUSED:
            self._explain(code)
            raise Refused(ErrorCode(code).name)
        expect(code)

    def _explain(self, code: int) -> None:
        if self.claim is None:
            raise Violation(f"{self.name} asked for an epoch of {self._identity.name} and heard {ErrorCode(code).name}")
        self._identity.refused(self.claim, code, self._started_s, self.timeout_s)

    def _held(self) -> Claim:
        assert self.claim is not None, "it has not started"
        return self.claim

    def _note_start(self) -> None:
        if self._started_s is None:
            self._started_s = asyncio.get_running_loop().time()

    # --- records

    async def send(self, batches: Mapping[Place, Sequence[bytes]]) -> None:
        """Returns when all of it is acknowledged. Raises Refused, MustAbort."""
        self._note_start()
        new = [place for place in batches if place not in self._added]
        if new and not self.is_bumping:
            await self.until_done(lambda: self._add(new))
        self._added.update(new)
        unanswered: dict[Place, Batch] = {}
        is_fenced, time_ms = self._identity.is_fenced(self._held()), now_ms()
        for place, values in batches.items():
            sequence = self._sequences.get(place, 0)
            self._sequences[place] = sequence + len(values)
            unanswered[place] = Batch(sequence, values, time_ms, is_fenced)
            self._history.send(self.transaction, place, values)
        await self.until_done(lambda: self._produce(unanswered))

    async def _add(self, places: Sequence[Place]) -> None:
        claim = self._held()
        request = add_partitions_to_txn_request.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._identity.name,
            v3_and_below_producer_id=claim.producer_id,
            v3_and_below_producer_epoch=claim.epoch,
            v3_and_below_topics=[
                add_partitions_to_txn_request.AddPartitionsToTxnTopic(
                    name=topic, partitions=[partition for name, partition in places if name == topic]
                )
                for topic in dict.fromkeys(topic for topic, _ in places)
            ],
        )
        was_fenced = self._identity.is_fenced(claim)
        answer = await self.request(ApiKey.ADD_PARTITIONS_TO_TXN, self.rng.choice((0, 1, 3)), request)
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                if result.partition_error_code == ErrorCode.OPERATION_NOT_ATTEMPTED:
                    raise Unhappy("another partition was refused")
                self._judge(result.partition_error_code)
        self._identity.passed(claim, was_fenced, "AddPartitionsToTxn")

    async def _produce(self, unanswered: dict[Place, Batch]) -> None:
        """What is acknowledged leaves `unanswered`."""
        claim = self._held()
        version = _ADDING_PRODUCE_VERSION if self.is_bumping else self.rng.choice(_VERIFIED_PRODUCE_VERSIONS)
        answer = await self.request(ApiKey.PRODUCE, version, self._produce_request(unanswered))
        codes = set()
        for topic in answer.responses:
            for result in topic.partition_responses:
                place = topic.name, result.index
                batch = unanswered[place]
                codes.add(result.error_code)
                if result.error_code == ErrorCode.NONE:
                    self._identity.passed(claim, batch.was_fenced, f"{batch.values[0]!r}")
                    self._history.acknowledge(place, result.base_offset, batch.values)
                    self._has_work = True
                    del unanswered[place]
        if ErrorCode.PRODUCER_FENCED in codes:
            raise Violation(f"Produce {version} was answered with {codes}")
        for code in codes:
            if code in _ABORTABLE_PRODUCE:
                if code == ErrorCode.TRANSACTION_ABORTABLE and version < 11:
                    raise Violation(f"TRANSACTION_ABORTABLE was said to Produce {version}")
                self._explain(code)
                raise MustAbort(ErrorCode(code).name)
        for code in codes:
            self._judge(code)
        if unanswered:
            raise Violation(f"nothing was said of {tuple(unanswered)}")

    def _produce_request(self, unanswered: Mapping[Place, Batch]) -> produce_request.ProduceRequest:
        topics: dict[str, list[produce_request.PartitionProduceData]] = {}
        for (topic, partition), batch in unanswered.items():
            records = encode_batch(
                [self._record_of(topic, value, batch.time_ms) for value in batch.values],
                producer_id=self._held().producer_id,
                producer_epoch=self._held().epoch,
                base_sequence=batch.sequence,
                attributes=TRANSACTIONAL,
            )
            data = produce_request.PartitionProduceData(index=partition, records=bytes(records))
            topics.setdefault(topic, []).append(data)
        return produce_request.ProduceRequest(
            transactional_id=self._identity.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                produce_request.TopicProduceData(name=name, partition_data=data) for name, data in topics.items()
            ],
        )

    def _record_of(self, topic: str, value: bytes, time_ms: int) -> Record:
        if topic == CHECK_IDS:
            return Record(None, None, ((HEADER, value),), timestamp_ms=time_ms)
        return self._history.record_of(value, time_ms)

    # --- offsets

    async def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int], member: Member) -> None:
        """Raises Refused, MustAbort."""
        self._note_start()
        if not self.is_bumping and group not in self._added:
            await self.until_done(lambda: self._add_offsets(group))
        self._added.add(group)
        for partition, offset in offsets.items():
            self._history.send_offset(self.transaction, partition, offset)
        claim = self._held()
        was_fenced = self._identity.is_fenced(claim)
        await self.until_done(lambda: self._commit_offsets(group, topic, offsets, member))
        self._identity.passed(claim, was_fenced, f"offsets {dict(offsets)}")
        self._has_work = True

    async def _add_offsets(self, group: str) -> None:
        claim = self._held()
        request = add_offsets_to_txn_request.AddOffsetsToTxnRequest(
            transactional_id=self._identity.name,
            producer_id=claim.producer_id,
            producer_epoch=claim.epoch,
            group_id=group,
        )
        answer = await self.request(ApiKey.ADD_OFFSETS_TO_TXN, self.rng.choice((0, 1, 3)), request)
        self._judge(answer.error_code)

    async def _commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int], member: Member) -> None:
        claim = self._held()
        partitions = [
            txn_offset_commit_request.TxnOffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset
            )
            for partition, offset in offsets.items()
        ]
        request = txn_offset_commit_request.TxnOffsetCommitRequest(
            transactional_id=self._identity.name,
            group_id=group,
            producer_id=claim.producer_id,
            producer_epoch=claim.epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            topics=[txn_offset_commit_request.TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        version = 5 if self.is_bumping else self.rng.choice((3, 4))
        answer = await self.request(ApiKey.TXN_OFFSET_COMMIT, version, request)
        for result in answer.topics[0].partitions:
            if result.error_code in _ABORTABLE_MEMBER:
                if not member.member_id:
                    raise Violation(f"{self.name} commits for no member and heard {ErrorCode(result.error_code).name}")
                raise MustAbort(ErrorCode(result.error_code).name)
            if result.error_code == ErrorCode.TRANSACTION_ABORTABLE:
                self._explain(result.error_code)
                raise MustAbort("TRANSACTION_ABORTABLE")
            self._judge(result.error_code)

    # --- the end

    def commit_database(self) -> bool:
        """Before the transaction itself. False: the transaction can only be aborted."""
        if self.database is None or not self._has_work:
            return True
        return self.database.commit(self.transaction)

    async def send_check_id(self) -> None:
        """The last record of a transaction that the application may be asked about. Raises Refused, MustAbort."""
        if self.database is not None and self.database.has_check_ids and self._has_work:
            await self.send({(CHECK_IDS, 0): [self.transaction.name.encode()]})

    async def commit(self) -> None:
        """Raises Refused; then it may be committed all the same: a proxy asks again when a coordinator is lost in the middle."""
        if not self._has_work:
            await self.abort()
            return
        self.transaction.ask()
        await self._end(is_commit=True)
        self._history.committed(self.transaction)
        await self._renew()

    async def abort(self) -> None:
        """Raises Refused."""
        if self._started_s is not None:
            self._has_lost |= not self.is_bumping  # a batch that was refused leaves a gap in the sequence numbers
            await self._end(is_commit=False)
        self._history.aborted(self.transaction)
        await self._renew()

    def commit_late(self) -> None:
        """The last thing that is heard of this client: its commit comes when it is gone itself."""
        if self._has_work:
            self.transaction.ask()
            self.late.send(ApiKey.END_TXN, 5 if self.is_bumping else 3, self._end_request(is_commit=True))

    async def _end(self, *, is_commit: bool) -> None:
        await self.until_done(lambda: self._try_end(is_commit=is_commit))
        self._started_s = None
        if self.database is not None:
            self.database.entry_of(self.transaction).may_come_again = self._has_lost and not self.is_bumping

    async def _renew(self) -> None:
        """What was given up in this transaction must not come in the next one."""
        if self._has_lost and not self.is_bumping:
            await self.until_done(self._init)

    def _end_request(self, *, is_commit: bool) -> end_txn_request.EndTxnRequest:
        claim = self._held()
        return end_txn_request.EndTxnRequest(
            transactional_id=self._identity.name,
            producer_id=claim.producer_id,
            producer_epoch=claim.epoch,
            committed=is_commit,
        )

    async def _try_end(self, *, is_commit: bool) -> None:
        claim, identity = self._held(), self._identity
        known, was_fenced = identity.known(), identity.is_fenced(claim)
        version = 5 if self.is_bumping else self.rng.choice((1, 3, 4))
        answer = await self.request(ApiKey.END_TXN, version, self._end_request(is_commit=is_commit))
        self._judge(answer.error_code)
        identity.passed(claim, was_fenced, "EndTxn")
        if self.is_bumping:
            identity.bumped(claim, answer.producer_id, answer.producer_epoch, known)
            self._sequences.clear()
