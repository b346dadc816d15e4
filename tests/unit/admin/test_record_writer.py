"""Records are written once each, whatever becomes of an attempt, and each partition has its own sequence."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from bmq.admin.record_writer import PARTITIONS_MAX, RecordWriter
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.kafka_requests import FakeKafkaRequests

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=7)


class Written:
    """A writer over a topic. `lost`: that many answers of Produce are lost after the records were written."""

    def __init__(self, wait_s: float = 10.0) -> None:
        self.fake = FakeKafkaRequests()
        self.writer = RecordWriter(wait_s)
        self.lost = 0

    async def ask(self, api_key: ApiKey, request: Any) -> Any:
        response = await self.fake.ask(api_key, request, principal="User:a", host="10.0.0.1")
        if api_key is ApiKey.PRODUCE and self.lost:
            self.lost -= 1
            response.responses[0].partition_responses[0].error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return response

    async def write(self, *values: bytes, partition: int = 0) -> int:
        records = [Record(None, value) for value in values]
        return await self.writer.write(self.ask, "t", TOPIC_ID, partition, records)

    def values(self, partition: int = 0) -> list[bytes | None]:
        return [one.value for one in self.fake.records.get(("t", partition), [])]


async def test_a_batch_whose_answer_was_lost_is_written_once() -> None:
    ground = Written()
    ground.lost = 2
    assert await ground.write(b"a", b"b") == 0
    assert await ground.write(b"c") == 2
    assert ground.values() == [b"a", b"b", b"c"]
    assert len(ground.fake.producers) == 1


async def test_writers_of_a_partition_wait_for_each_other() -> None:
    ground = Written()
    ground.lost = 1
    offsets = await asyncio.gather(
        *(ground.write(b"%d" % number) for number in range(5)), ground.write(b"x", partition=1)
    )
    assert sorted(offsets[:5]) == list(range(5)) and offsets[5] == 0
    assert sorted(filter(None, ground.values())) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_writer_does_not_wait_for_others_for_ever() -> None:
    ground = Written(wait_s=0.0)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def held(api_key: ApiKey, request: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await ground.ask(api_key, request)

    first = asyncio.ensure_future(ground.writer.write(held, "t", TOPIC_ID, 0, [Record(None, b"a")]))
    await begun.wait()
    with pytest.raises(KafkaError, match="partition 0: others write to it") as refusal:
        await ground.write(b"b")
    assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert await ground.write(b"x", partition=1) == 0, "another partition has its own turn"
    go_on.set()
    assert await first == 0
    assert await ground.write(b"c") == 1
    assert ground.values() == [b"a", b"c"]


async def test_after_a_refusal_a_new_producer_begins() -> None:
    ground = Written()
    ground.fake.passing = {ApiKey.PRODUCE: [ErrorCode.MESSAGE_TOO_LARGE]}
    with pytest.raises(KafkaError, match="partition 0: no") as refusal:
        await ground.write(b"a")
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert await ground.write(b"b") == 0
    assert ground.values() == [b"b"] and len(ground.fake.producers) == 2


async def test_a_partition_that_has_forgotten_the_producer_gets_a_new_one() -> None:
    ground = Written()
    assert await ground.write(b"a") == 0
    ground.fake.passing = {ApiKey.PRODUCE: [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]}
    assert await ground.write(b"b") == 1
    del ground.fake.producers[101]
    assert await ground.write(b"c") == 2
    ground.fake.refused[ApiKey.PRODUCE] = ErrorCode.UNKNOWN_PRODUCER_ID
    with pytest.raises(KafkaError):
        await ground.write(b"d")
    assert ground.values() == [b"a", b"b", b"c"]


async def test_it_is_not_sent_again_for_ever() -> None:
    ground = Written(wait_s=0.0)
    ground.fake.refused[ApiKey.PRODUCE] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as refusal:
        await ground.write(b"a")
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(ground.fake.asked) == 2


async def test_a_producer_id_that_is_refused_is_told() -> None:
    ground = Written()
    ground.fake.refused[ApiKey.INIT_PRODUCER_ID] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError) as refusal:
        await ground.write(b"a")
    assert refusal.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert ground.values() == []


async def test_the_sequences_in_memory_are_bounded() -> None:
    ground = Written()
    await ground.write(b"first")
    for partition in range(1, PARTITIONS_MAX + 1):
        await ground.write(b"v", partition=partition)
    assert len(ground.fake.producers) == PARTITIONS_MAX + 1
    assert await ground.write(b"last", partition=PARTITIONS_MAX) == 1
    assert len(ground.fake.producers) == PARTITIONS_MAX + 1
    await ground.write(b"second")
    assert len(ground.fake.producers) == PARTITIONS_MAX + 2, "the least recently used one was forgotten"
