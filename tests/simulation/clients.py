"""Simulated producers and consumers: small Kafka clients that retry as the real ones do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.error_codes import RETRIABLE, ErrorCode
from bmq.protocol.messages import (
    create_topics_request,
    fetch_request,
    find_coordinator_request,
    heartbeat_request,
    init_producer_id_request,
    join_group_request,
    list_offsets_request,
    offset_commit_request,
    offset_fetch_request,
    produce_request,
    sync_group_request,
)
from bmq.protocol.record_batch import batches, verify_crc
from tests.simulation.connection import ANSWER_WAIT_S, Connection, Disconnected
from tests.simulation.history import SHORTAGES, History, Violation

T = TypeVar("T")
Address = Callable[[], tuple[str, int] | None]
TOPIC = "events"
# Those that name topics by their names.
PRODUCE_VERSIONS = (3, 7, 9, 12)
FETCH_VERSIONS = (9, 11, 12)
COMMIT_VERSIONS = (5, 7, 8)
_BACK_OFF_S = 0.1
_TIME_ZERO_MS = 1_700_000_000_000


class Unhappy(Exception):
    """An answer that says: look again who is responsible, and try again."""


class OutOfRange(Unhappy):
    """The offset asked for is not in the log, says the server."""


class Client:
    """Keeps one connection to whoever serves at the moment.

    `patience_s`: how long it waits for an answer; `leaving_rate`: how often it leaves in the middle of a request instead.
    """

    def __init__(self, name: str, address: Address, rng: random.Random) -> None:
        self.name = name
        self.patience_s = ANSWER_WAIT_S
        self.leaving_rate = 0.0
        self.leave_count = 0
        self.connection_count = 0
        self.rng = rng
        self._address = address
        self._connection: Connection | None = None
        self._connected_to: tuple[str, int] | None = None

    @property
    def place(self) -> str:
        """Whom it talks to, for messages."""
        return str(self._connected_to)

    def stay(self) -> None:
        """Keep to the server it is connected to."""
        place = self._connected_to
        self._address = lambda: place

    async def connection(self) -> Connection:
        address = self._address()
        if address is None:
            raise Disconnected("nobody serves")
        if self._connection is None or self._connected_to != address:
            self.disconnect()
            self._connection = await Connection.open(*address, self.name, self.patience_s)
            self._connected_to = address
            self.connection_count += 1
        return self._connection

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def until_done(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try for ever: the simulation's time limit ends what never succeeds."""
        while True:
            try:
                return await attempt()
            except Disconnected:
                self.disconnect()
            except Unhappy:
                pass
            await asyncio.sleep(_BACK_OFF_S * self.rng.uniform(0.5, 1.5))

    async def request(self, api_key: ApiKey, version: int, message: Any) -> Any:
        return (await self.requests(api_key, version, [message]))[0]

    async def requests(self, api_key: ApiKey, version: int, messages: list[Any]) -> list[Any]:
        """Answers in order. Raises Disconnected."""
        connection = await self.connection()
        if self.leaving_rate and self.rng.random() < self.leaving_rate:
            self.leave_count += 1
            await connection.leave(api_key, version, messages[0], self.rng)
        return await connection.requests(api_key, version, messages)


def now_ms() -> int:
    """A client's wall clock."""
    return _TIME_ZERO_MS + int(asyncio.get_running_loop().time() * 1000)


def expect(code: int, *fine: ErrorCode) -> None:
    """Nothing for NONE and `fine`; Unhappy for what is worth a retry; a violation for the rest."""
    if code == ErrorCode.NONE or code in fine:
        return
    if ErrorCode(code) in RETRIABLE:
        raise Unhappy(ErrorCode(code).name)
    raise Violation(f"unexpected error {ErrorCode(code).name}")


async def create_topic(client: Client, partitions: int, configs: dict[str, str], name: str = TOPIC) -> None:
    async def attempt() -> None:
        topic = create_topics_request.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[create_topics_request.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )
        request = create_topics_request.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        answer = await client.request(ApiKey.CREATE_TOPICS, 5, request)
        if answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
            raise Unhappy("no broker lives yet")
        expect(answer.topics[0].error_code, ErrorCode.TOPIC_ALREADY_EXISTS)

    await client.until_done(attempt)


Unanswered = tuple[int, list[bytes], int]
"""(first sequence number, values, time) of a batch."""


class Producer(Client):
    """Idempotent, several requests in flight to one partition at a time."""

    def __init__(self, name: str, address: Address, rng: random.Random, history: History, partitions: int) -> None:
        super().__init__(name, address, rng)
        self.pace_s = 0.25
        self._history = history
        history.in_order.add(name)
        self._sequences = [0] * partitions
        self._count = 0
        self._producer_id = -1
        self._producer_epoch = -1

    async def run(self, batch_count: int, is_more_wanted: Callable[[], bool] = lambda: False) -> None:
        """At least so many batches, and more while they are wanted."""
        await self.until_done(self._init)
        while batch_count > 0 or is_more_wanted():
            group = self.rng.randint(1, max(1, min(4, batch_count)))
            batch_count -= group
            await self._produce(self.rng.randrange(len(self._sequences)), group)
            await asyncio.sleep(self.rng.expovariate(1 / self.pace_s))

    async def _init(self) -> None:
        answer = await self.request(
            ApiKey.INIT_PRODUCER_ID, 4, init_producer_id_request.InitProducerIdRequest(transaction_timeout_ms=1)
        )
        expect(answer.error_code)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    async def _produce(self, partition: int, group: int) -> None:
        unanswered: list[Unanswered] = []
        time_ms = now_ms()
        for _ in range(group):
            values: list[bytes] = []
            for _ in range(self.rng.randint(1, 3)):
                self._count += 1
                padding = b"." * (self.rng.choice((0, 0, 100, 20_000)) + self.rng.randrange(50))
                values.append(f"{self.name}-{self._count}:".encode() + padding)
            self._history.send(values, asyncio.get_running_loop().time())
            unanswered.append((self._sequences[partition], values, time_ms))
            self._sequences[partition] += len(values)

        async def attempt() -> None:
            await self._send(partition, unanswered)

        await self.until_done(attempt)

    async def _send(self, partition: int, unanswered: list[Unanswered]) -> None:
        """All that is not acknowledged, in order; what is acknowledged leaves the list."""
        requests = [self._request(partition, *one) for one in unanswered]
        answers = await self.requests(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), requests)
        failures: list[int] = []
        for (sequence, values, time_ms), answer in zip(tuple(unanswered), answers, strict=True):
            result = answer.responses[0].partition_responses[0]
            self._history.shortages += result.error_code in SHORTAGES
            if result.error_code == ErrorCode.NONE:
                if failures:
                    raise Violation(f"{sequence} of {self.name} was taken after an earlier batch failed: {failures}")
                self._history.acknowledge(partition, result.base_offset, values, time_ms)
                self._history.acknowledge_in_order(self.name, partition, result.base_offset)
                unanswered.remove((sequence, values, time_ms))
            elif result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and failures:
                failures.append(result.error_code)  # the one before it failed, so it had to
            else:
                expect(result.error_code) if not failures else None
                failures.append(result.error_code)
        if failures:
            raise Unhappy(str(failures))

    def _request(
        self, partition: int, sequence: int, values: list[bytes], time_ms: int
    ) -> produce_request.ProduceRequest:
        batch = encode_batch(
            [Record(None, value, timestamp_ms=time_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        data = produce_request.PartitionProduceData(index=partition, records=bytes(batch))
        topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
        return produce_request.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


async def fetched_partition(
    client: Client, partition: int, offset: int, max_wait_ms: int, *, leader_epoch: int = -1
) -> Any:
    """The answer for one partition: its batches from `offset` on. Raises Disconnected, Unhappy."""
    wanted = fetch_request.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=200_000, current_leader_epoch=leader_epoch
    )
    request = fetch_request.FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[fetch_request.FetchTopic(topic=TOPIC, partitions=[wanted])]
    )
    answer = await client.request(ApiKey.FETCH, client.rng.choice(FETCH_VERSIONS), request)
    expect(answer.error_code)
    data = answer.responses[0].partitions[0]
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OutOfRange(f"{offset} of {partition}")
    expect(data.error_code)
    return data


async def fetch(
    client: Client, history: History, partition: int, offset: int, max_wait_ms: int, *, leader_epoch: int = -1
) -> list[tuple[int, bytes]]:
    """Records from `offset` on, which the history has taken note of. Raises Disconnected, Unhappy.

    `leader_epoch`: the one the client believes in; -1: none.
    """
    data = await fetched_partition(client, partition, offset, max_wait_ms, leader_epoch=leader_epoch)
    found = []
    for position, header in batches(data.records or b""):
        verify_crc(data.records, position, header)
        for record in decode_records(data.records, position):
            if record.offset >= offset:
                value = record.value or b""
                found.append((record.offset, value))
                history.consume(partition, record.offset, value, header.leader_epoch)
    if found and found[-1][0] >= data.high_watermark:
        raise Violation(f"offset {found[-1][0]} was served though the high watermark is {data.high_watermark}")
    if (offsets := [place for place, _ in found]) != list(range(offset, offset + len(found))):
        raise Violation(f"{client.place} answered {offset} of {partition} with the records {offsets}")
    history.hear_high_watermark(partition, data.high_watermark, asyncio.get_running_loop().time())
    return found


async def find_coordinator(client: Client, key: str, key_type: int) -> None:
    """As real clients do first; where the coordinator is does not matter here, anybody passes requests on.

    Raises Disconnected, Unhappy.
    """
    request = find_coordinator_request.FindCoordinatorRequest(key=key, key_type=key_type)
    expect((await client.request(ApiKey.FIND_COORDINATOR, 3, request)).error_code)


LATEST, EARLIEST = -1, -2
GROUP_KEY, TRANSACTION_KEY = 0, 1


async def listed_offset(client: Client, partition: int, timestamp: int, *, leader_epoch: int = -1) -> int:
    """The high watermark (LATEST), the log's start (EARLIEST), or the first offset at or past a time, -1 for none.

    Raises Disconnected, Unhappy.
    """
    wanted = list_offsets_request.ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch
    )
    topic = list_offsets_request.ListOffsetsTopic(name=TOPIC, partitions=[wanted])
    answer = await client.request(
        ApiKey.LIST_OFFSETS, 5, list_offsets_request.ListOffsetsRequest(replica_id=-1, topics=[topic])
    )
    expect(answer.topics[0].partitions[0].error_code)
    return int(answer.topics[0].partitions[0].offset)


async def committed_offset(client: Client, group: str, partition: int) -> int:
    """0 before the first commit. Raises Disconnected, Unhappy."""
    topic = offset_fetch_request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[partition])
    answer = await client.request(
        ApiKey.OFFSET_FETCH, 5, offset_fetch_request.OffsetFetchRequest(group_id=group, topics=[topic])
    )
    expect(answer.error_code)
    expect(answer.topics[0].partitions[0].error_code)
    return max(0, int(answer.topics[0].partitions[0].committed_offset))


class Consumer(Client):
    """A member of a classic group: joins, reads what it is assigned, commits, starts again when told to."""

    GROUP = "readers"

    def __init__(self, name: str, address: Address, rng: random.Random, history: History, partitions: int) -> None:
        super().__init__(name, address, rng)
        self.session_timeout_ms = 6_000
        self._history = history
        self._partitions = partitions
        self._member_id = ""
        self._generation = -1
        self._mine: list[int] = []
        self._positions: dict[int, int] = {}

    async def run(self) -> None:
        await self.until_done(self._find)
        while True:
            await self.until_done(self._join)
            await self.until_done(self._fetch_positions)
            await self.until_done(self._read_until_rebalance)

    async def _find(self) -> None:
        await find_coordinator(self, self.GROUP, GROUP_KEY)

    async def _join(self) -> None:
        join = join_group_request.JoinGroupRequest(
            group_id=self.GROUP,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.session_timeout_ms,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[join_group_request.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        known_generation = self._history.generation
        joined = await self.request(ApiKey.JOIN_GROUP, 5, join)
        if joined.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.MEMBER_ID_REQUIRED):
            self._member_id = joined.member_id if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED else ""
            raise Unhappy("join again")
        if joined.error_code == ErrorCode.REBALANCE_IN_PROGRESS:  # a later copy of this request waits in its place
            raise Unhappy("join again")
        expect(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments = []
        if joined.leader == joined.member_id:
            members = sorted(member.member_id for member in joined.members)
            assignments = [
                sync_group_request.SyncGroupRequestAssignment(
                    member_id=member, assignment=bytes(range(self._partitions)[n :: len(members)])
                )
                for n, member in enumerate(members)
            ]
        sync = sync_group_request.SyncGroupRequest(
            group_id=self.GROUP,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=assignments,
        )
        synced = await self.request(ApiKey.SYNC_GROUP, 3, sync)
        self._expect_member(synced.error_code)
        self._mine = list(synced.assignment)
        self._history.begin_generation(self._generation, self._member_id, self._mine, known_generation)

    def _expect_member(self, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self._mine = []
            raise Unhappy(ErrorCode(code).name)
        expect(code)

    async def _fetch_positions(self) -> None:
        known = {partition: self._history.committed[partition] for partition in self._mine}
        topic = offset_fetch_request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=self._mine)
        answer = await self.request(
            ApiKey.OFFSET_FETCH, 5, offset_fetch_request.OffsetFetchRequest(group_id=self.GROUP, topics=[topic])
        )
        expect(answer.error_code)
        self._positions = {}
        for data in answer.topics[0].partitions if self._mine else ():
            expect(data.error_code)
            offset = max(data.committed_offset, 0)
            self._history.fetched_commit(data.partition_index, offset, known[data.partition_index])
            self._positions[data.partition_index] = offset

    async def _read_until_rebalance(self) -> None:
        """Returns when the group has to be joined again."""
        while True:
            try:
                await self._heartbeat()
            except Unhappy:
                return
            for partition in self._mine:
                await self._read(partition)
            try:
                await self._commit()
            except Unhappy:
                return
            await asyncio.sleep(self.rng.uniform(0.05, 0.3))

    async def _read(self, partition: int) -> None:
        position = self._positions[partition]
        try:
            found = await fetch(self, self._history, partition, position, 100)
        except OutOfRange as error:
            if position >= self._history.starts_wanted[partition]:
                raise Violation(f"{self.place} calls {position} of {partition} out of range") from error
            self._positions[partition] = max(position, await listed_offset(self, partition, EARLIEST))
            return
        self._positions[partition] += len(found)

    async def _heartbeat(self) -> None:
        request = heartbeat_request.HeartbeatRequest(
            group_id=self.GROUP, generation_id=self._generation, member_id=self._member_id
        )
        self._expect_member((await self.request(ApiKey.HEARTBEAT, 3, request)).error_code)

    async def _commit(self) -> None:
        partitions = [
            offset_commit_request.OffsetCommitRequestPartition(partition_index=p, committed_offset=self._positions[p])
            for p in self._mine
        ]
        request = offset_commit_request.OffsetCommitRequest(
            group_id=self.GROUP,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        for partition in self._mine:
            self._history.try_commit(partition, self._positions[partition])
        answer = await self.request(ApiKey.OFFSET_COMMIT, self.rng.choice(COMMIT_VERSIONS), request)
        for data in answer.topics[0].partitions if self._mine else ():
            self._expect_member(data.error_code)
            self._history.commit(data.partition_index, self._positions[data.partition_index])
