"""Clients of a topic with lanes: producers, readers of the base group, and members of lanes' groups who come and go."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    fetch_request,
    heartbeat_request,
    incremental_alter_configs_request,
    init_producer_id_request,
    join_group_request,
    leave_group_request,
    offset_commit_request,
    produce_request,
    sync_group_request,
)
from bmq.protocol.record_batch import batches, verify_crc
from tests.simulation.clients import PRODUCE_VERSIONS, TOPIC, Address, Client, Unhappy, committed_offset, expect, now_ms
from tests.simulation.connection import Disconnected
from tests.simulation.history import Violation
from tests.simulation.lane_history import LaneHistory, Spot
from tests.support.shown_records import shown_records

GROUP = "readers"
COPIES = f"{TOPIC}.retry.{GROUP}"
LANES = ("blue", "red")
FETCH_VERSIONS = (11, 12)
_SESSION_MS = 6_000
_REFUSALS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)
_CODECS = (Compression.NONE, Compression.NONE, Compression.LZ4)


async def enable_lanes(client: Client, grace_ms: int) -> None:
    """However often that has to be tried."""
    configs = {"bmq.lane.enable": "true", "bmq.lane.grace.ms": str(grace_ms)}
    altered = [
        incremental_alter_configs_request.AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in configs.items()
    ]
    resource = incremental_alter_configs_request.AlterConfigsResource(
        resource_type=32, resource_name=GROUP, configs=altered
    )
    request = incremental_alter_configs_request.IncrementalAlterConfigsRequest(resources=[resource])

    async def attempt() -> None:
        answer = await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        expect(answer.responses[0].error_code)

    await client.until_done(attempt)


async def read(client: Client, topic: str, partition: int, offset: int, wait_ms: int) -> tuple[list[Record], int]:
    """Records from `offset` on, with their offsets, and where the next ones are. Raises Disconnected, Unhappy."""
    wanted = fetch_request.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=20_000)
    request = fetch_request.FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[fetch_request.FetchTopic(topic=topic, partitions=[wanted])]
    )
    answer = await client.request(ApiKey.FETCH, client.rng.choice(FETCH_VERSIONS), request)
    expect(answer.error_code)
    data = answer.responses[0].partitions[0]
    expect(data.error_code)
    found: list[Record] = []
    end = offset
    for position, header in batches(data.records or b""):
        verify_crc(data.records, position, header)
        if header.end_offset > data.high_watermark:
            raise Violation(f"{client.name} read {header} at {end} of {partition} below {data.high_watermark}")
        end = header.end_offset
        found += [record for record in shown_records(data.records, position) if record.offset >= offset]
    return found, end


class Produced(Protocol):
    """Takes note of what is produced."""

    def send(self, lane: str, values: Iterable[bytes]) -> None: ...

    def acknowledge(self, partition: int, base_offset: int, values: Sequence[bytes]) -> None: ...


class LaneProducer(Client):
    """Idempotent, one batch after the other; records of lanes and others are in one batch."""

    def __init__(self, name: str, address: Address, rng: random.Random, history: Produced, partitions: int) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._sequences = [0] * partitions
        self._count = 0
        self.batch_count = 0

    async def run(self, count: int, pace_s: float) -> None:
        self._producer_id, self._epoch = await self.until_done(self._init)
        for _ in range(count):
            await self.produce(self.rng.randrange(len(self._sequences)))
            await asyncio.sleep(self.rng.expovariate(1 / pace_s))

    async def _init(self) -> tuple[int, int]:
        request = init_producer_id_request.InitProducerIdRequest(transaction_timeout_ms=1)
        answer = await self.request(ApiKey.INIT_PRODUCER_ID, 4, request)
        expect(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def _records(self) -> list[Record]:
        """Of the next batch."""
        return [self._record(self.rng.choice(("", *LANES))) for _ in range(self.rng.randint(1, 5))]

    def _record(self, lane: str, padding: bytes = b"") -> Record:
        self._count += 1
        value = f"{self.name}-{self._count}".encode() + padding
        self._history.send(lane, [value])
        headers = (("x-lane", lane.encode()),) if lane else ()
        return Record(None, value, headers, timestamp_ms=now_ms())

    async def produce(self, partition: int) -> None:
        records = self._records()
        batch = encode_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[partition],
            compression=self.rng.choice(_CODECS),
        )
        self._sequences[partition] += len(records)
        data = produce_request.PartitionProduceData(index=partition, records=bytes(batch))
        topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])

        async def attempt() -> int:
            answer = await self.request(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), request)
            result = answer.responses[0].partition_responses[0]
            expect(result.error_code)
            return int(result.base_offset)

        base_offset = await self.until_done(attempt)
        self.batch_count += 1
        self._history.acknowledge(partition, base_offset, [record.value or b"" for record in records])


class BaseReader(Client):
    """Reads a partition with the mark of the base group; now and then from its start again."""

    def __init__(self, name: str, address: Address, rng: random.Random, history: LaneHistory, partition: int) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._partition = partition
        self.position = 0

    async def run(self) -> None:
        while True:
            await self.until_done(self.step)
            if self.rng.random() < 0.01:
                self.position = 0

    async def step(self) -> None:
        found, end = await read(self, TOPIC, self._partition, self.position, 300)
        seen = {record.offset: record.value or b"" for record in found}
        self._history.base_read(self._partition, range(self.position, end), seen)
        self.position = end


class CopyReader(Client):
    """Reads the topic of copies from its start on."""

    def __init__(self, name: str, address: Address, rng: random.Random, history: LaneHistory) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._position = 0

    async def run(self) -> None:
        while True:
            await self.until_done(self._step)

    async def _step(self) -> None:
        found, self._position = await read(self, COPIES, 0, self._position, 300)
        for record in found:
            headers = dict(record.headers)
            if headers["bmq-lane-topic"] != TOPIC.encode():
                raise Violation(f"a copy of {headers}")
            spot = int(headers["bmq-lane-partition"] or b""), int(headers["bmq-lane-offset"] or b"")
            self._history.copy(spot, record.value or b"")


class LaneMember(Client):
    """The only member of a lane's group, who comes, reads, commits what it likes to, and leaves or hangs up."""

    def __init__(
        self, name: str, address: Address, rng: random.Random, history: LaneHistory, lane: str, partitions: int
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._lane = lane
        self._group = f"{GROUP}@{lane}"
        self._partitions = partitions
        self._member_id = ""
        self._generation = -1
        self._positions: list[int] = []
        self._given: dict[int, set[Spot]] = defaultdict(set)  # seen and not committed, by partition
        self._doubted: set[Spot] = set()
        self.stays = 0

    async def run(self, stays: int) -> None:
        for _ in range(stays):
            await self.until_done(self._join)
            self.stays += 1
            await self._stay(self.rng.randint(1, 12))
            await self._leave()
            await asyncio.sleep(self.rng.choice((0.0, 0.5, 3.0)))

    async def _join(self) -> None:
        request = join_group_request.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[join_group_request.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = await self.request(ApiKey.JOIN_GROUP, 5, request)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise Unhappy("join with this id")
        self._expect_member(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        given = sync_group_request.SyncGroupRequestAssignment(member_id=self._member_id, assignment=b"all")
        sync = sync_group_request.SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=[given] if joined.leader == self._member_id else [],
        )
        self._expect_member((await self.request(ApiKey.SYNC_GROUP, 3, sync)).error_code)
        self._given.clear()
        self._doubted.clear()
        self._positions = [await committed_offset(self, self._group, n) for n in range(self._partitions)]

    def _expect_member(self, code: int) -> None:
        if code in _REFUSALS:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            raise Unhappy(ErrorCode(code).name)
        expect(code)

    async def _stay(self, rounds: int) -> None:
        """Ends early when it is no member of this generation any more."""
        for _ in range(rounds):
            try:
                await self._heartbeat()
                for number in range(self._partitions):
                    await self._read(number)
                if self.rng.random() < 0.6:
                    for number in range(self._partitions):
                        if not await self._commit(number):
                            return
            except Unhappy:
                if not self._member_id:
                    return
            except Disconnected:
                self.disconnect()
            await asyncio.sleep(self.rng.uniform(0.0, 0.4))

    async def _heartbeat(self) -> None:
        request = heartbeat_request.HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        self._expect_member((await self.request(ApiKey.HEARTBEAT, 3, request)).error_code)

    async def _read(self, number: int) -> None:
        found, end = await read(self, TOPIC, number, self._positions[number], 20)
        self._history.lane_read(self._lane, number, {record.offset: record.value or b"" for record in found})
        self._given[number].update((number, record.offset) for record in found)
        self._positions[number] = end

    async def _commit(self, number: int) -> bool:
        """False: refused. An answer that is lost leaves the commit in doubt. Raises Disconnected, Unhappy."""
        part = offset_commit_request.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=self._positions[number]
        )
        request = offset_commit_request.OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
        )
        spots = set(self._given[number])
        self._history.committing(spots)
        try:
            answer = await self.request(ApiKey.OFFSET_COMMIT, 7, request)
        except Disconnected:
            self._doubted |= spots
            raise
        code = answer.topics[0].partitions[0].error_code
        if code in _REFUSALS:
            self._history.refused(spots, self._doubted)
            self._expect_member(code) if code == ErrorCode.REBALANCE_IN_PROGRESS else None
            return False
        if code != ErrorCode.NONE:
            self._doubted |= spots
        expect(code)
        self._history.committed(self._member_id, spots)
        self._given[number] -= spots
        return True

    async def _leave(self) -> None:
        """In good order, or without a word."""
        if not self._member_id or self.rng.random() < 0.2:
            self.disconnect()
            self._member_id = ""
            return
        leaving = leave_group_request.MemberIdentity(member_id=self._member_id)
        request = leave_group_request.LeaveGroupRequest(group_id=self._group, members=[leaving])
        try:
            await self.request(ApiKey.LEAVE_GROUP, 3, request)
        except Disconnected:
            self.disconnect()
        self._member_id = ""
