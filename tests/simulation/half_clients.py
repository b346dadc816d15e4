"""Clients of a topic with half messages: producers that hold and decide them, the one that answers checks, and readers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from bmq.log.half.half_headers import COMMIT, ROLLBACK, Outcome
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import init_producer_id_request, produce_request
from tests.simulation.clients import PRODUCE_VERSIONS, TOPIC, Address, Client, OutOfRange, Unhappy, expect, now_ms
from tests.simulation.connection import Disconnected
from tests.simulation.dead_letters import read_records
from tests.simulation.delay_clients import read_batches
from tests.simulation.half_history import HalfHistory, HalfSeen, Kind, Name, check_id_of
from tests.simulation.history import SHORTAGES, Violation

_CODECS = (Compression.NONE, Compression.NONE, Compression.LZ4)
_NAMES = {Outcome.COMMIT: COMMIT.decode(), Outcome.ROLLBACK: ROLLBACK.decode()}


class NumberedProducer(Client):
    """Idempotent, one batch at a time, which is sent again until it is taken or refused for its records."""

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        history: HalfHistory,
        heard: Callable[[list[bytes]], None],
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._heard = heard
        self._sequences: dict[int, int] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self.shortages = 0
        self.batch_count = 0

    async def _init(self) -> None:
        request = init_producer_id_request.InitProducerIdRequest(transaction_timeout_ms=1)
        answer = await self.request(ApiKey.INIT_PRODUCER_ID, 4, request)
        expect(answer.error_code)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    async def decide(self, name: Name, outcome: Outcome, *beside: tuple[Record, Kind]) -> None:
        """By a record, with others in its batch."""
        partition, offset = name
        self._history.deciding(name, outcome)
        decision = Record(None, None, ((_NAMES[outcome], b"%d" % offset),), timestamp_ms=now_ms())
        if await self._send(partition, (decision, None), *beside) is None:
            self._history.refuse(name, outcome)
        else:
            self._history.decide(name, outcome)

    async def _send(self, partition: int, *records: tuple[Record, Kind | None]) -> int | None:
        """The offset of the first one; None: one of them was refused, and so all."""
        if self._producer_id < 0:
            await self.until_done(self._init)
        sent = [(record.value or b"", kind) for record, kind in records if kind is not None]
        self._history.send(sent)
        sequence = self._sequences.get(partition, 0)
        batch = encode_batch(
            [record for record, _ in records],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
            compression=self.rng.choice(_CODECS),
        )
        data = produce_request.PartitionProduceData(index=partition, records=bytes(batch))
        topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])

        async def attempt() -> int | None:
            answer = await self.request(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), request)
            result = answer.responses[0].partition_responses[0]
            self.shortages += result.error_code in SHORTAGES
            expect(result.error_code, ErrorCode.INVALID_RECORD)
            return None if result.error_code == ErrorCode.INVALID_RECORD else int(result.base_offset)

        base_offset = await self.until_done(attempt)
        if base_offset is None:
            self._history.withdraw(value for value, _ in sent)
            return None
        self._sequences[partition] = sequence + len(records)
        self.batch_count += 1
        self._history.acknowledge(partition, base_offset, [record.value or b"" for record, _ in records])
        if sent:
            self._heard([value for value, _ in sent])
        return base_offset


@dataclass(frozen=True, slots=True)
class HalfHabits:
    """Of a seed. `delay_ms`: of delayed records; 0: there are none. `wait_s`: from a half message to its producer's decision."""

    delay_ms: int
    wait_s: float
    pace_s: float


class HalfProducer(NumberedProducer):
    """Holds half messages, and decides most of them a while later: as the database says, or, rarely, against it."""

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        history: HalfHistory,
        heard: Callable[[list[bytes]], None],
        habits: HalfHabits,
        database: dict[bytes, Outcome],
        partitions: int,
    ) -> None:
        super().__init__(name, address, rng, history, heard)
        self._habits = habits
        self._database = database
        self._partitions = partitions
        self._count = 0
        self._waiting: list[tuple[float, Name, Outcome]] = []

    async def run(self, batch_count: int, is_more_wanted: Callable[[], bool]) -> None:
        """At least so many batches, and more while they are wanted; then it decides what it has to."""
        while batch_count > 0 or is_more_wanted():
            batch_count -= 1
            await self._hold()
            await self._decide(asyncio.get_running_loop().time())
            await asyncio.sleep(self.rng.expovariate(1 / self._habits.pace_s))
        await self._decide(float("inf"))

    async def _hold(self) -> None:
        partition = self.rng.randrange(self._partitions)
        records = [self._next() for _ in range(self.rng.randint(1, 3))]
        base_offset = await self._send(partition, *records)
        if base_offset is None:
            raise Violation(f"a batch of {self.name} was refused for one of its records")
        for offset, (record, kind) in enumerate(records, base_offset):
            if kind is Kind.HALF:
                self._plan((partition, offset), record.value or b"")

    def _next(self) -> tuple[Record, Kind]:
        self._count += 1
        value = f"{self.name}-{self._count}:".encode() + b"." * self.rng.choice((0, 0, 50, 3_000))
        chance = self.rng.random()
        if self._habits.delay_ms and chance < 0.25:
            wait_ms = self.rng.randrange(100, self._habits.delay_ms)  # small numbers are levels
            return Record(None, value, (("bmq-deliver-after", b"%d" % wait_ms),), timestamp_ms=now_ms()), Kind.DELAYED
        if chance < 0.4:
            return Record(None, value, timestamp_ms=now_ms()), Kind.PLAIN
        return Record(None, value, (("bmq-half", check_id_of(value)),), timestamp_ms=now_ms()), Kind.HALF

    def _plan(self, name: Name, value: bytes) -> None:
        right = self.rng.choice((Outcome.COMMIT, Outcome.COMMIT, Outcome.ROLLBACK))
        wrong = Outcome.ROLLBACK if right is Outcome.COMMIT else Outcome.COMMIT
        chance = self.rng.random()
        if chance < 0.1:
            return  # nobody knows of it
        self._history.to_be_decided.add(value)
        if chance < 0.6:
            self._database[check_id_of(value)] = right
        if chance < 0.4 or chance >= 0.6:
            at_s = asyncio.get_running_loop().time() + self.rng.expovariate(1 / self._habits.wait_s)
            self._waiting.append((at_s, name, wrong if chance < 0.2 else right))

    async def _decide(self, until_s: float) -> None:
        due = [one for one in self._waiting if one[0] <= until_s]
        self._waiting = [one for one in self._waiting if one[0] > until_s]
        for _, name, outcome in due:
            beside = [self._next()] if self.rng.random() < 0.2 else []
            await self.decide(name, outcome, *(one for one in beside if one[1] is not Kind.HALF))
            if self.rng.random() < 0.2:
                await self.decide(name, outcome)


class Checker(NumberedProducer):
    """Follows a topic of checks, and decides what the database knows. `position`: everything below was answered."""

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        history: HalfHistory,
        heard: Callable[[list[bytes]], None],
        topic: str,
        database: dict[bytes, Outcome],
    ) -> None:
        super().__init__(name, address, rng, history, heard)
        self._place = topic, 0
        self._database = database
        self.position = 0

    async def run(self) -> None:
        while True:
            await self.until_done(self.answer)
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))

    async def answer(self) -> list[bytes]:
        """What is asked about. Raises Disconnected, Unhappy."""
        asked: list[bytes] = []
        records, self.position = await read_records(self, self._place, self.position)
        for record in records:
            check_id, said = record.key or b"", dict(record.headers)
            value = self._history.values.get(check_id)
            name = int(said["bmq-half-partition"] or b""), int(said["bmq-half-offset"] or b"")
            if value is None or said["bmq-half-topic"] != TOPIC.encode():
                raise Violation(f"a check asks about {check_id!r} of {said}")
            self._history.asked_about(name, value)
            asked.append(value)
            if check_id in self._database and (name not in self._history.decided or self.rng.random() < 0.2):
                await self.decide(name, self._database[check_id])
        return asked


class HalfFollower(Client):
    """Reads one partition from its start on, as it grows. `position`: everything below was read."""

    def __init__(self, name: str, address: Address, rng: random.Random, history: HalfHistory, partition: int) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self.partition = partition
        self.position = 0

    async def run(self) -> None:
        while True:
            try:
                found, self.position = await read_batches(self, self.partition, self.position, 500)
                for record, epoch in found:
                    self._history.read(self.partition, seen(record, epoch))
            except OutOfRange as error:
                raise Violation(f"{self.place} calls {error} out of range, where a reader was") from error
            except Unhappy:
                await asyncio.sleep(0.1)
            except Disconnected:
                self.disconnect()
                await asyncio.sleep(0.1)


def seen(record: Record, leader_epoch: int) -> HalfSeen:
    headers = dict(record.headers)
    return HalfSeen(record.offset, record.value or b"", leader_epoch, int(headers.get("bmq-half-offset") or b"-1"))
