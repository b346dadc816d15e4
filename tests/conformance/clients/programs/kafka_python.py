"""kafka-python."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

from tests.conformance.clients.programs import plan
from tests.conformance.clients.programs.plan import Given

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Scenario:
    def __init__(self, given: Given) -> None:
        self.given = given
        self.admin = KafkaAdminClient(bootstrap_servers=given.bootstrap)

    def run(self) -> dict[str, Any]:
        with closing(self.admin):
            return {
                "create topic": self.create(),
                "produce": self.produce(),
                "consume": self.consume(),
                "transaction": self.transaction(),
                "offsets": self.offsets(),
                "configs": self.configs(),
                "delete records": self.delete_records(),
                "groups": self.groups(),
                "delete topic": self.delete_topic(),
            }

    def create(self) -> Any:
        settings = {"retention.ms": plan.RETENTION_MS["before"]}
        wanted = {"num_partitions": plan.PARTITIONS, "replication_factor": 1, "configs": settings}
        self.admin.create_topics({self.given.topic: wanted}, wait_for_metadata=True)
        (described,) = self.admin.describe_topics([self.given.topic])
        return {
            "partitions": len(described["partitions"]),
            "again": error_of(lambda: self.admin.create_topics({self.given.topic: wanted})),
        }

    def produce(self) -> Any:
        told: dict[str, Any] = {}
        number = 0
        for codec in CODECS:
            with closing(self.producer(compression_type=None if codec == "none" else codec)) as producer:
                sent = []
                for _ in range(plan.RECORDS_PER_CODEC):
                    sent.append(
                        producer.send(
                            self.given.topic,
                            f"{codec} {number}".encode(),
                            b"key",
                            [("number", b"%d" % number)],
                            0,
                            self.given.base_ms + number,
                        )
                    )
                    number += 1
                told[codec] = [one.get(plan.WAIT_S).offset for one in sent]
        told["other partition"] = self.send_one(b"other")
        return told

    def send_one(self, value: bytes) -> list[int]:
        with closing(self.producer()) as producer:
            return [producer.send(self.given.topic, value, partition=1).get(plan.WAIT_S).offset]

    def consume(self) -> Any:
        told = self.read(1 + len(CODECS) * plan.RECORDS_PER_CODEC)
        self.send_one(b"late")
        return {**told, "next": self.read(1)}

    def read(self, count: int) -> dict[str, Any]:
        """What a new member reads and where the group is afterwards."""
        with closing(self.consumer(self.given.topic, group_id=self.given.group)) as consumer:
            read: dict[str, list[Any]] = {}
            for record in records_of(consumer, count):
                headers = b"".join(value for _, value in record.headers).decode()
                read.setdefault(str(record.partition), []).append([record.offset, record.value.decode(), headers])
            consumer.commit()
            places = [TopicPartition(self.given.topic, partition) for partition in range(plan.PARTITIONS)]
            committed = {str(place.partition): consumer.committed(place) for place in places}
            assigned = sorted(place.partition for place in consumer.assignment())
        return {"read": read, "committed": committed, "assigned": assigned}

    def transaction(self) -> Any:
        topic = self.given.transactional_topic
        self.admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        group = f"{self.given.group}-copied"
        place = TopicPartition(self.given.topic, 0)
        with closing(self.producer(transactional_id=f"{self.given.name}-id")) as producer:
            producer.init_transactions()
            for number, (is_committed, values) in enumerate(plan.TRANSACTIONS):
                producer.begin_transaction()
                for value in values:
                    producer.send(topic, value.encode(), partition=0)
                if number == 0:
                    offsets = {place: OffsetAndMetadata(plan.TRANSACTIONAL_OFFSET, "", -1)}
                    producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(group, -1, "", None))
                producer.flush()
                if is_committed:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        with closing(self.consumer(group_id=group)) as consumer:
            committed = consumer.committed(place)
        return {
            "read committed": self.read_topic(topic, "read_committed", 3),
            "read uncommitted": self.read_topic(topic, "read_uncommitted", 5),
            "offset": committed,
        }

    def read_topic(self, topic: str, isolation_level: str, count: int) -> list[str]:
        with closing(self.consumer(isolation_level=isolation_level)) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            return [record.value.decode() for record in records_of(consumer, count)]

    def offsets(self) -> Any:
        place = TopicPartition(self.given.topic, 0)
        with closing(self.consumer()) as consumer:
            at = consumer.offsets_for_times({place: self.given.base_ms + plan.ASKED_TIME})[place]
            behind = consumer.offsets_for_times({place: self.given.base_ms + 1_000})[place]
            return {
                "earliest": consumer.beginning_offsets([place])[place],
                "latest": consumer.end_offsets([place])[place],
                "at": [at.offset, self.given.time_since_base(at.timestamp)],
                "behind": behind,
            }

    def configs(self) -> Any:
        before = self.retention()
        changed = {"retention.ms": plan.RETENTION_MS["after"]}
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.given.topic, changed)])
        after = plan.settled(self.retention, lambda told: told["value"] == plan.RETENTION_MS["after"])
        return {"before": before, "after": after}

    def retention(self) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.given.topic, ["retention.ms"])
        entry = self.admin.describe_configs([resource])["topic"][self.given.topic]["retention.ms"]
        return {name: str(entry[name]) for name in sorted(entry)}

    def delete_records(self) -> Any:
        place = TopicPartition(self.given.topic, 0)
        deleted = self.admin.delete_records({place: plan.DELETED_BEFORE})
        with closing(self.consumer()) as consumer:
            return {
                "low watermark": deleted[place]["low_watermark"],
                "earliest": consumer.beginning_offsets([place])[place],
            }

    def groups(self) -> Any:
        group = self.given.group
        listed = self.admin.list_groups()
        described = self.admin.describe_groups([group])[group]
        offsets = self.admin.list_group_offsets(group)[group]
        return {
            "listed": sorted(one["group_id"] for one in listed if one["group_id"].startswith(self.given.name)),
            "state": str(described["group_state"]),
            "members": len(described["members"]),
            "offsets": {str(place.partition): one.offset for place, one in sorted(offsets.items())},
            "deleted": self.admin.delete_groups([group])[group],
            "deleted again": self.admin.delete_groups([group])[group],
        }

    def delete_topic(self) -> Any:
        self.admin.delete_topics([self.given.topic])
        return {"deleted again": error_of(lambda: self.admin.delete_topics([self.given.topic]))}

    def producer(self, **settings: Any) -> KafkaProducer:
        return KafkaProducer(bootstrap_servers=self.given.bootstrap, enable_idempotence=True, **settings)

    def consumer(self, *topics: str, **settings: Any) -> KafkaConsumer:
        common = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        return KafkaConsumer(*topics, bootstrap_servers=self.given.bootstrap, **common, **settings)


def records_of(consumer: KafkaConsumer, count: int) -> list[Any]:
    """Raises TimeoutError."""
    records: list[Any] = []
    deadline = time.monotonic() + plan.WAIT_S
    while len(records) < count:
        for some in consumer.poll(timeout_ms=500).values():
            records += some
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count - len(records)} records are missing")
    return records


def error_of(ask: Any) -> str:
    try:
        ask()
    except KafkaError as error:
        return type(error).__name__
    return "none"


if __name__ == "__main__":
    plan.tell(Scenario(plan.given(sys.argv)).run())
