"""Shards of share partitions' state in memory, a dict entry for each record: what a proxy's share fetches are tested on."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field
from uuid import UUID

from bmq.log.partition_log import TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.share_state_messages import (
    RECORD_LIMIT,
    AcknowledgePartition,
    AckType,
    AcquiredPartition,
    AcquiredRange,
    AcquirePartition,
    AvailablePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcquireRequest,
    ShareAcquireResponse,
    ShareReleaseRequest,
    ShareReleaseResponse,
    ShareWaitRequest,
    ShareWaitResponse,
    StatePart,
)

AVAILABLE, LOCKED, DONE = "available", "locked", "done"


@dataclass
class Record:
    state: str = AVAILABLE
    count: int = 0
    member: str = ""
    session: int = 0


@dataclass
class SharePartition:
    """`start_offset` -1: none yet. `end`: follows the last record that was ever given."""

    start_offset: int = -1
    end: int = -1
    version: int = 1
    records: dict[int, Record] = field(default_factory=dict)
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def locked(self) -> list[int]:
        return sorted(offset for offset, record in self.records.items() if record.state == LOCKED)

    def next_offset(self, locks_max: int) -> int:
        if len(self.locked) >= locks_max:
            return -1
        available = [offset for offset, record in self.records.items() if record.state == AVAILABLE]
        return min([*available, self.end])

    def more(self) -> None:
        self.version += 1
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()


class FakeShareStates:
    """Implements bmq.proxy.share.states.ShareStates. Attributes a test may set:

    `locks_max`: records that may be locked in a partition. `refuse_with`: the code of every part from now on. `gate`: each
    acquisition is carried out once it is set. `is_here`: the shards are in the proxy's process. `acquires`, `releases`, `waits`: the requests, in order. `order`: which of
    the first two came.
    """

    def __init__(self) -> None:
        self.partitions: dict[tuple[str, TopicPartition], SharePartition] = {}
        self.locks_max = 2_000
        self.refuse_with = ErrorCode.NONE
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_here = False
        self.acquires: list[ShareAcquireRequest] = []
        self.acknowledges: list[ShareAcknowledgeRequest] = []
        self.releases: list[ShareReleaseRequest] = []
        self.waits: list[ShareWaitRequest] = []
        self.order: list[str] = []

    def of(self, group_id: str, topic_id: UUID, partition: int) -> SharePartition:
        return self.partitions.setdefault((group_id, TopicPartition(topic_id, partition)), SharePartition())

    def here(self, request: ShareAcquireRequest) -> FakeShareStates | None:
        return self if self.is_here else None

    def place_of(self, group_id: str, topic_partition: TopicPartition) -> Hashable:
        return 0

    async def acquire(self, request: ShareAcquireRequest) -> ShareAcquireResponse:
        self.acquires.append(request)
        self.order.append("acquire")
        await self.gate.wait()
        await asyncio.sleep(0)
        return ShareAcquireResponse(partitions=[self._acquire(request, one) for one in request.partitions])

    def _acquire(self, request: ShareAcquireRequest, asked: AcquirePartition) -> AcquiredPartition:
        answer = AcquiredPartition(topic_id=asked.topic_id, partition=asked.partition, lock_timeout_ms=30_000)
        if self.refuse_with:
            answer.error_code = self.refuse_with
            return answer
        state = self.of(request.group_id, asked.topic_id, asked.partition)
        if state.start_offset < 0 <= asked.reset_offset:
            state.start_offset = state.end = asked.reset_offset
        if state.start_offset >= 0:
            if asked.batches:
                answer.ranges = self._give(request, asked, state)
            answer.start_offset = state.start_offset
            answer.next_offset = state.next_offset(self.locks_max)
        answer.version = state.version
        return answer

    def _give(
        self, request: ShareAcquireRequest, asked: AcquirePartition, state: SharePartition
    ) -> list[AcquiredRange]:
        last = asked.batches[-1].last
        for one in asked.archive:
            for offset in range(max(one.first, state.start_offset), one.last + 1):
                record = state.records.setdefault(offset, Record())
                if record.state == AVAILABLE:
                    record.state = DONE
                state.end = max(state.end, offset + 1)
        given: list[int] = []
        for batch in asked.batches:
            if len(given) >= asked.records_max:
                break
            for offset in range(max(batch.first, state.start_offset), batch.last + 1):
                if request.mode == RECORD_LIMIT and len(given) >= asked.records_max:
                    break
                if len(state.locked) >= self.locks_max:
                    break
                record = state.records.setdefault(offset, Record())
                state.end = max(state.end, offset + 1)
                if record.state == AVAILABLE:
                    record.state, record.member, record.session = LOCKED, request.member_id, request.session
                    record.count += 1
                    given.append(offset)
        assert all(offset <= last for offset in given)
        ranges: list[AcquiredRange] = []
        for offset in given:
            count = state.records[offset].count
            if ranges and ranges[-1].last == offset - 1 and ranges[-1].delivery_count == count:
                ranges[-1].last = offset
            else:
                ranges.append(AcquiredRange(first=offset, last=offset, delivery_count=count))
        return ranges

    async def acknowledge(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
        self.acknowledges.append(request)
        self.order.append("acknowledge")
        await asyncio.sleep(0)
        return ShareAcknowledgeResponse(
            partitions=[
                StatePart(
                    topic_id=one.topic_id,
                    partition=one.partition,
                    error_code=self.refuse_with or self._acknowledge(request, one),
                )
                for one in request.partitions
            ]
        )

    def _acknowledge(self, request: ShareAcknowledgeRequest, asked: AcknowledgePartition) -> ErrorCode:
        state = self.of(request.group_id, asked.topic_id, asked.partition)
        kinds: dict[int, int] = {}
        for batch in asked.batches:
            if batch.last >= state.end:
                return ErrorCode.OFFSET_OUT_OF_RANGE if state.records else ErrorCode.INVALID_RECORD_STATE
            for offset in range(batch.first, batch.last + 1):
                kinds[offset] = batch.types[0 if len(batch.types) == 1 else offset - batch.first]
        records = state.records
        if any(
            offset not in records or records[offset].state != LOCKED or records[offset].member != request.member_id
            for offset in kinds
        ):
            return ErrorCode.INVALID_RECORD_STATE
        for offset, kind in kinds.items():
            if kind == AckType.RELEASE:
                records[offset].state = AVAILABLE
            elif kind != AckType.RENEW:
                records[offset].state = DONE
        state.more()
        return ErrorCode.NONE

    async def release(self, request: ShareReleaseRequest) -> ShareReleaseResponse:
        self.releases.append(request)
        await asyncio.sleep(0)
        for one in request.partitions:
            state = self.of(request.group_id, one.topic_id, one.partition)
            for record in state.records.values():
                if record.state == LOCKED and record.member == request.member_id and record.session <= request.session:
                    record.state = AVAILABLE
            state.more()
        return ShareReleaseResponse(
            partitions=[
                StatePart(topic_id=one.topic_id, partition=one.partition, error_code=self.refuse_with)
                for one in request.partitions
            ]
        )

    async def wait(self, request: ShareWaitRequest) -> ShareWaitResponse:
        self.waits.append(request)
        states = [(one, self.of(one.group_id, one.topic_id, one.partition)) for one in request.partitions]
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + request.max_wait_ms / 1000
        while not any(state.version > one.version for one, state in states):
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                break
            moves = [asyncio.ensure_future(state.moved.wait()) for _, state in states]
            try:
                await asyncio.wait(moves, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for move in moves:
                    move.cancel()
        return ShareWaitResponse(
            partitions=[
                AvailablePartition(
                    group_id=one.group_id, topic_id=one.topic_id, partition=one.partition, version=state.version
                )
                for one, state in states
                if state.version > one.version
            ]
        )
