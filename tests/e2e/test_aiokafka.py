"""aiokafka: a client in pure Python, with a consumer group and its admin client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from testing.patience import Patience
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name

pytestmark = [pytest.mark.clients, pytest.mark.timeout(90)]

INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
PARTITIONS = 4


@asynccontextmanager
async def started(client: AIOKafkaProducer | AIOKafkaConsumer) -> AsyncIterator[AIOKafkaProducer | AIOKafkaConsumer]:
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


@asynccontextmanager
async def admin_of(server: Server) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_sent_comes_back(server: Server, make_topic: TopicMaker, codec: str | None) -> None:
    topic = make_topic()
    async with AsyncExitStack() as clients:
        producer = await clients.enter_async_context(
            started(
                AIOKafkaProducer(
                    bootstrap_servers=server.bootstrap, enable_idempotence=True, compression_type=codec, linger_ms=5
                )
            )
        )
        sent = [
            await producer.send(topic, b"value %d" % number, key=b"key", headers=[("n", b"%d" % number)])
            for number in range(300)
        ]
        offsets = [(await each).offset for each in sent]
        consumer = await clients.enter_async_context(
            started(AIOKafkaConsumer(topic, bootstrap_servers=server.bootstrap, auto_offset_reset="earliest"))
        )
        received = [await asyncio.wait_for(consumer.getone(), Patience(20).limit_s) for _ in range(300)]
    assert offsets == list(range(300))
    assert [message.value for message in received] == [b"value %d" % number for number in range(300)]
    assert received[7].headers == (("n", b"7"),)
    assert received[7].key == b"key"


async def test_consumer_group_shares_rebalances_and_continues(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("aio")

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=server.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            session_timeout_ms=10_000,
        )

    async def read(consumers: list[AIOKafkaConsumer], count: int) -> Counter[bytes]:
        seen: Counter[bytes] = Counter()
        async with asyncio.timeout(Patience(40).limit_s):
            while seen.total() < count:
                for consumer in consumers:
                    for messages in (await consumer.getmany(timeout_ms=100)).values():
                        seen.update(message.value for message in messages)
        return seen

    async def fill(producer: AIOKafkaProducer, prefix: str) -> Counter[bytes]:
        values = [f"{prefix}-{number}".encode() for number in range(200)]
        for number, value in enumerate(values):
            await producer.send(topic, value, partition=number % PARTITIONS)
        await producer.flush()
        return Counter(values)

    async with AsyncExitStack() as clients:
        producer = await clients.enter_async_context(started(AIOKafkaProducer(bootstrap_servers=server.bootstrap)))
        first = await clients.enter_async_context(started(member()))
        produced = await fill(producer, "alone")
        assert await read([first], 200) == produced
        await first.commit()

        async with started(member()) as second:
            async with asyncio.timeout(Patience(40).limit_s):
                while len(first.assignment()) != 2 or len(second.assignment()) != 2:
                    await first.getmany(timeout_ms=100)
            assert first.assignment() | second.assignment() == {TopicPartition(topic, p) for p in range(PARTITIONS)}
            produced = await fill(producer, "together")
            assert await read([first, second], 200) == produced
            await first.commit()
            await second.commit()

        async with asyncio.timeout(Patience(40).limit_s):
            while len(first.assignment()) != PARTITIONS:
                await first.getmany(timeout_ms=100)
        produced = await fill(producer, "alone again")
        assert await read([first], 200) == produced


async def test_commit_seek_and_positions(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("aio")
    where = TopicPartition(topic, 0)
    async with AsyncExitStack() as clients:
        producer = await clients.enter_async_context(started(AIOKafkaProducer(bootstrap_servers=server.bootstrap)))
        for number in range(20):
            await producer.send_and_wait(topic, b"%d" % number, timestamp_ms=1_700_000_000_000 + number)
        consumer = await clients.enter_async_context(
            started(AIOKafkaConsumer(bootstrap_servers=server.bootstrap, group_id=group, enable_auto_commit=False))
        )
        consumer.assign([where])
        assert await consumer.committed(where) is None
        await consumer.commit({where: OffsetAndMetadata(12, "twelve")})
        assert await consumer.committed(where) == 12
        consumer.seek(where, 17)
        assert (await asyncio.wait_for(consumer.getone(), Patience(20).limit_s)).value == b"17"
        assert await consumer.position(where) == 18
        assert await consumer.beginning_offsets([where]) == {where: 0}
        assert await consumer.end_offsets([where]) == {where: 20}
        found = await consumer.offsets_for_times({where: 1_700_000_000_005})
        assert found[where].offset == 5


async def test_admin_client(server: Server) -> None:
    topic = unique_name("aio-admin")
    async with admin_of(server) as admin:
        created = await admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)])
        assert [error[1] for error in created.topic_errors] == [0]
        described = await admin.describe_topics([topic])
        assert len(described[0]["partitions"]) == 3
        assert topic in await admin.list_topics()
        deleted = await admin.delete_topics([topic])
        assert [code for _, code, *_ in deleted.topic_error_codes] == [0]
        async with asyncio.timeout(Patience(20).limit_s):
            while topic in await admin.list_topics():
                pass


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [(0, 1, INVALID_PARTITIONS), (-7, 1, INVALID_PARTITIONS), (1, 0, INVALID_REPLICATION_FACTOR)],
)
async def test_bad_counts_are_refused_by_value(server: Server, partitions: int, replicas: int, code: int) -> None:
    topic = unique_name("bad-count")
    async with admin_of(server) as admin:
        refused = await admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=replicas)])
        ((_, error_code, message, *_),) = refused.topic_errors
        assert error_code == code, (error_code, message)
        assert message
        assert topic not in await admin.list_topics()
