"""Clients of compacted logs: a producer without transactions, readers in small steps, and one who asks for the ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import encode_batch
from bmq.protocol.messages import init_producer_id_request, produce_request
from tests.simulation.clients import PRODUCE_VERSIONS, Address, Client, OutOfRange, Unhappy, expect, now_ms
from tests.simulation.committed_reads import end_offset, fetch, start_offset
from tests.simulation.compaction_history import CompactionHistory, key_of
from tests.simulation.connection import Disconnected
from tests.simulation.history import Violation
from tests.simulation.transaction_history import Place

LENGTHS_BYTES = (1, 300, 2_000, 200_000)
AGAIN_RATE = 0.05


class KeyedProducer(Client):
    """Idempotent, without transactions, one batch at a time; each is sent until it is acknowledged."""

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        history: CompactionHistory,
        places: Sequence[Place],
        pace_s: float,
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._places = places
        self._pace_s = pace_s
        self._sequences = dict.fromkeys(places, 0)
        self._count = 0
        self._producer_id = -1
        self._producer_epoch = -1

    async def run(self) -> None:
        await self.until_done(self._init)
        while True:
            await self._write(self.rng.choice(self._places))
            await asyncio.sleep(self.rng.expovariate(1 / self._pace_s))

    async def _init(self) -> None:
        request = init_producer_id_request.InitProducerIdRequest(transaction_timeout_ms=1)
        answer = await self.request(ApiKey.INIT_PRODUCER_ID, 4, request)
        expect(answer.error_code)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    async def _write(self, place: Place) -> None:
        """One batch, which counts as committed once it is acknowledged, and may be seen before that."""
        values = []
        for _ in range(self.rng.randint(1, 3)):
            self._count += 1
            values.append(self._history.next_value(self.name, self._count))
        transaction = self._history.begin(f"{self.name}.{self._count}")
        transaction.ask()
        self._history.send(transaction, place, values)
        request = self._request(place, values, now_ms())
        self._sequences[place] += len(values)

        async def attempt() -> int:
            answer = await self.request(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), request)
            result = answer.responses[0].partition_responses[0]
            expect(result.error_code)
            return int(result.base_offset)

        self._history.acknowledge(place, await self.until_done(attempt), values)
        self._history.committed(transaction)

    def _request(self, place: Place, values: Sequence[bytes], time_ms: int) -> produce_request.ProduceRequest:
        batch = encode_batch(
            [self._history.record_of(value, time_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences[place],
        )
        data = produce_request.PartitionProduceData(index=place[1], records=bytes(batch))
        topic = produce_request.TopicProduceData(name=place[0], partition_data=[data])
        return produce_request.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


class KeyReader(Client):
    """Reads partitions from their starts to their ends, again and again, so that files are replaced in the middle."""

    def __init__(
        self,
        name: str,
        address: Address,
        rng: random.Random,
        history: CompactionHistory,
        places: Sequence[Place],
        is_committed: bool,
        pace_s: float,
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._positions = dict.fromkeys(places, 0)
        self._last: dict[tuple[Place, bytes], tuple[int, float]] = {}  # offset of each key's last record, and when
        self._is_committed = is_committed
        self._pace_s = pace_s
        self._lengths = rng.choice((LENGTHS_BYTES, LENGTHS_BYTES[:2], LENGTHS_BYTES[2:]))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / self._pace_s))
            place = self.rng.choice(tuple(self._positions))
            if self.rng.random() < AGAIN_RATE:
                self._begin_anew(place, 0)
            await self.until_done(lambda place=place: self._read(place))  # type: ignore[misc]

    def _begin_anew(self, place: Place, offset: int) -> None:
        self._positions[place] = offset
        for key in [key for key in self._last if key[0] == place]:
            del self._last[key]

    async def _read(self, place: Place) -> None:
        now_s = asyncio.get_running_loop().time()
        try:
            read = await fetch(
                self, self._history, place, self._positions[place], 50,
                is_committed=self._is_committed, length_bytes_max=self.rng.choice(self._lengths),
            )  # fmt: skip
        except OutOfRange:
            known = self._history.starts[place]
            start = await start_offset(self, place)
            self._history.begins_at(place, start, known)
            self._begin_anew(place, start)
            return
        terms, done_s = self._history.terms, asyncio.get_running_loop().time()
        for offset, name in self._history.tombstones_missed(read):
            before, read_s = self._last.get((place, key_of(name)), (offset, 0.0))
            if before < offset and done_s - read_s < terms.reader_s:
                raise Violation(
                    f"{self.name} read {key_of(name)!r} at {before} of {place} {done_s - read_s:.3f} s ago, and no "
                    f"{name!r} at {offset}"
                )
        for offset, name in read.records:
            self._last[place, key_of(name)] = offset, now_s
        self._positions[place] = read.end


class EndsAsker(Client):
    """Asks anybody, replaced nodes too, for what may never go back, and for records from the middle of a log."""

    def __init__(
        self, name: str, address: Address, rng: random.Random, history: CompactionHistory, places: Sequence[Place]
    ) -> None:
        super().__init__(name, address, rng)
        self.answer_count = 0
        self._history = history
        self._places = places

    async def run(self) -> None:
        asks: Sequence[Any] = (self._ask_stable_end, self._ask_start, self._ask_records, self._ask_records)
        while True:
            await asyncio.sleep(self.rng.expovariate(6))
            try:
                await self.rng.choice(asks)(self.rng.choice(self._places))
                self.answer_count += 1
            except Unhappy:
                continue
            except Disconnected:
                self.disconnect()

    async def _ask_stable_end(self, place: Place) -> None:
        known = self._history.stable_end(place)
        self._history.ask_stable_end(place, await end_offset(self, place, is_stable=True), known)

    async def _ask_start(self, place: Place) -> None:
        known = self._history.starts[place]
        self._history.begins_at(place, await start_offset(self, place), known)

    async def _ask_records(self, place: Place) -> None:
        start, end = self._history.starts[place], self._history.stable_end(place)
        offset = self.rng.randint(start, max(start, end))
        is_committed = self.rng.random() < 0.7
        length_bytes = self.rng.choice(LENGTHS_BYTES)
        await fetch(self, self._history, place, offset, 50, is_committed=is_committed, length_bytes_max=length_bytes)
