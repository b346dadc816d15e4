"""Coordinators of share partitions' state over logs in memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from bmq.coordinator.config import ShareConfig
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.share_state.coordinator import ShareStateCoordinator
from bmq.coordinator.share_state.dead_letters import DeadLetterWriter
from bmq.coordinator.topics import SHARE_STATE_TOPIC
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.request_context import by_itself
from bmq.protocol.share_state_messages import (
    AcknowledgedBatch,
    AcknowledgePartition,
    AcquiredPartition,
    AcquirePartition,
    AvailablePartition,
    InitializePartition,
    NamedPartition,
    OffsetRange,
    PartitionSummary,
    ShareAcknowledgeRequest,
    ShareAcquireRequest,
    ShareDeleteRequest,
    ShareInitializeRequest,
    ShareReleaseRequest,
    ShareSummaryRequest,
    ShareWaitRequest,
    WaitPartition,
    state_key,
)
from tests.fakes.clock import FakeClock
from tests.unit.coordinator.cluster import FakeShards, FakeTopics, FencingLog, OwnedLog

TOPIC = UUID(int=77)
BATCHES = [(first, first + 9) for first in range(0, 100, 10)]


class StateShards(FakeShards):
    """Partitions of `__share_group_state`."""

    async def open(self, shard: int, *, is_awaited: bool) -> ReplayableLog:
        self.opened.append(shard)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        topic_id = self._topics.topics[SHARE_STATE_TOPIC].topic_id
        if shard not in self.logs:
            self.logs[shard] = FencingLog(TopicPartition(topic_id, shard))
        if self.logs[shard].leader_epoch > self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is fenced")
        return cast(ReplayableLog, OwnedLog(self.logs[shard], self.leader_epoch))


class States:
    """A process that owns all shards. `gone`: incarnations of proxies that have ended. `letters`: writes dead letters."""

    def __init__(self, before: States | None = None, letters: DeadLetterWriter | None = None, **config: int) -> None:
        self.letters: DeadLetterWriter | None = before.letters if letters is None and before is not None else letters
        self.clock: FakeClock = FakeClock() if before is None else before.clock
        self.topics: FakeTopics = FakeTopics() if before is None else before.topics
        self.topics.add(SHARE_STATE_TOPIC, 998)
        self.shards = StateShards(self.topics, 4)
        self.gone: set[tuple[int, int]] = set() if before is None else before.gone
        if before is not None:
            self.shards.logs = before.shards.logs
            self.shards.leader_epoch = before.shards.leader_epoch + 1
        self.share_config = ShareConfig(min_record_lock_duration_ms=1_000)
        self.coordinator = ShareStateCoordinator(
            self.shards,
            self.clock,
            ShareStateConfig(**config),
            lambda: self.topics,
            lambda: self.share_config,
            lambda node_id, node_epoch: (node_id, node_epoch) in self.gone,
            self.letters,
        )

    def take_over(self) -> States:
        """Another process over the same logs, at the next leader epoch."""
        return States(self)

    def log(self, group_id: str = "g", partition: int = 0) -> FencingLog:
        return self.shards.logs[self.coordinator.directory.number_of(state_key(group_id, TOPIC, partition))]

    async def _call(self, api_key: ApiKey, request: Any) -> Any:
        answer = await self.coordinator.handle(api_key, request, by_itself(api_key))
        (part,) = answer.partitions
        return part

    async def initialize(self, *, epoch: int = 1, start: int = -1, group_id: str = "g", partition: int = 0) -> int:
        part = InitializePartition(topic_id=TOPIC, partition=partition, start_offset=start)
        request = ShareInitializeRequest(group_id=group_id, state_epoch=epoch, partitions=[part])
        answer = await self._call(ApiKey.SHARE_INITIALIZE, request)
        return cast(int, answer.error_code)

    async def acquire(
        self,
        member_id: str = "a",
        records_max: int = 10,
        *,
        batches: Sequence[tuple[int, int]] = BATCHES,
        archive: Sequence[tuple[int, int]] = (),
        node: tuple[int, int] = (1, 1),
        session: int = 1,
        group_id: str = "g",
        partition: int = 0,
        hashes: Sequence[int] = (),
        **fields: int,
    ) -> AcquiredPartition:
        part = AcquirePartition(
            topic_id=TOPIC,
            partition=partition,
            records_max=records_max,
            batch_size=1_000,
            batches=[OffsetRange(first=first, last=last) for first, last in batches],
            archive=[OffsetRange(first=first, last=last) for first, last in archive],
            hash_offset=batches[0][0] if hashes else -1,
            key_hashes=struct.pack(f"<{len(hashes)}H", *hashes),
            **fields,
        )
        request = ShareAcquireRequest(
            group_id=group_id,
            member_id=member_id,
            node_id=node[0],
            node_epoch=node[1],
            session=session,
            partitions=[part],
        )
        return cast(AcquiredPartition, await self._call(ApiKey.SHARE_ACQUIRE, request))

    async def acknowledge(
        self, member_id: str, *acks: tuple[int, int, int], group_id: str = "g", partition: int = 0
    ) -> int:
        batches = [AcknowledgedBatch(first=first, last=last, types=[kind]) for first, last, kind in acks]
        part = AcknowledgePartition(topic_id=TOPIC, partition=partition, batches=batches)
        request = ShareAcknowledgeRequest(group_id=group_id, member_id=member_id, partitions=[part])
        return cast(int, (await self._call(ApiKey.SHARE_ACKNOWLEDGE_STATE, request)).error_code)

    async def release(self, member_id: str, *, node: tuple[int, int] = (1, 1), session: int = 1) -> int:
        request = ShareReleaseRequest(
            group_id="g",
            member_id=member_id,
            node_id=node[0],
            node_epoch=node[1],
            session=session,
            partitions=[NamedPartition(topic_id=TOPIC, partition=0)],
        )
        return cast(int, (await self._call(ApiKey.SHARE_RELEASE, request)).error_code)

    async def wait(self, version: int, max_wait_ms: int = 10_000) -> list[AvailablePartition]:
        part = WaitPartition(group_id="g", topic_id=TOPIC, partition=0, version=version)
        request = ShareWaitRequest(max_wait_ms=max_wait_ms, partitions=[part])
        answer = await self.coordinator.handle(ApiKey.SHARE_WAIT, request, by_itself(ApiKey.SHARE_WAIT))
        return list(answer.partitions)

    async def summary(self) -> PartitionSummary:
        request = ShareSummaryRequest(group_id="g", partitions=[NamedPartition(topic_id=TOPIC, partition=0)])
        return cast(PartitionSummary, await self._call(ApiKey.SHARE_SUMMARY, request))

    async def delete(self) -> int:
        request = ShareDeleteRequest(group_id="g", partitions=[NamedPartition(topic_id=TOPIC, partition=0)])
        return cast(int, (await self._call(ApiKey.SHARE_DELETE, request)).error_code)


def ranges(answer: AcquiredPartition) -> list[tuple[int, int, int]]:
    """What was given: first, last, delivery count."""
    assert answer.error_code == 0, answer.error_message
    return [(one.first, one.last, one.delivery_count) for one in answer.ranges]
