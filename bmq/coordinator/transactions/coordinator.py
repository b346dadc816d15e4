"""The transaction coordinator: one method per Kafka API, message in, message out. Errors are returned, not raised.

It finds the shard of the transactional id, lets transaction.py decide, and answers once the answer's record is durable.
An answer from memory alone waits for a proof of ownership (rule 15), unless it only tells the client to retry. Error
codes and the differences between versions are those of Apache Kafka's TransactionCoordinator and KafkaApis (4.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from random import Random
from typing import Any, Final, Protocol

import structlog

from bmq.aio.loop_turns import run_in_turns
from bmq.coordinator.runtime.directory import ShardDirectory, Shards
from bmq.coordinator.runtime.inherited_shards import InheritedShards
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, CurrentTopics
from bmq.coordinator.transactions.check_back import CheckPolicy, TransactionName, is_asked_about
from bmq.coordinator.transactions.check_back import decide as decide_named
from bmq.coordinator.transactions.checker import Checks, TransactionChecker
from bmq.coordinator.transactions.config import TransactionConfig
from bmq.coordinator.transactions.listing import STATE_NAMES, ListFilter, state_name
from bmq.coordinator.transactions.marker_delivery import MarkerWriter
from bmq.coordinator.transactions.metrics import TransactionMetrics
from bmq.coordinator.transactions.transaction import (
    CONCURRENT,
    EPOCH_BUMPED_FROM,
    Outcome,
    Partition,
    Producer,
    add_partitions,
    end_transaction,
    init_producer_id,
    verify_partitions,
)
from bmq.coordinator.transactions.transaction_requests import (
    BATCHED_FROM,
    error_for_version,
    init_error,
    is_valid_id,
    named_in,
    partitions_of,
    results_by_topic,
)
from bmq.coordinator.transactions.transaction_shard import ProducerIds, TransactionShard, TransactionShardContext
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.transactions import TransactionClaim
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from bmq.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from bmq.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from bmq.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
)
from bmq.protocol.messages.describe_transactions_response import TransactionState as DescribedTransaction
from bmq.protocol.messages.end_txn_request import EndTxnRequest
from bmq.protocol.messages.end_txn_response import EndTxnResponse
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.init_producer_id_response import InitProducerIdResponse
from bmq.protocol.messages.list_transactions_request import ListTransactionsRequest
from bmq.protocol.messages.list_transactions_response import ListTransactionsResponse
from bmq.protocol.messages.list_transactions_response import TransactionState as ListedTransaction
from bmq.protocol.request_context import RequestContext, RequestMethod
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse
from bmq.protocol.transaction_records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionStatus,
    TransactionValue,
)
from bmq.protocol.turns import NO_TURNS, Pace, Turns
from bmq.protocol.wire_turns import InTurns

Decide = Callable[[TransactionValue | None, bool, int, int], Outcome]
"""(the last durable state, whether a record is in flight, now (wall ms), a fresh producer id or none)"""

EPOCH_BUMP_FROM: Final = 5
"""From this version on EndTxn uses transaction version 2."""
_CLOSE_SNAPSHOT_RECORDS_MIN: Final = 1_000
_AT_ONCE_MAX: Final = 500
"""Transactional ids of one request that are handled concurrently."""
_LISTED_PER_TURN_MAX: Final = 16_384
"""Characters of transactional ids that are matched with a pattern in one turn of the loop."""
_ID_COST: Final = 32
"""Cost of an id besides its characters, in characters."""
_NO_CLIENTS_MARKERS: Final = frozenset({TRANSACTIONS_TOPIC, "__share_group_state"})
"""Topics that hold the log of a state machine that takes no part in transactions."""
_NOT_ADDED_BY_CLIENTS: Final = _NO_CLIENTS_MARKERS | {OFFSETS_TOPIC}
"""A group's partition is added to a transaction by AddOffsetsToTxn, or by its owner."""

_log = structlog.get_logger("bmq.coordinator")


class GroupPartitionOf(Protocol):
    """GroupPartitions implements this."""

    async def partition_of(self, group_id: str) -> Partition:
        """The partition that has the group's offsets. Raises KafkaError."""


class StateShards(Shards, Protocol):
    """The partitions of `__transaction_state`."""

    def is_known(self, shard: int, leader_epoch: int) -> bool:
        """Whether this process's metadata has reached this leader epoch of the partition. Then it has all topics that
        earlier owners knew: they gave the partition up with the same record.
        """


class TransactionCoordinator:
    """All transactional ids whose shards this process owns. Create it inside its event loop.

    Implements bmq.log.transactions.TransactionVerifier for a process that owns all ids.
    """

    def __init__(
        self,
        shards: StateShards,
        clock: Clock,
        random: Random,
        config: TransactionConfig,
        topics: CurrentTopics,
        *,
        producer_ids: ProducerIds,
        markers: MarkerWriter,
        groups: GroupPartitionOf,
    ) -> None:
        self.metrics = TransactionMetrics(self._ids_by_state, self._markers_waiting)
        self.config = config
        self._shards = shards
        self._clock = clock
        self._topics = topics
        self._producer_ids = producer_ids
        self._groups = groups
        self._checks = Checks()
        self._loop = asyncio.get_running_loop()

        context = TransactionShardContext(
            clock, config, self.metrics, producer_ids, markers, topics, shards.is_known, random, self._checks
        )

        def make(number: int, log: ReplayableLog, on_lost: Callable[[TransactionShard], None]) -> TransactionShard:
            return TransactionShard(number, log, on_lost, context)

        self.directory = ShardDirectory(
            TransactionShard.kind, shards, make, config, lambda number: self._inherited.lost(number)
        )
        self._inherited = InheritedShards(
            self.directory,
            shards,
            random,
            loads_max=config.shards_inheriting_max,
            retry_min_ms=config.retry_min_ms,
            retry_max_ms=config.retry_max_ms,
        )
        self._handlers: Final[Mapping[ApiKey, RequestMethod]] = {
            ApiKey.INIT_PRODUCER_ID: self.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions_to_txn,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets_to_txn,
            ApiKey.END_TXN: self.end_txn,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe_transactions,
            ApiKey.LIST_TRANSACTIONS: self.list_transactions,
            ApiKey.TRANSACTION_DECIDE: self.decide,
        }

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """Answer a request of the TRANSACTION route, or an InitProducerId with a transactional id.

        Raises KafkaError NOT_COORDINATOR when the request was forwarded for another leader epoch of the shard than the
        present one: a request delayed on a connection could end a later transaction.
        """
        if context.leader_epoch >= 0:
            await self._require_leader_epoch(named_in(api_key, request, context.api_version), context.leader_epoch)
        return await self._handlers[api_key](request, context)

    async def prepare(self, transactional_id: str) -> None:
        """Load the id's shard, creating the topic if there is none. Raises KafkaError (FindCoordinator)."""
        await self.directory.get(transactional_id)

    def shards_changed(self) -> None:
        """This process may have taken over partitions: complete the settled transactions in their logs."""
        self._inherited.changed()

    def resign(self, shard: int) -> None:
        """The shard's partition has another owner now."""
        self.directory.resign(shard)
        self._inherited.resigned(shard)

    def after_stall(self) -> None:
        """This process was stalled: transactions must not time out for requests that it could not read."""
        for shard in self.directory.ready.values():
            shard.after_stall()

    async def close(self) -> None:
        """Answer all waiting requests with an error and stop."""
        self._inherited.close()
        await self.directory.close(snapshot_records_min=_CLOSE_SNAPSHOT_RECORDS_MIN)

    # ---------------------------------------------------------------- InitProducerId

    async def init_producer_id(self, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
        """InitProducerId 0-5 with a transactional id."""
        transactional_id = request.transactional_id or ""
        has_producer = request.producer_id != NO_PRODUCER_ID
        if not is_valid_id(transactional_id) or has_producer != (request.producer_epoch != NO_PRODUCER_EPOCH):
            return init_error(ErrorCode.INVALID_REQUEST)
        timeout_ms = request.transaction_timeout_ms
        if not 0 < timeout_ms <= self.config.transaction_max_timeout_ms:
            return init_error(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        given = Producer(request.producer_id, request.producer_epoch) if has_producer else None

        def decide(value: TransactionValue | None, is_pending: bool, now_ms: int, fresh: int) -> Outcome:
            outcome = init_producer_id(value, is_pending, given, timeout_ms, now_ms, fresh, self.config.last_epoch)
            # A producer that names its own epoch lives, and aborts by itself.
            is_owner = value is not None and given == Producer(value.producer_id, value.producer_epoch)
            return CONCURRENT if not is_owner and self._is_held_back(transactional_id, value, outcome) else outcome

        outcome = await self._perform_in_turn(transactional_id, decide, may_begin=True)
        if outcome.error:
            return init_error(error_for_version(outcome.error, ApiKey.INIT_PRODUCER_ID, context))
        return InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)

    # ---------------------------------------------------------------- partitions

    async def add_partitions_to_txn(
        self, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> AddPartitionsToTxnResponse:
        """AddPartitionsToTxn 0-5; from version 4 on brokers verify or add the partitions of their producers."""
        if context.api_version >= BATCHED_FROM:
            results: list[AddPartitionsToTxnResult] = []
            for start in range(0, len(request.transactions), _AT_ONCE_MAX):
                some = request.transactions[start : start + _AT_ONCE_MAX]
                results += await asyncio.gather(*(self._one_transaction(one, context.turns) for one in some))
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        partitions = await run_in_turns(partitions_of(request.v3_and_below_topics), context.turns)
        codes = await self._add(
            request.v3_and_below_transactional_id,
            Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            partitions,
            transaction_version=0,
            not_served=_NOT_ADDED_BY_CLIENTS,
            turns=context.turns,
        )
        errors = (error_for_version(code, ApiKey.ADD_PARTITIONS_TO_TXN, context) for code in codes)
        by_topic = await run_in_turns(results_by_topic(request.v3_and_below_topics, errors), context.turns)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=by_topic)

    async def _one_transaction(self, asked: AddPartitionsToTxnTransaction, turns: Turns) -> AddPartitionsToTxnResult:
        partitions = await run_in_turns(partitions_of(asked.topics), turns)
        producer = Producer(asked.producer_id, asked.producer_epoch)
        self.metrics.verifications += len(partitions)
        if asked.verify_only:
            codes = await self._verify(asked.transactional_id, producer, partitions, turns)
        else:
            codes = await self._add(
                asked.transactional_id, producer, partitions, transaction_version=EPOCH_BUMPED_FROM, turns=turns
            )
        topic_results = await run_in_turns(results_by_topic(asked.topics, iter(codes)), turns)
        return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topic_results)

    async def verify(
        self, claim: TransactionClaim, producer_id: int, producer_epoch: int, topic: str, partitions: Sequence[int]
    ) -> Sequence[ErrorCode]:
        """Implements bmq.log.transactions.TransactionVerifier for an id whose shard is owned here."""
        named = [(topic, number) for number in partitions]
        producer = Producer(producer_id, producer_epoch)
        self.metrics.verifications += len(named)
        if not claim.may_add:
            return await self._verify(claim.transactional_id, producer, named)
        return await self._add(claim.transactional_id, producer, named, transaction_version=EPOCH_BUMPED_FROM)

    async def _add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[Partition],
        *,
        transaction_version: int,
        not_served: Container[str] = _NO_CLIENTS_MARKERS,
        turns: Turns = NO_TURNS,
    ) -> list[ErrorCode]:
        """A code for each partition; one bad partition, and none is added. `not_served`: topics that are refused."""
        if not is_valid_id(transactional_id):
            return [ErrorCode.INVALID_REQUEST] * len(partitions)
        bad = await run_in_turns(self._bad(partitions, not_served), turns)
        if bad is not None:
            return bad

        def decide(value: TransactionValue | None, is_pending: bool, now_ms: int, fresh: int) -> Outcome:
            return add_partitions(value, is_pending, producer, partitions, transaction_version, now_ms)

        outcome = await self._perform_in_turn(transactional_id, decide)
        return [outcome.error] * len(partitions)

    async def _verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[Partition], turns: Turns = NO_TURNS
    ) -> list[ErrorCode]:
        if not is_valid_id(transactional_id):
            return [ErrorCode.INVALID_REQUEST] * len(partitions)
        bad = await run_in_turns(self._bad(partitions), turns)
        if bad is not None:
            return bad
        try:
            shard = await self._existing(transactional_id)
            codes = verify_partitions(_value_in(shard, transactional_id), producer, partitions)
            # A former owner does not know that the transaction is over: it would let records in after the marker.
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes:
                await shard.prove()
        except BmqError as error:
            return [coordinator_error(error)] * len(partitions)
        return codes

    def _bad(
        self, partitions: Sequence[Partition], not_served: Container[str] = _NO_CLIENTS_MARKERS
    ) -> InTurns[list[ErrorCode] | None]:
        topics = self._topics().topics
        codes = []
        pace = Pace()
        for name, number in partitions:
            if pace.is_over():
                yield
            topic = topics.get(name)
            if name in not_served:
                codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif topic is None or not 0 <= number < len(topic.partitions):
                codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif topic.view is not None:
                codes.append(ErrorCode.POLICY_VIOLATION)
            else:
                codes.append(ErrorCode.OPERATION_NOT_ATTEMPTED)
        return None if all(code is ErrorCode.OPERATION_NOT_ATTEMPTED for code in codes) else codes

    async def add_offsets_to_txn(
        self, request: AddOffsetsToTxnRequest, context: RequestContext
    ) -> AddOffsetsToTxnResponse:
        """AddOffsetsToTxn 0-4: the group's partition of `__consumer_offsets` becomes part of the transaction."""
        try:
            partition = await self._groups.partition_of(request.group_id)
        except BmqError as error:
            return AddOffsetsToTxnResponse(error_code=coordinator_error(error))
        (code,) = await self._add(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            [partition],
            transaction_version=0,
        )
        return AddOffsetsToTxnResponse(error_code=error_for_version(code, ApiKey.ADD_OFFSETS_TO_TXN, context))

    # ---------------------------------------------------------------- the end

    async def end_txn(self, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
        """EndTxn 0-5. Answered when the outcome is durable; the markers follow."""
        if not is_valid_id(request.transactional_id):
            return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        producer = Producer(request.producer_id, request.producer_epoch)
        has_bump = context.api_version >= EPOCH_BUMP_FROM
        version = EPOCH_BUMPED_FROM if has_bump else 0

        def decide(value: TransactionValue | None, is_pending: bool, now_ms: int, fresh: int) -> Outcome:
            return end_transaction(
                value, is_pending, producer, request.committed, version, now_ms, fresh, self.config.last_epoch
            )

        outcome = await self._perform(request.transactional_id, decide)
        if outcome.error:
            return EndTxnResponse(error_code=error_for_version(outcome.error, ApiKey.END_TXN, context))
        if not has_bump:
            return EndTxnResponse()
        return EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)

    # ---------------------------------------------------------------- asked back

    def use_checker(self, checker: TransactionChecker) -> None:
        """From now on it asks about open transactions of ids that opted in."""
        self._checks.checker = checker

    def reconfigure_checks(self, policy: CheckPolicy) -> None:
        """Call it at the start, and whenever the policy may have changed."""
        if policy != self._checks.policy:
            self._checks.use(policy)
            for shard in self.directory.ready.values():
                shard.reconfigure_checks()

    async def decide(self, request: TransactionDecideRequest, context: RequestContext) -> TransactionDecideResponse:
        """TransactionDecide: end this transaction of the id, as an application says that was asked."""
        name = TransactionName(request.producer_id, request.producer_epoch, request.start_ms)

        def decide(value: TransactionValue | None, is_pending: bool, now_ms: int, fresh: int) -> Outcome:
            outcome = decide_named(value, is_pending, name, request.is_commit, now_ms, fresh, self.config.last_epoch)
            is_end = outcome.write is not None or outcome.needs_producer_id
            if is_end and value is not None and not self._is_asked_about(request.transactional_id, value):
                return Outcome(ErrorCode.INVALID_REQUEST)
            return outcome

        return TransactionDecideResponse(error_code=(await self._perform(request.transactional_id, decide)).error)

    def _is_asked_about(self, transactional_id: str, value: TransactionValue) -> bool:
        return is_asked_about(self._checks.policy, transactional_id, value)

    def _is_held_back(self, transactional_id: str, value: TransactionValue | None, outcome: Outcome) -> bool:
        """Whether a new instance of a producer would abort a transaction that is asked about first."""
        is_abort = outcome.write is not None or outcome.needs_producer_id
        if not is_abort or value is None or value.status != TransactionStatus.ONGOING:
            return False
        # Not `find`: it has no shard that others still wait for, as behind a hand-over. Without one the client has to find its next owner.
        shard = self.directory.ready.get(self.directory.number_of(transactional_id))
        return shard is None or shard.checks.hold_back(transactional_id)

    # ---------------------------------------------------------------- administration

    async def describe_transactions(
        self, request: DescribeTransactionsRequest, context: RequestContext
    ) -> DescribeTransactionsResponse:
        """DescribeTransactions 0. Each id has its own error."""
        states: list[DescribedTransaction] = []
        for start in range(0, len(request.transactional_ids), _AT_ONCE_MAX):  # concurrent ids share proofs of ownership
            some = request.transactional_ids[start : start + _AT_ONCE_MAX]
            states += await asyncio.gather(*(self._described(transactional_id) for transactional_id in some))
        return DescribeTransactionsResponse(transaction_states=states)

    async def _described(self, transactional_id: str) -> DescribedTransaction:
        described = DescribedTransaction(transactional_id=transactional_id, transaction_start_time_ms=0)
        if not is_valid_id(transactional_id):
            described.error_code = ErrorCode.INVALID_REQUEST
            return described
        try:
            shard = await self._existing(transactional_id)
            await shard.prove()
        except BmqError as error:
            described.error_code = coordinator_error(error)
            return described
        value = _value_in(shard, transactional_id)
        if value is None:
            described.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            return described
        described.transaction_state = state_name(value)
        described.transaction_timeout_ms = value.timeout_ms
        described.transaction_start_time_ms = value.start_ms
        described.producer_id = value.producer_id
        described.producer_epoch = value.producer_epoch
        described.topics = [
            TopicData(topic=topic.topic, partitions=topic.partition_ids) for topic in value.partitions or ()
        ]
        return described

    async def list_transactions(
        self, request: ListTransactionsRequest, context: RequestContext
    ) -> ListTransactionsResponse:
        """ListTransactions 0-2: of every shard this process owns; empty while there is no topic for them."""
        try:
            wanted = ListFilter(request)
            shards = await self.directory.all() if self._has_topic() else []
        except KafkaError as error:
            return ListTransactionsResponse(error_code=coordinator_error(error))
        listed = []
        looked_at = 0
        for shard in shards:
            for one in list(shard.transactions.values()):
                looked_at += _ID_COST + len(one.transactional_id)
                if looked_at > _LISTED_PER_TURN_MAX:
                    looked_at = 0
                    await asyncio.sleep(0)
                value = one.value
                if value is not None and wanted.takes(one.transactional_id, value, self._clock.now_ms()):
                    listed.append(
                        ListedTransaction(
                            transactional_id=one.transactional_id,
                            producer_id=value.producer_id,
                            transaction_state=state_name(value),
                        )
                    )
        return ListTransactionsResponse(unknown_state_filters=wanted.unknown_states, transaction_states=listed)

    # ---------------------------------------------------------------- inside

    async def _perform(self, transactional_id: str, decide: Decide) -> Outcome:
        """Decide, write, answer."""
        try:
            return await self._perform_in(await self._existing(transactional_id), transactional_id, decide)
        except BmqError as error:
            return Outcome(coordinator_error(error))

    async def _perform_in_turn(self, transactional_id: str, decide: Decide, *, may_begin: bool = False) -> Outcome:
        """Like `_perform`, for requests of the id's next transaction: in order, and waiting a while for a record or
        markers in flight. Brokers that accepted a transaction's first batches at the same time add their partitions at
        the same time.

        Not for an end: a waiting one could end a later transaction. `may_begin`: an unknown id is created.
        """
        since_s = self._loop.time()
        try:
            shard = await (self.directory.get if may_begin else self._existing)(transactional_id)
            until_s = since_s + self.config.add_wait_max_ms / 1000
            if not await shard.turns.take(transactional_id, until_s - self._loop.time()):
                return CONCURRENT
            try:
                while self._loop.time() <= until_s:
                    if shard.is_lost:
                        raise KafkaError(ErrorCode.NOT_COORDINATOR)
                    outcome = await self._perform_in(shard, transactional_id, decide)
                    is_early = outcome.error is ErrorCode.CONCURRENT_TRANSACTIONS
                    if not is_early or not await shard.moved_on(transactional_id, since_s):
                        return outcome
                return CONCURRENT  # its client may have asked another coordinator since
            finally:
                shard.turns.give_back(transactional_id)
        except BmqError as error:
            return Outcome(coordinator_error(error))

    async def _perform_in(self, shard: TransactionShard, transactional_id: str, decide: Decide) -> Outcome:
        """Raises BmqError."""
        fresh = NO_PRODUCER_ID
        while True:
            transaction = shard.transactions.get(transactional_id)
            value = None if transaction is None else transaction.value
            is_pending = transaction is not None and transaction.pending is not None
            outcome = decide(value, is_pending, self._clock.now_ms(), fresh)
            if not outcome.needs_producer_id:
                break
            fresh = await self._fresh_producer_id()
            if shard.is_lost:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if outcome.write is not None:
            await shard.write(transactional_id, outcome.write)
        elif outcome.error is not ErrorCode.CONCURRENT_TRANSACTIONS:
            await shard.prove()
        return outcome

    async def _fresh_producer_id(self) -> int:
        try:
            return await self._producer_ids.next()
        except BmqError as error:
            # Kafka's code for "no ids at the moment": producers treat other codes as fatal.
            _log.warning("producer_ids_unavailable", error=str(error), code=error.code.name)
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error

    def _has_topic(self) -> bool:
        return TRANSACTIONS_TOPIC in self._topics().topics

    async def _existing(self, transactional_id: str) -> TransactionShard:
        """The id's shard; NOT_COORDINATOR without a topic, which FindCoordinator creates. Raises KafkaError."""
        shard = self.directory.find(transactional_id)
        if shard is not None:
            return shard
        if not self._has_topic():
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"there is no {TRANSACTIONS_TOPIC} yet")
        return await self.directory.get(transactional_id)

    async def _require_leader_epoch(self, transactional_id: str, leader_epoch: int) -> None:
        if not transactional_id:
            return
        try:
            shard = await self._existing(transactional_id)
        except KafkaError:
            return  # the API's own handler reports it
        if shard.coordinator_epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR,
                f"the shard has the leader epoch {shard.coordinator_epoch}, not {leader_epoch}",
            )

    def _ids_by_state(self) -> dict[str, int]:
        counts = {STATE_NAMES[status]: 0 for status in TransactionStatus if status <= TransactionStatus.COMPLETE_ABORT}
        for shard in self.directory.ready.values():
            for status, count in shard.counts().items():
                counts[STATE_NAMES[TransactionStatus(status)]] += count
        return counts

    def _markers_waiting(self) -> int:
        return sum(shard.delivery.waiting_count for shard in self.directory.ready.values())


def _value_in(shard: TransactionShard, transactional_id: str) -> TransactionValue | None:
    transaction = shard.transactions.get(transactional_id)
    return None if transaction is None else transaction.value
