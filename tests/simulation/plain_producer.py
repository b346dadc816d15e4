"""Producers without numbers: what they send again may be there again, and nothing else may."""

from __future__ import annotations

import asyncio
import random

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.messages import produce_request
from tests.simulation.clients import PRODUCE_VERSIONS, TOPIC, Address, Client, Unhappy, expect, now_ms
from tests.simulation.connection import Disconnected
from tests.simulation.history import SHORTAGES, History

TRIES_MAX = 6
PACE_S = 0.3


class PlainProducer(Client):
    """One request at a time. With acks=0 each batch is sent once and nobody hears what becomes of it."""

    def __init__(
        self, name: str, address: Address, rng: random.Random, history: History, partitions: int, acks: int
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._partitions = partitions
        self._acks = acks
        self._count = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / PACE_S))
            partition = self.rng.randrange(self._partitions)
            try:
                if self._acks == 0:
                    await self._send(partition)
                else:
                    await self._produce(partition)
            except Disconnected:
                self.disconnect()

    async def _send(self, partition: int) -> None:
        """Only what went over one connection has an order: another node may get what follows first."""
        connection = await self.connection()
        name = f"{self.name}.{self.connection_count}"
        self._history.in_order.add(name)
        values = self._values(name)
        self._history.send(values, asyncio.get_running_loop().time(), is_numbered=False)
        self._history.plain_batches += 1
        request = self._request(partition, values, now_ms())
        await connection.send(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), request)

    async def _produce(self, partition: int) -> None:
        """Tried a few times, and given up then: it may be there, or come yet."""
        values, time_ms = self._values(self.name), now_ms()
        for _ in range(TRIES_MAX):
            self._history.send(values, asyncio.get_running_loop().time(), is_numbered=False)
            try:
                answer = await self.request(
                    ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), self._request(partition, values, time_ms)
                )
                result = answer.responses[0].partition_responses[0]
                self._history.shortages += result.error_code in SHORTAGES
                expect(result.error_code)
            except Disconnected:
                self.disconnect()
            except Unhappy:
                pass
            else:
                self._history.acknowledge(partition, result.base_offset, values, time_ms, is_acks_all=self._acks == -1)
                self._history.acknowledge_in_order(self.name, partition, result.base_offset)
                self._history.plain_batches += 1
                return
            await asyncio.sleep(self.rng.uniform(0.05, 0.3))

    def _values(self, name: str) -> list[bytes]:
        values = []
        for _ in range(self.rng.randint(1, 3)):
            self._count += 1
            values.append(f"{name}-{self._count}:".encode() + b"." * self.rng.choice((0, 50, 5_000)))
        return values

    def _request(self, partition: int, values: list[bytes], time_ms: int) -> produce_request.ProduceRequest:
        batch = encode_batch([Record(None, value, timestamp_ms=time_ms) for value in values])
        data = produce_request.PartitionProduceData(index=partition, records=bytes(batch))
        topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
        return produce_request.ProduceRequest(acks=self._acks, timeout_ms=30_000, topic_data=[topic])
