"""Clients of a topic with delay: producers that delay and cancel records, and readers that follow a partition."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import init_producer_id_request, produce_request
from bmq.protocol.record_batch import batches, verify_crc
from tests.simulation.clients import (
    EARLIEST,
    LATEST,
    PRODUCE_VERSIONS,
    TOPIC,
    Address,
    Client,
    OutOfRange,
    Unhappy,
    expect,
    fetched_partition,
    listed_offset,
    now_ms,
)
from tests.simulation.connection import Disconnected
from tests.simulation.delay_history import Asked, DelayHistory, Name, Seen
from tests.simulation.history import SHORTAGES, Violation

_CODECS = (Compression.NONE, Compression.NONE, Compression.LZ4)


@dataclass(slots=True)
class DelayHabits:
    """Of a seed. `delays_ms`: among which a record's delay is chosen; 0: none."""

    delays_ms: tuple[int, ...]
    cancel_rate: float
    pace_s: float

    @classmethod
    def of(cls, dice: random.Random, pace_s: float) -> DelayHabits:
        return cls(
            dice.choice(((0, 0, 300, 1_500), (0, 30, 300, 3_000, 8_000), (100, 100, 1_000), (2_000, 5_000, 9_000))),
            dice.choice((0.0, 0.2, 0.5)),
            pace_s,
        )


class DelayProducer(Client):
    """Idempotent, several requests in flight; each batch has records with and without delay."""

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        history: DelayHistory,
        partitions: int,
        habits: DelayHabits,
        heard: Callable[[list[bytes]], None],
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._habits = habits
        self._heard = heard
        self._sequences = [0] * partitions
        self._count = 0
        self._producer_id = -1
        self._producer_epoch = -1
        self._delayed: list[tuple[Name, int]] = []  # the last ones that were held, with their due times
        self.shortages = 0
        self.batch_count = 0

    async def run(self, batch_count: int, is_more_wanted: Callable[[], bool]) -> None:
        """At least so many batches, and more while they are wanted."""
        await self.until_done(self._init)
        while batch_count > 0 or is_more_wanted():
            group = self.rng.randint(1, max(1, min(4, batch_count)))
            batch_count -= group
            await self._produce(self.rng.randrange(len(self._sequences)), group)
            if self._delayed and self.rng.random() < self._habits.cancel_rate:
                await self._cancel(*self._delayed.pop(self.rng.randrange(len(self._delayed))))
            await asyncio.sleep(self.rng.expovariate(1 / self._habits.pace_s))

    async def _init(self) -> None:
        request = init_producer_id_request.InitProducerIdRequest(transaction_timeout_ms=1)
        answer = await self.request(ApiKey.INIT_PRODUCER_ID, 4, request)
        expect(answer.error_code)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    async def _produce(self, partition: int, group: int) -> None:
        unanswered: list[tuple[list[Asked], bytes]] = []
        for _ in range(group):
            records = [self._next() for _ in range(self.rng.randint(1, 4))]
            self._history.send(records)
            unanswered.append((records, self._batch(partition, [_record(one) for one in records])))

        async def attempt() -> None:
            await self._send(partition, unanswered)

        await self.until_done(attempt)

    def _next(self) -> Asked:
        self._count += 1
        padding = b"." * (self.rng.choice((0, 0, 100, 5_000)) + self.rng.randrange(50))
        value, time_ms = f"{self.name}-{self._count}:".encode() + padding, now_ms()
        delay_ms = self.rng.choice(self._habits.delays_ms)
        if not delay_ms:
            return Asked(value, time_ms)
        delay_ms += self.rng.randrange(200)
        if self.rng.random() < 0.3:
            return Asked(value, time_ms, after_ms=delay_ms)
        return Asked(value, time_ms, at_ms=time_ms + delay_ms)

    def _batch(self, partition: int, records: list[Record]) -> bytes:
        """With the next sequence numbers."""
        batch = encode_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences[partition],
            compression=self.rng.choice(_CODECS),
        )
        self._sequences[partition] += len(records)
        return bytes(batch)

    async def _send(self, partition: int, unanswered: list[tuple[list[Asked], bytes]]) -> None:
        """All that is not acknowledged, in order; what is acknowledged leaves the list."""
        requests = [_request(partition, batch) for _, batch in unanswered]
        answers = await self.requests(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), requests)
        failures: list[int] = []
        for one, answer in zip(tuple(unanswered), answers, strict=True):
            result = answer.responses[0].partition_responses[0]
            self.shortages += result.error_code in SHORTAGES
            if result.error_code == ErrorCode.NONE:
                if failures:
                    raise Violation(f"a batch of {self.name} was taken after an earlier one failed: {failures}")
                self._acknowledged(partition, result.base_offset, one[0])
                unanswered.remove(one)
            elif result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and failures:
                failures.append(result.error_code)  # the one before it failed, so it had to
            else:
                expect(result.error_code) if not failures else None
                failures.append(result.error_code)
        if failures:
            raise Unhappy(str(failures))

    def _acknowledged(self, partition: int, base_offset: int, records: list[Asked]) -> None:
        self.batch_count += 1
        self._history.acknowledge(partition, base_offset, records)
        self._heard([one.value for one in records])
        self._delayed += [
            ((partition, offset), one.at_ms) for offset, one in enumerate(records, base_offset) if one.at_ms >= 0
        ]
        del self._delayed[:-20]

    async def _cancel(self, name: Name, due_ms: int) -> None:
        """The batch has the next sequence number, and leaves it to the next one if it is refused."""
        partition, offset = name
        sequence, tries = self._sequences[partition], 0
        header = ("bmq-cancel", f"{offset},{due_ms}".encode())
        batch = self._batch(partition, [Record(None, None, (header,), timestamp_ms=now_ms())])
        self._history.cancelling(name)

        async def attempt() -> bool:
            nonlocal tries
            tries += 1
            request = _request(partition, batch)
            answer = await self.request(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), request)
            result = answer.responses[0].partition_responses[0]
            self.shortages += result.error_code in SHORTAGES
            expect(result.error_code, ErrorCode.INVALID_RECORD)
            return bool(result.error_code == ErrorCode.NONE)

        if await self.until_done(attempt):
            self._history.cancel(name)
        else:
            self._history.refuse(name, is_certain=True)
            self._sequences[partition] = sequence


def _record(one: Asked) -> Record:
    headers: tuple[tuple[str, bytes], ...] = ()
    if one.at_ms >= 0:
        headers = (("bmq-deliver-at", b"%d" % one.at_ms),)
    elif one.after_ms >= 0:
        headers = (("bmq-deliver-after", b"%d" % one.after_ms),)
    return Record(None, one.value, headers, timestamp_ms=one.time_ms)


def _request(partition: int, batch: bytes) -> produce_request.ProduceRequest:
    data = produce_request.PartitionProduceData(index=partition, records=batch)
    topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
    return produce_request.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


class Follower(Client):
    """Reads one partition from its start on, as it grows. `position`: everything below was read."""

    def __init__(self, name: str, address: Address, rng: random.Random, history: DelayHistory, partition: int) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self.partition = partition
        self.position = 0

    async def run(self) -> None:
        while True:
            try:
                found, self.position = await read_some(self, self.partition, self.position, 500)
                for one in found:
                    self._history.read(self.partition, one)
            except OutOfRange as error:
                raise Violation(f"{self.place} calls {error} out of range, where a reader was") from error
            except Unhappy:
                await asyncio.sleep(0.1)
            except Disconnected:
                self.disconnect()
                await asyncio.sleep(0.1)


async def read_some(client: Client, partition: int, offset: int, max_wait_ms: int) -> tuple[list[Seen], int]:
    """Records from `offset` on, and where the next ones are. Raises Disconnected, Unhappy."""
    found, end = await read_batches(client, partition, offset, max_wait_ms)
    return [_seen(record, leader_epoch) for record, leader_epoch in found], end


async def read_batches(
    client: Client, partition: int, offset: int, max_wait_ms: int
) -> tuple[list[tuple[Record, int]], int]:
    """The same, each record with its batch's leader epoch."""
    data = await fetched_partition(client, partition, offset, max_wait_ms)
    found: list[tuple[Record, int]] = []
    end = offset
    for position, header in batches(data.records or b""):
        verify_crc(data.records, position, header)
        if header.end_offset > data.high_watermark:
            raise Violation(
                f"{header.end_offset} of {partition} was served, the high watermark is {data.high_watermark}"
            )
        if header.base_offset > end:
            raise Violation(f"{client.place} left out {end} to {header.base_offset} of {partition}")
        end = header.end_offset
        if header.is_control:
            continue
        records = decode_records(data.records, position)
        found += [(one, header.leader_epoch) for one in records if one.offset >= offset]
    return found, end


def _seen(record: Record, leader_epoch: int) -> Seen:
    headers = dict(record.headers)
    numbers = [int(headers.get(f"bmq-timer-{name}") or b"-1") for name in ("offset", "due", "created")]
    return Seen(record.offset, record.value or b"", record.timestamp_ms, leader_epoch, *numbers)


async def read_everything(client: Client, partition: int) -> tuple[int, list[Seen]]:
    """A partition from its start, which comes first, to its end, however often that has to be tried."""
    start, found = await read_all_batches(client, partition)
    return start, [_seen(record, leader_epoch) for record, leader_epoch in found]


async def read_all_batches(client: Client, partition: int) -> tuple[int, list[tuple[Record, int]]]:
    """The same, each record with its batch's leader epoch."""

    async def attempt() -> tuple[int, list[tuple[Record, int]]]:
        found: list[tuple[Record, int]] = []
        end = await listed_offset(client, partition, LATEST)
        start = place = await listed_offset(client, partition, EARLIEST)
        while place < end:
            more, after = await read_batches(client, partition, place, 1000)
            if after == place:
                raise Violation(f"nothing at {place} of {partition} below the high watermark {end}")
            found += more
            place = after
        return start, found

    return await client.until_done(attempt)
