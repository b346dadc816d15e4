"""aiokafka."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from tests.conformance.clients.programs import plan
from tests.conformance.clients.programs.plan import Given

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Scenario:
    def __init__(self, given: Given) -> None:
        self.given = given
        self.admin = AIOKafkaAdminClient(bootstrap_servers=given.bootstrap)

    async def run(self) -> dict[str, Any]:
        await self.admin.start()
        try:
            return {
                "create topic": await self.create(),
                "produce": await self.produce(),
                "consume": await self.consume(),
                "transaction": await self.transaction(),
                "offsets": await self.offsets(),
                "configs": await self.configs(),
                "delete records": await self.delete_records(),
                "groups": await self.groups(),
                "delete topic": await self.delete_topic(),
            }
        finally:
            await self.admin.close()

    async def create(self) -> Any:
        settings = {"retention.ms": plan.RETENTION_MS["before"]}
        topic = NewTopic(self.given.topic, plan.PARTITIONS, 1, topic_configs=settings)
        first = await self.admin.create_topics([topic])
        described = await settled(
            lambda: self.admin.describe_topics([self.given.topic]), lambda told: bool(told[0]["partitions"])
        )
        again = await self.admin.create_topics([topic])
        return {
            "made": errors(first.topic_errors),
            "partitions": len(described[0]["partitions"]),
            "again": errors(again.topic_errors),
        }

    async def produce(self) -> Any:
        told: dict[str, Any] = {}
        number = 0
        for codec in CODECS:
            async with self.producer(compression_type=None if codec == "none" else codec) as producer:
                sent = []
                for _ in range(plan.RECORDS_PER_CODEC):
                    sent.append(
                        await producer.send(
                            self.given.topic,
                            f"{codec} {number}".encode(),
                            b"key",
                            partition=0,
                            timestamp_ms=self.given.base_ms + number,
                            headers=[("number", b"%d" % number)],
                        )
                    )
                    number += 1
                told[codec] = [one.offset for one in await asyncio.gather(*sent)]
        told["other partition"] = await self.send_one(b"other")
        return told

    async def send_one(self, value: bytes) -> list[int]:
        async with self.producer() as producer:
            return [(await producer.send_and_wait(self.given.topic, value, partition=1)).offset]

    async def consume(self) -> Any:
        told = await self.read(1 + len(CODECS) * plan.RECORDS_PER_CODEC)
        await self.send_one(b"late")
        return {**told, "next": await self.read(1)}

    async def read(self, count: int) -> dict[str, Any]:
        """What a new member reads and where the group is afterwards."""
        async with self.consumer(self.given.topic, group_id=self.given.group) as consumer:
            read: dict[str, list[Any]] = {}
            for record in await records_of(consumer, count):
                headers = b"".join(value for _, value in record.headers).decode()
                read.setdefault(str(record.partition), []).append([record.offset, record.value.decode(), headers])
            await consumer.commit()
            places = [TopicPartition(self.given.topic, partition) for partition in range(plan.PARTITIONS)]
            committed = {str(place.partition): await consumer.committed(place) for place in places}
            assigned = sorted(place.partition for place in consumer.assignment())
        return {"read": read, "committed": committed, "assigned": assigned}

    async def transaction(self) -> Any:
        topic = self.given.transactional_topic
        await self.admin.create_topics([NewTopic(topic, 1, 1)])
        group = f"{self.given.group}-copied"
        place = TopicPartition(self.given.topic, 0)
        async with self.producer(transactional_id=f"{self.given.name}-id") as producer:
            for number, (is_committed, values) in enumerate(plan.TRANSACTIONS):
                await producer.begin_transaction()
                for value in values:
                    await producer.send_and_wait(topic, value.encode(), partition=0)
                if number == 0:
                    await producer.send_offsets_to_transaction({place: plan.TRANSACTIONAL_OFFSET}, group)
                await (producer.commit_transaction() if is_committed else producer.abort_transaction())
        async with self.consumer(group_id=group) as consumer:
            consumer.assign([place])
            committed = await consumer.committed(place)
        return {
            "read committed": await self.read_topic(topic, "read_committed", 3),
            "read uncommitted": await self.read_topic(topic, "read_uncommitted", 5),
            "offset": committed,
        }

    async def read_topic(self, topic: str, isolation_level: str, count: int) -> list[str]:
        async with self.consumer(isolation_level=isolation_level) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            return [record.value.decode() for record in await records_of(consumer, count)]

    async def offsets(self) -> Any:
        place = TopicPartition(self.given.topic, 0)
        async with self.consumer() as consumer:
            at = (await consumer.offsets_for_times({place: self.given.base_ms + plan.ASKED_TIME}))[place]
            behind = (await consumer.offsets_for_times({place: self.given.base_ms + 1_000}))[place]
            return {
                "earliest": (await consumer.beginning_offsets([place]))[place],
                "latest": (await consumer.end_offsets([place]))[place],
                "at": [at.offset, self.given.time_since_base(at.timestamp)],
                "behind": behind,
            }

    async def configs(self) -> Any:
        before = await self.retention()
        changed = {"retention.ms": plan.RETENTION_MS["after"]}
        resource = ConfigResource(ConfigResourceType.TOPIC, self.given.topic, configs=changed)
        (answer,) = await self.admin.alter_configs([resource])
        after = await settled(self.retention, lambda told: told[1][1] == plan.RETENTION_MS["after"])
        return {"before": before, "altered": answer.resources[0][0], "after": after}

    async def retention(self) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.given.topic, configs={"retention.ms": None})
        (answer,) = await self.admin.describe_configs([resource])
        error_code, _, _, _, entries, *_ = answer.resources[0]
        return [error_code, *([name, value] for name, value, *_ in entries)]

    async def delete_records(self) -> Any:
        place = TopicPartition(self.given.topic, 0)
        deleted = await self.admin.delete_records({place: RecordsToDelete(before_offset=plan.DELETED_BEFORE)})
        async with self.consumer() as consumer:
            return {"low watermark": deleted[place], "earliest": (await consumer.beginning_offsets([place]))[place]}

    async def groups(self) -> Any:
        listed = await self.admin.list_consumer_groups()
        (described,) = await self.admin.describe_consumer_groups([self.given.group])
        error_code, name, state, protocol_type, _, members, *_ = described.groups[0]
        offsets = await self.admin.list_consumer_group_offsets(self.given.group)
        return {
            "listed": sorted(group for group, *_ in listed if group.startswith(self.given.name)),
            "described": [error_code, name, state, protocol_type, len(members)],
            "offsets": {str(place.partition): one.offset for place, one in sorted(offsets.items())},
        }

    async def delete_topic(self) -> Any:
        first = await self.admin.delete_topics([self.given.topic])
        again = await self.admin.delete_topics([self.given.topic])
        return {"deleted": errors(first.topic_error_codes), "deleted again": errors(again.topic_error_codes)}

    @asynccontextmanager
    async def producer(self, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
        async with AIOKafkaProducer(
            bootstrap_servers=self.given.bootstrap, enable_idempotence=True, **settings
        ) as producer:
            yield producer

    @asynccontextmanager
    async def consumer(self, *topics: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
        async with AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self.given.bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        ) as consumer:
            yield consumer


async def settled(ask: Callable[[], Awaitable[Any]], is_there: Callable[[Any], bool]) -> Any:
    """As plan.settled."""
    deadline = time.monotonic() + plan.WAIT_S
    while True:
        answer = await ask()
        if is_there(answer) or time.monotonic() > deadline:
            return answer
        await asyncio.sleep(plan.POLL_INTERVAL_S)


async def records_of(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    """Raises TimeoutError."""
    async with asyncio.timeout(plan.WAIT_S):
        return [await consumer.getone() for _ in range(count)]


def errors(results: list[Any]) -> list[str]:
    """Of results that begin with a name and an error code."""
    return [for_code(code).__name__ for _, code, *_ in results]


async def main() -> None:
    plan.tell(await Scenario(plan.given(sys.argv)).run())


if __name__ == "__main__":
    asyncio.run(main())
