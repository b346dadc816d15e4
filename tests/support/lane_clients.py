"""Stock consumers and producers of swimlanes."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType


def enable_lanes(bootstrap: str, group_id: str, **configs: str) -> None:
    """`configs`: further ones, with underscores for dots."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in {"bmq.lane.enable": "true", **configs}.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(20)


class Reader:
    """A consumer; `values` are those of its records so far."""

    def __init__(self, bootstrap: str, group_id: str, client_id: str, *topics: str, commits: bool = True) -> None:
        self.values: Counter[str] = Counter()
        self.topics: Counter[str] = Counter()
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": commits,
            }
        )
        self.consumer.subscribe(list(topics))

    def read(self) -> None:
        for message in self.consumer.consume(100, timeout=0.2):
            assert message.error() is None, message.error()
            self.values[message.value().decode()] += 1
            self.topics[message.topic()] += 1


def send(bootstrap: str, topic: str, values: list[tuple[str, str]], codec: str = "none") -> None:
    """`values`: (value, lane)."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": codec})
    for value, lane in values:
        producer.produce(topic, value.encode(), partition=0, headers=[("x-lane", lane.encode())] if lane else [])
    assert producer.flush(30) == 0
