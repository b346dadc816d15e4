"""A producer waits while a named group is too far behind, and goes on once it has caught up: librdkafka, our server."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.bmq_only]

VALUE = bytes(10_000)
# Longer than a record takes that is only slow, on a busy machine.
HELD_S = 3.0


def alter(server: Server, topic: str, **configs: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def test_a_producer_waits_for_the_slowest_group(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("slow")
    with pytest.raises(KafkaException) as refused:
        alter(server, topic, bmq_backlog_quota_bytes="50000")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert "bmq.retention.groups must name at least one" in refused.value.args[0].str()
    alter(server, topic, bmq_retention_groups=group, bmq_backlog_quota_bytes="50000")

    delivered: list[Message] = []
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        delivered.append(message) if error is None else failed.append(error)

    producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    sent = 0

    def is_held() -> bool:
        nonlocal sent
        if len(delivered) == sent:
            producer.produce(topic, VALUE, partition=0, on_delivery=on_delivery)
            sent += 1
        producer.poll(0.2)
        if len(delivered) < sent:
            producer.flush(HELD_S)
        return len(delivered) < sent and sent > 5

    eventually(is_held, 60, "a record that waits")
    assert len(delivered) == sent - 1 and not failed, "the record waits, it does not fail"

    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, len(delivered))], asynchronous=False)
    consumer.close()
    assert producer.flush(30) == 0
    assert [message.offset() for message in delivered] == list(range(sent)) and not failed
