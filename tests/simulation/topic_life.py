"""A client that makes a topic, writes to it, reads it back and deletes it, again and again under the same name."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from uuid import UUID

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    create_topics_request,
    delete_topics_request,
    fetch_request,
    produce_request,
)
from bmq.protocol.record_batch import batches
from tests.simulation.clients import Client, Unhappy, expect
from tests.simulation.history import Violation
from tests.simulation.outcome import Outcome

NAME = "passing"


class TopicLife:
    """What an earlier topic of the name held must never be seen in a later one. Topics are told apart by their ids: a node
    that has not heard of the latest one would take the name for the one before.

    `key_count`: records have one of so many keys, and of each only the newest is kept for certain; 0: none has a key.
    """

    def __init__(
        self,
        client: Client,
        dice: random.Random,
        outcome: Outcome,
        configs: Mapping[str, str] | None = None,
        key_count: int = 0,
    ) -> None:
        self._client = client
        self._dice = dice
        self._outcome = outcome
        self._configs = dict(configs or {})
        self._key_count = key_count
        self._acknowledged: set[bytes] = set()
        self._life = 0
        self._topic_id = UUID(int=0)

    async def run(self) -> None:
        client = self._client
        while True:
            self._life += 1
            self._acknowledged.clear()
            await client.until_done(self._create)
            self._outcome.topics_made += 1
            for number in range(self._dice.randint(1, 4)):
                value = f"life {self._life} value {number}".encode()
                await client.until_done(lambda value=value: self._produce(value))  # type: ignore[misc]
                self._acknowledged = {one for one in self._acknowledged if self._is_kept(one, value)} | {value}
            if self._key_count:
                await asyncio.sleep(self._dice.uniform(0.0, 2.0))  # it is compacted meanwhile
            await client.until_done(self._read)
            await client.until_done(self._delete)
            await asyncio.sleep(self._dice.uniform(0.0, 0.5))

    def _key(self, value: bytes) -> bytes | None:
        return b"%d" % (value[-1] % self._key_count) if self._key_count else None

    def _is_kept(self, value: bytes, newer: bytes) -> bool:
        return self._key_count == 0 or self._key(value) != self._key(newer)

    async def _create(self) -> None:
        configs = [create_topics_request.CreatableTopicConfig(name=k, value=v) for k, v in self._configs.items()]
        topic = create_topics_request.CreatableTopic(
            name=NAME, num_partitions=1, replication_factor=-1, configs=configs
        )
        request = create_topics_request.CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        answer = await self._client.request(ApiKey.CREATE_TOPICS, 7, request)
        if answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            await self._delete()  # an answer was lost, and with it the id
            raise Unhappy("make another one")
        if answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
            raise Unhappy("no broker lives just now")
        expect(answer.topics[0].error_code)
        self._topic_id = answer.topics[0].topic_id

    async def _produce(self, value: bytes) -> None:
        batch = encode_batch([Record(self._key(value), value, timestamp_ms=1)])
        data = produce_request.PartitionProduceData(index=0, records=bytes(batch))
        topic = produce_request.TopicProduceData(topic_id=self._topic_id, partition_data=[data])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        answer = await self._client.request(ApiKey.PRODUCE, 13, request)
        expect(answer.responses[0].partition_responses[0].error_code)

    async def _read(self) -> None:
        """Some may be there twice, since nothing numbers them."""
        seen: set[bytes] = set()
        offset = 0
        while not self._acknowledged <= seen:
            wanted = fetch_request.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=200_000)
            topic = fetch_request.FetchTopic(topic_id=self._topic_id, partitions=[wanted])
            request = fetch_request.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])
            answer = await self._client.request(ApiKey.FETCH, 13, request)
            expect(answer.error_code)
            data = answer.responses[0].partitions[0]
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Violation(f"{offset} of {NAME} is out of range in its life {self._life}")
            expect(data.error_code)
            position = offset
            for place, header in batches(data.records or b""):
                position = max(position, header.end_offset)
                for record in decode_records(data.records, place):
                    value = record.value or b""
                    if not value.startswith(b"life %d " % self._life):
                        raise Violation(f"{value!r} was read in the life {self._life} of {NAME}")
                    seen.add(value)
            if position == offset:
                raise Unhappy("not all of it yet")
            offset = position

    async def _delete(self) -> None:
        request = delete_topics_request.DeleteTopicsRequest(topic_names=[NAME], timeout_ms=5_000)
        answer = await self._client.request(ApiKey.DELETE_TOPICS, 4, request)
        expect(answer.responses[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
