"""librdkafka, by confluent-kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from tests.conformance.clients.programs import plan
from tests.conformance.clients.programs.plan import Given

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Scenario:
    def __init__(self, given: Given) -> None:
        self.given = given
        self.admin = AdminClient({"bootstrap.servers": given.bootstrap})

    def run(self) -> dict[str, Any]:
        return {
            "create topic": self.create(),
            "produce": self.produce(),
            "consume": self.consume(),
            "newer group": self.read(2 + len(CODECS) * plan.RECORDS_PER_CODEC, "consumer"),
            "transaction": self.transaction(),
            "offsets": self.offsets(),
            "configs": self.configs(),
            "delete records": self.delete_records(),
            "groups": self.groups(),
            "delete topic": self.delete_topic(),
        }

    def create(self) -> Any:
        topic = NewTopic(self.given.topic, plan.PARTITIONS, 1, config={"retention.ms": plan.RETENTION_MS["before"]})
        self.admin.create_topics([topic])[self.given.topic].result(plan.WAIT_S)
        partitions = plan.settled(
            lambda: self.admin.list_topics(self.given.topic, timeout=plan.WAIT_S).topics[self.given.topic].partitions,
            bool,
        )
        return {
            "partitions": len(partitions),
            "again": error_of(self.admin.create_topics([topic])[self.given.topic].result),
        }

    def produce(self) -> Any:
        told: dict[str, list[int]] = {}
        number = 0
        for codec in CODECS:
            producer = self.producer({"compression.type": codec})
            offsets = told[codec] = []
            for _ in range(plan.RECORDS_PER_CODEC):
                producer.produce(
                    self.given.topic,
                    f"{codec} {number}",
                    b"key",
                    partition=0,
                    timestamp=self.given.base_ms + number,
                    headers={"number": b"%d" % number},
                    on_delivery=lambda error, message, offsets=offsets: offsets.append(
                        error.name() if error else message.offset()
                    ),
                )
                number += 1
            producer.flush(plan.WAIT_S)
        told["other partition"] = self.send_one("other")
        return told

    def consume(self) -> Any:
        told = self.read(1 + len(CODECS) * plan.RECORDS_PER_CODEC, "classic")
        self.send_one("late")
        return {**told, "next": self.read(1, "classic")}

    def read(self, count: int, protocol: str) -> dict[str, Any]:
        """What a new member reads and where the group is afterwards."""
        group = self.given.group if protocol == "classic" else f"{self.given.group}-newer"
        consumer = self.consumer(group, {"group.protocol": protocol})
        consumer.subscribe([self.given.topic])
        read: dict[str, list[Any]] = {}
        poll(
            consumer,
            count,
            lambda message: read.setdefault(str(message.partition()), []).append(
                [message.offset(), message.value().decode(), header_of(message)]
            ),
        )
        consumer.commit(asynchronous=False)
        places = [TopicPartition(self.given.topic, partition) for partition in range(plan.PARTITIONS)]
        committed = {str(one.partition): one.offset for one in consumer.committed(places, plan.WAIT_S)}
        assigned = sorted(one.partition for one in consumer.assignment())
        consumer.close()
        return {"read": read, "committed": committed, "assigned": assigned}

    def transaction(self) -> Any:
        topic = self.given.transactional_topic
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(plan.WAIT_S)
        producer = self.producer({"transactional.id": f"{self.given.name}-id"})
        producer.init_transactions(plan.WAIT_S)
        group = self.consumer(f"{self.given.group}-copied", {})
        for number, (is_committed, values) in enumerate(plan.TRANSACTIONS):
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value, partition=0)
            if number == 0:
                place = TopicPartition(self.given.topic, 0, plan.TRANSACTIONAL_OFFSET)
                producer.send_offsets_to_transaction([place], group.consumer_group_metadata(), plan.WAIT_S)
            producer.flush(plan.WAIT_S)  # what was not sent yet an abort would throw away
            (producer.commit_transaction if is_committed else producer.abort_transaction)(plan.WAIT_S)
        committed = group.committed([TopicPartition(self.given.topic, 0)], plan.WAIT_S)[0].offset
        group.close()
        return {
            "read committed": self.read_topic(topic, "read_committed", 3),
            "read uncommitted": self.read_topic(topic, "read_uncommitted", 5),
            "offset": committed,
        }

    def read_topic(self, topic: str, isolation_level: str, count: int) -> list[str]:
        consumer = self.consumer(f"{self.given.group}-none", {"isolation.level": isolation_level})
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[str] = []
        poll(consumer, count, lambda message: values.append(message.value().decode()))
        consumer.close()
        return values

    def offsets(self) -> Any:
        asked = {
            "earliest": OffsetSpec.earliest(),
            "latest": OffsetSpec.latest(),
            "at": OffsetSpec.for_timestamp(self.given.base_ms + plan.ASKED_TIME),
            "behind": OffsetSpec.for_timestamp(self.given.base_ms + 1_000),
            "of the newest": OffsetSpec.max_timestamp(),
        }
        place = TopicPartition(self.given.topic, 0)
        told = {}
        for name, spec in asked.items():
            found = self.admin.list_offsets({place: spec})[place].result(plan.WAIT_S)
            told[name] = [found.offset, self.given.time_since_base(found.timestamp)]
        return told

    def configs(self) -> Any:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.given.topic)
        before = self.retention(resource)
        resource.add_incremental_config(
            ConfigEntry("retention.ms", plan.RETENTION_MS["after"], incremental_operation=AlterConfigOpType.SET)
        )
        self.admin.incremental_alter_configs([resource])[resource].result(plan.WAIT_S)
        after = plan.settled(lambda: self.retention(resource), lambda told: told[0] == plan.RETENTION_MS["after"])
        return {"before": before, "after": after}

    def retention(self, resource: ConfigResource) -> Any:
        entry = self.admin.describe_configs([resource])[resource].result(plan.WAIT_S)["retention.ms"]
        return [entry.value, entry.source]

    def delete_records(self) -> Any:
        place = TopicPartition(self.given.topic, 0, plan.DELETED_BEFORE)
        deleted = self.admin.delete_records([place])[place].result(plan.WAIT_S)
        begin = TopicPartition(self.given.topic, 0)
        found = self.admin.list_offsets({begin: OffsetSpec.earliest()})[begin].result(plan.WAIT_S)
        return {"low watermark": deleted.low_watermark, "earliest": found.offset}

    def groups(self) -> Any:
        group = self.given.group
        listed = self.admin.list_consumer_groups().result(plan.WAIT_S).valid
        described = self.admin.describe_consumer_groups([group])[group].result(plan.WAIT_S)
        asked = [ConsumerGroupTopicPartitions(group)]
        offsets = self.admin.list_consumer_group_offsets(asked)[group].result(plan.WAIT_S).topic_partitions
        self.admin.delete_consumer_groups([group])[group].result(plan.WAIT_S)
        return {
            "listed": sorted(one.group_id for one in listed if one.group_id.startswith(self.given.name)),
            "state": described.state.name,
            "type": described.type.name,
            "members": len(described.members),
            "offsets": {str(one.partition): one.offset for one in offsets},
            "deleted again": error_of(self.admin.delete_consumer_groups([group])[group].result),
        }

    def delete_topic(self) -> Any:
        self.admin.delete_topics([self.given.topic])[self.given.topic].result(plan.WAIT_S)
        return {"deleted again": error_of(self.admin.delete_topics([self.given.topic])[self.given.topic].result)}

    def send_one(self, value: str) -> list[int]:
        offsets: list[int] = []
        producer = self.producer({})
        producer.produce(
            self.given.topic, value, partition=1, on_delivery=lambda error, message: offsets.append(message.offset())
        )
        producer.flush(plan.WAIT_S)
        return offsets

    def producer(self, settings: dict[str, Any]) -> Producer:
        return Producer({"bootstrap.servers": self.given.bootstrap, "enable.idempotence": True, **settings})

    def consumer(self, group: str, settings: dict[str, Any]) -> Consumer:
        common = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": group}
        return Consumer({"bootstrap.servers": self.given.bootstrap, **common, **settings})


def poll(consumer: Consumer, count: int, take: Callable[[Any], Any]) -> None:
    """`take` gets the first `count` records. Raises TimeoutError."""
    deadline = time.monotonic() + plan.WAIT_S
    while count:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            take(message)
            count -= 1
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} records are missing")


def header_of(message: Any) -> str:
    return "".join(value.decode() for _, value in message.headers() or ())


def error_of(ask: Callable[[float], Any]) -> str:
    try:
        ask(plan.WAIT_S)
    except KafkaException as error:
        name: str = error.args[0].name()
        return name
    return "none"


if __name__ == "__main__":
    plan.tell(Scenario(plan.given(sys.argv)).run())
