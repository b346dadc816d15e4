"""A transaction coordinator over partition logs in memory, and partitions that take its markers, or do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar, cast

from bmq.coordinator.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from bmq.coordinator.transactions.config import TransactionConfig
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.coordinator.transactions.group_partitions import GroupPartitions
from bmq.coordinator.transactions.transaction_shard import TransactionShard
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.log.transactions import TransactionMarker
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from bmq.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from bmq.protocol.messages.end_txn_request import EndTxnRequest
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.request_context import RequestContext
from bmq.protocol.transaction_records import TransactionValue
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog
from tests.simulation.loop import VirtualTimeLoop
from tests.unit.coordinator.cluster import FakeTopics, OwnedLog

T = TypeVar("T")
Written = tuple[str, int, TransactionMarker]
FAST = TransactionConfig(abort_timed_out_interval_ms=1_000, remove_expired_interval_ms=10_000)
TIMEOUT_MS = 60_000


def virtual(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it on virtual time; whatever failed unheard fails the test."""
    loop = VirtualTimeLoop(time_limit_s=3_600)
    try:
        result = loop.run_until_complete(main())
        assert not loop.failures, loop.failures
        return result
    finally:
        loop.discard()


class LoopClock(FakeClock):
    """Wall time that goes on with the loop's."""

    def now_ms(self) -> int:
        return super().now_ms() + round(asyncio.get_running_loop().time() * 1000)


class FakeMarkers:
    """`refusals`: errors of the next writes into a partition, by (topic, number). `gate`: writes wait for it."""

    def __init__(self, topics: FakeTopics) -> None:
        self.written: list[Written] = []
        self.tried: list[Written] = []
        self.refusals: dict[tuple[str, int], list[ErrorCode]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self._topics = topics

    async def write(self, topic_partition: TopicPartition, marker: TransactionMarker) -> None:
        name = self._topics.topics_by_id[topic_partition.topic_id].name
        self.tried.append((name, topic_partition.partition, marker))
        await self.gate.wait()
        await asyncio.sleep(0.001)
        refusals = self.refusals.get((name, topic_partition.partition))
        if refusals:
            raise KafkaError(refusals.pop(0))
        self.written.append((name, topic_partition.partition, marker))


class FakeProducerIds:
    def __init__(self) -> None:
        self.given = 0
        self.error: ErrorCode | None = None

    async def next(self) -> int:
        await asyncio.sleep(0)
        if self.error is not None:
            raise KafkaError(self.error)
        self.given += 1
        return 1_000 + self.given


class StateShards:
    """`leader_epoch`: of the logs it opens from now on. `is_former`: they have another owner now. `epoch_known`: up to here
    the metadata know of leader epochs.
    """

    def __init__(
        self, topics: FakeTopics, count: int, logs: dict[int, FakePartitionLog] | None = None, leader_epoch: int = 0
    ) -> None:
        self.logs: dict[int, FakePartitionLog] = {} if logs is None else logs
        self.leader_epoch = leader_epoch
        self.is_former = False
        self.epoch_known = leader_epoch
        self.error: BmqError | None = None
        self._topics = topics
        self._count = count

    def partition_count(self) -> int:
        return self._count

    def owned(self) -> Sequence[int]:
        return () if self.is_former else range(self._count)

    def inherited(self) -> Sequence[int]:
        return self.owned() if self.leader_epoch > 0 else ()

    def is_known(self, shard: int, leader_epoch: int) -> bool:
        return leader_epoch <= self.epoch_known

    def heir(self) -> StateShards:
        """The same partitions at their next owner."""
        self.is_former = True
        return StateShards(self._topics, self._count, self.logs, self.leader_epoch + 1)

    async def open(self, shard: int, *, is_awaited: bool) -> ReplayableLog:
        if self.error is not None:
            raise self.error
        topic_id = self._topics.add(TRANSACTIONS_TOPIC, 998)
        log = self.logs.setdefault(shard, FakePartitionLog(TopicPartition(topic_id, shard)))
        return cast(ReplayableLog, OwnedLog(log, self.leader_epoch))

    def ask(self, shard: int) -> None:
        """Opening a shard takes no turn here."""


class World:
    """`restart` makes a new coordinator over the same logs, `take_over` one at the next leader epoch."""

    def __init__(self, config: TransactionConfig = FAST, shard_count: int = 1) -> None:
        self.clock = LoopClock()
        self.config = config
        self.topics = FakeTopics()
        self.topics.add("t", 1)
        self.topics.add("u", 2)
        self.shards = StateShards(self.topics, shard_count)
        self.markers = FakeMarkers(self.topics)
        self.producer_ids = FakeProducerIds()
        self.coordinator = self.restart()

    def restart(self) -> TransactionCoordinator:
        self.coordinator = TransactionCoordinator(
            self.shards,
            self.clock,
            Random(7),
            self.config,
            lambda: self.topics,
            producer_ids=self.producer_ids,
            markers=self.markers,
            groups=GroupPartitions(lambda: self.topics, self._make_topic),
        )
        return self.coordinator

    def take_over(self) -> TransactionCoordinator:
        """The coordinator before goes on, and does not know that it was replaced."""
        self.shards = self.shards.heir()
        return self.restart()

    async def _make_topic(self, name: str) -> None:
        assert name == OFFSETS_TOPIC
        self.topics.add(OFFSETS_TOPIC, 999)

    @property
    def log(self) -> FakePartitionLog:
        return self.shards.logs[0]

    def shard(self, transactional_id: str = "id") -> TransactionShard:
        shard = self.coordinator.directory.find(transactional_id)
        assert shard is not None
        return shard

    def state(self, transactional_id: str = "id") -> TransactionValue:
        value = self.shard(transactional_id).transactions[transactional_id].value
        assert value is not None
        return value

    # ---------------------------------------------------------------- clients

    async def ask(self, api_key: ApiKey, request: Any, version: int, leader_epoch: int = -1) -> Any:
        context = RequestContext(version, "client", "192.0.2.7", leader_epoch=leader_epoch)
        return await self.coordinator.handle(api_key, request, context)

    async def init(
        self,
        transactional_id: str = "id",
        given: tuple[int, int] = (-1, -1),
        *,
        version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
    ) -> tuple[int, int, int]:
        """(error, producer id, epoch)"""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=given[0],
            producer_epoch=given[1],
        )
        answer = await self.ask(ApiKey.INIT_PRODUCER_ID, request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    async def begun(self, transactional_id: str = "id", **fields: Any) -> tuple[int, int]:
        """A producer (id, epoch) that got its id."""
        error, producer_id, epoch = await self.init(transactional_id, **fields)
        assert error == 0
        return producer_id, epoch

    async def add(
        self, producer: tuple[int, int], *partitions: tuple[str, int], version: int = 3, transactional_id: str = "id"
    ) -> list[int]:
        """The error of each partition, as a client adds them."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[n]) for name, n in partitions],
        )
        answer = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, version)
        assert [topic.name for topic in answer.results_by_topic_v3_and_below] == [name for name, _ in partitions]
        return [topic.results_by_partition[0].partition_error_code for topic in answer.results_by_topic_v3_and_below]

    async def claim(
        self,
        producer: tuple[int, int],
        *partitions: tuple[str, int],
        verify_only: bool = False,
        transactional_id: str = "id",
    ) -> list[int]:
        """The same as partitions' owners do."""
        one = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=[n]) for name, n in partitions],
        )
        answer = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(transactions=[one]), 5)
        (result,) = answer.results_by_transaction
        assert result.transactional_id == transactional_id
        return [topic.results_by_partition[0].partition_error_code for topic in result.topic_results]

    async def add_offsets(self, producer: tuple[int, int], group_id: str = "g", version: int = 4) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id="id", producer_id=producer[0], producer_epoch=producer[1], group_id=group_id
        )
        return int((await self.ask(ApiKey.ADD_OFFSETS_TO_TXN, request, version)).error_code)

    async def end(
        self, producer: tuple[int, int], is_commit: bool = True, *, version: int = 5, transactional_id: str = "id"
    ) -> tuple[int, int, int]:
        """(error, producer id, epoch)"""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=is_commit,
        )
        answer = await self.ask(ApiKey.END_TXN, request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch
