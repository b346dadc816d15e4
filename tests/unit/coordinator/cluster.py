"""A coordinator over partition logs in memory, and a small picture of the topics there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from uuid import UUID

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.topics import OFFSETS_TOPIC
from bmq.log.partition_log import AppendResult, ProducedBatch, ReplayableLog, TopicPartition
from bmq.log.producer_state import ProducerStates
from bmq.log.store import FencedWriter
from bmq.log.transactions import TransactionClaim, TransactionMarker
from bmq.protocol.control_batch import parse_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from bmq.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from bmq.protocol.record_batch import BatchHeader
from bmq.protocol.request_context import RequestContext
from tests.fakes.clock import FakeClock
from tests.fakes.partition_log import FakePartitionLog
from tests.unit.coordinator.classic.group_bench import subscription

NOW_MS = 1_700_000_000_000
FAST = CoordinatorConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=10)


def request_context(api_version: int = 9, client_id: str | None = "client") -> RequestContext:
    return RequestContext(api_version, client_id, "127.0.0.1")


@dataclass(frozen=True)
class FakeTopic:
    name: str
    topic_id: UUID
    partitions: tuple[int, ...] = (0, 1, 2, 3)
    view: object | None = None


@dataclass
class FakeTopics:
    topics: dict[str, FakeTopic] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    offset: int = 0

    @property
    def topics_by_id(self) -> dict[UUID, FakeTopic]:
        return {topic.topic_id: topic for topic in self.topics.values()}

    def add(self, name: str, number: int) -> UUID:
        self.topics[name] = FakeTopic(name, UUID(int=number))
        return UUID(int=number)


class FencingLog(FakePartitionLog):
    """Refuses the epochs of producers and transaction coordinators that are over, as the real log does."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(topic_partition)
        self.producer_states = ProducerStates()

    def append(self, batch: ProducedBatch) -> None:
        records = batch.records
        header = BatchHeader.parse(records)
        if not header.has_producer_id or self.refuse_with is not None:
            super().append(batch)
            return
        marker = parse_end_transaction_marker(records) if header.is_control else None
        base_offset = self.log_end_offset
        try:
            if marker is None:
                self.producer_states.check(header, is_client=False)
                self.producer_states.place(header, base_offset, NOW_MS)
            else:
                self.producer_states.check_marker(header, marker)
                self.producer_states.place_marker(header, base_offset, marker, NOW_MS)
        except KafkaError as error:
            asyncio.get_running_loop().call_soon(batch.complete, AppendResult(error.code))  # ownership is proven first
        else:
            super().append(batch)


class FakeVerifier:
    """Knows of every transaction, or says `code`. `gate`: answers only once it is set.

    `asked`: (claim, producer id, epoch, topic, partitions).
    """

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.gate: asyncio.Event | None = None
        self.asked: list[tuple[TransactionClaim, int, int, str, tuple[int, ...]]] = []

    async def verify(
        self, claim: TransactionClaim, producer_id: int, producer_epoch: int, topic: str, partitions: Sequence[int]
    ) -> list[ErrorCode]:
        self.asked.append((claim, producer_id, producer_epoch, topic, tuple(partitions)))
        if self.gate is not None:
            await self.gate.wait()
        return [self.code for _ in partitions]


class OwnedLog:
    """A log as the owner of one leader epoch has it: fenced once a higher epoch has opened it."""

    def __init__(self, log: FakePartitionLog, leader_epoch: int) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        log.leader_epoch = max(log.leader_epoch, leader_epoch)

    @property
    def is_fenced(self) -> bool:
        return self.log.leader_epoch > self.leader_epoch

    def append(self, batch: ProducedBatch) -> None:
        if self.is_fenced:
            batch.complete(AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            self.log.append(batch)

    async def prove_ownership(self) -> None:
        await asyncio.sleep(0)
        if self.is_fenced:
            raise FencedWriter("a newer owner exists")
        await self.log.prove_ownership()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


class FakeShards:
    """Makes the offsets topic on first use, as the wiring does. `leader_epoch`: of the logs it opens from now on.

    `awaited`: the shards that were said to be waited for.
    """

    def __init__(self, topics: FakeTopics, count: int) -> None:
        self.logs: dict[int, FencingLog] = {}
        self.opened: list[int] = []
        self.awaited: list[int] = []
        self.error: BmqError | None = None
        self.gate: asyncio.Event | None = None
        self._topics = topics
        self.leader_epoch = 0
        self._count = count

    def partition_count(self) -> int:
        return self._count

    def owned(self) -> range:
        return range(self._count)

    def inherited(self) -> range:
        return range(self._count if self.leader_epoch > 0 else 0)

    async def open(self, shard: int, *, is_awaited: bool) -> ReplayableLog:
        if is_awaited:
            self.awaited.append(shard)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.opened.append(shard)
        topic_id = self._topics.add(OFFSETS_TOPIC, 999)
        if shard not in self.logs:
            self.logs[shard] = FencingLog(TopicPartition(topic_id, shard))
        return cast(ReplayableLog, OwnedLog(self.logs[shard], self.leader_epoch))

    def ask(self, shard: int) -> None:
        self.awaited.append(shard)


class Cluster:
    """`restart` makes a new coordinator over the same logs."""

    def __init__(self, config: CoordinatorConfig = FAST, shard_count: int = 4) -> None:
        self.clock = FakeClock()
        self.topics = FakeTopics()
        self.topics.add("t", 1)
        self.topics.add("u", 2)
        self.shards = FakeShards(self.topics, shard_count)
        self.config = config
        self.hidden: set[tuple[str, str]] = set()  # principals, and topics that they may not describe
        self.verifier: Any = FakeVerifier()  # None: a coordinator made from now on has none
        self.coordinator = self.restart()

    def restart(self) -> GroupCoordinator:
        self.coordinator = GroupCoordinator(
            self.shards,
            self.clock,
            Random(7),
            self.config,
            lambda: self.topics,
            verifier=self.verifier,
            may_describe=lambda context, topic: (context.principal, topic) not in self.hidden,
        )
        return self.coordinator

    def take_over(self) -> Cluster:
        """Another process over the same logs at the next leader epoch; it fences this one shard by shard."""
        heir = Cluster(self.config, self.shards.partition_count())
        heir.topics = self.topics
        heir.shards = FakeShards(self.topics, self.shards.partition_count())
        heir.shards.logs = self.shards.logs
        heir.shards.leader_epoch = self.shards.leader_epoch + 1
        heir.restart()
        return heir

    def log_of(self, group_id: str) -> FencingLog:
        return self.shards.logs[self.coordinator.directory.number_of(group_id)]

    # ---------------------------------------------------------------- clients

    async def join(
        self, group_id: str = "g", member_id: str = "", *, version: int = 3, session_ms: int = 30_000, **fields: object
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return await self.coordinator.classic.join_group(request, request_context(version))

    async def stable(self, group_id: str = "g", **fields: object) -> str:
        """A group with one member that has its assignment; the member's id."""
        joined = await self.join(group_id, **fields)  # type: ignore[arg-type]
        synced = await self.coordinator.classic.sync_group(
            SyncGroupRequest(
                group_id=group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
            ),
            request_context(3),
        )
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        return joined.member_id

    async def commit(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        version: int = 9,
        metadata: str | None = None,
        retention_ms: int = -1,
    ) -> dict[tuple[str, int], int]:
        """The error code of each partition."""
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name="" if version >= 10 else topic,
                    topic_id=self.topics.topics[topic].topic_id if version >= 10 else None,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        response = await self.coordinator.offsets.offset_commit(request, request_context(version))
        return {asked: answer.partitions[0].error_code for asked, answer in zip(offsets, response.topics, strict=True)}

    async def commit_in_transaction(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        *,
        producer: tuple[int, int] = (7, 0),
        member_id: str = "",
        instance_id: str | None = None,
        generation: int = -1,
        version: int = 5,
        metadata: str | None = None,
    ) -> dict[tuple[str, int], int]:
        """The error code of each partition."""
        request = TxnOffsetCommitRequest(
            transactional_id=f"id-{producer[0]}",
            group_id=group_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="" if version >= 6 else topic,
                    topic_id=self.topics.topics[topic].topic_id if version >= 6 else None,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        response = await self.coordinator.transactional_offsets.txn_offset_commit(request, request_context(version))
        return {asked: answer.partitions[0].error_code for asked, answer in zip(offsets, response.topics, strict=True)}

    async def end(
        self, group_id: str, producer: tuple[int, int] = (7, 0), *, is_commit: bool = True, coordinator_epoch: int = 0
    ) -> None:
        """Write the marker of a transaction before version 2, in the group's shard. Raises KafkaError."""
        marker = TransactionMarker(*producer, coordinator_epoch, is_commit)
        await self.coordinator.write_marker(self.coordinator.directory.number_of(group_id), marker)

    async def fetch_all(self, group_id: str, *, require_stable: bool = False) -> dict[tuple[str, int], int]:
        """All that is committed."""
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)], require_stable=require_stable
        )
        response = await self.coordinator.offsets.offset_fetch(request, request_context(8))
        assert response.groups[0].error_code == 0
        return {
            (topic.name, part.partition_index): part.committed_offset
            for topic in response.groups[0].topics
            for part in topic.partitions
        }

    async def fetch(
        self,
        group_id: str,
        topic: str,
        partition: int,
        *,
        version: int = 8,
        topic_id: UUID | None = None,
        require_stable: bool = False,
    ) -> tuple[int, int]:
        """(error code, offset) of one partition."""
        asked = OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[asked])], require_stable=require_stable
        )
        response = await self.coordinator.offsets.offset_fetch(request, request_context(version))
        group = response.groups[0]
        if group.error_code:
            return group.error_code, -1
        part = group.topics[0].partitions[0]
        return part.error_code, part.committed_offset
