"""confluent-kafka (librdkafka): codecs, the idempotent producer, headers, times, positions, and the admin client."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]


def produce(server: Server, topic: str, values: list[bytes], partition: int = 0, **config: object) -> list[Message]:
    """The acknowledged messages, with their offsets. Fails the test when one was refused."""
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    producer = Producer({"bootstrap.servers": server.bootstrap, **config})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(30) == 0
    return delivered


def assigned_consumer(server: Server, topic: str, offset: int = OFFSET_BEGINNING, **config: object) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": unique_name("assigned"),
            "enable.auto.commit": False,
            **config,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def take(consumer: Consumer, count: int, timeout_s: float = 20) -> list[Message]:
    """Exactly `count` messages. Fails the test on an error or when they do not come."""
    messages: list[Message] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(messages), timeout=0.5):
            assert message.error() is None, message.error()
            messages.append(message)
        return len(messages) == count

    eventually(enough, timeout_s, f"{count} messages", interval_s=0)
    return messages


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(server: Server, make_topic: TopicMaker, codec: str) -> None:
    topic = make_topic()
    values = [b"%d " % number + b"compressible " * 20 for number in range(1_000)]
    delivered = produce(server, topic, values, **{"compression.type": codec, "linger.ms": 20})  # type: ignore[arg-type]
    assert [message.offset() for message in delivered] == list(range(1_000))
    consumer = assigned_consumer(server, topic, **{"check.crcs": True})
    assert [message.value() for message in take(consumer, 1_000)] == values
    consumer.close()


def test_idempotent_producer_keeps_order_and_gives_dense_offsets(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    values = [b"%d" % number for number in range(20_000)]
    config = {"enable.idempotence": True, "batch.num.messages": 100, "linger.ms": 1}
    delivered = produce(server, topic, values, **config)
    assert [message.offset() for message in delivered] == list(range(20_000))
    consumer = assigned_consumer(server, topic)
    assert [message.value() for message in take(consumer, 20_000)] == values
    consumer.close()


def test_key_headers_and_empty_value_are_kept(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("nothing", None)]
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(topic, None, key=b"tombstone", headers=headers, timestamp=1_234_567_890_123)
    producer.produce(topic, b"", key=b"")
    assert producer.flush(20) == 0
    consumer = assigned_consumer(server, topic)
    tombstone, empty = take(consumer, 2)
    assert (tombstone.key(), tombstone.value(), tombstone.headers()) == (b"tombstone", None, headers)
    assert tombstone.timestamp()[1] == 1_234_567_890_123
    assert empty.value() == b""
    consumer.close()


def test_large_records(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"max.message.bytes": "6000000"})
    values = [bytes([number]) * 5_000_000 for number in range(4)]
    produce(server, topic, values, **{"message.max.bytes": 6_000_000})
    consumer = assigned_consumer(server, topic)
    assert [message.value() for message in take(consumer, 4)] == values
    consumer.close()


def test_too_large_record_is_refused_and_the_next_is_taken(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"max.message.bytes": "10000"})
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
    for value in (b"x" * 20_000, b"fits"):
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
    assert errors[0] is not None
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert errors[1] is None


def test_offsets_for_times_and_watermarks(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(10):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1_000)
        assert producer.flush(20) == 0
    consumer = assigned_consumer(server, topic)

    def offset_at(timestamp_ms: int) -> int:
        found = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=10)[0]
        assert found.error is None
        return int(found.offset)

    assert offset_at(0) == 0
    assert offset_at(1_700_000_004_000) == 4
    assert offset_at(1_700_000_004_001) == 5
    assert offset_at(1_700_000_009_001) == -1, "later than the last record: the end"
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 10)
    consumer.close()


def test_seek_goes_back_and_forth(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    produce(server, topic, [b"%d" % number for number in range(100)], **{"batch.num.messages": 7})
    consumer = assigned_consumer(server, topic)
    assert take(consumer, 1)[0].offset() == 0
    for offset in (95, 3, 50):
        consumer.seek(TopicPartition(topic, 0, offset))
        assert [message.offset() for message in take(consumer, 3)] == [offset, offset + 1, offset + 2]
    consumer.close()


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"0"), ("latest", b"later")])
def test_offset_out_of_range_resets(server: Server, make_topic: TopicMaker, reset: str, expected: bytes) -> None:
    topic = make_topic()
    produce(server, topic, [b"0", b"1"])
    consumer = assigned_consumer(server, topic, offset=1_000, **{"auto.offset.reset": reset})
    messages: list[Message] = []

    def arrived() -> list[Message]:
        message = consumer.poll(0.3)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
        elif reset == "latest":
            # Whenever the reset took place, a record produced after it is the first one seen.
            produce(server, topic, [b"later"])
        return messages

    assert eventually(arrived, 30, "a record after the reset")[0].value() == expected
    consumer.close()


def test_offset_out_of_range_is_an_error_without_a_reset(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    produce(server, topic, [b"0"])
    consumer = assigned_consumer(server, topic, offset=1_000, **{"auto.offset.reset": "error"})
    message = eventually(lambda: consumer.poll(0.5), 20, "the error")
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


def test_tail_read_is_quick(server: Server, make_topic: TopicMaker) -> None:
    """A waiting fetch is answered by the produce, not by its timeout of 60 seconds."""
    topic = make_topic()
    consumer = assigned_consumer(server, topic, **{"fetch.wait.max.ms": 60_000, "socket.timeout.ms": 90_000})
    for number in range(5):
        produce(server, topic, [b"%d" % number])
        assert take(consumer, 1, timeout_s=10)[0].value() == b"%d" % number
    consumer.close()


def test_admin_client(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topic = unique_name("admin")
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(20)
    with pytest.raises(KafkaException) as again:
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(20)
    assert again.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS

    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
    eventually(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4, 10, "four partitions")

    resource = ConfigResource(ResourceType.TOPIC, topic)
    entry = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(20)
    described = admin.describe_configs([resource])[resource].result(20)
    assert described["retention.ms"].value == "7200000"
    assert not described["retention.ms"].is_default
    assert described["cleanup.policy"].is_default

    produce(server, topic, [b"0", b"1", b"2"], partition=3)
    where = TopicPartition(topic, 3)
    assert admin.list_offsets({where: OffsetSpec.latest()})[where].result(20).offset == 3
    deleted = admin.delete_records([TopicPartition(topic, 3, 2)])
    assert next(iter(deleted.values())).result(20).low_watermark == 2
    assert admin.list_offsets({where: OffsetSpec.earliest()})[where].result(20).offset == 2

    cluster = admin.describe_cluster().result(20)
    assert cluster.cluster_id
    assert [node.port for node in cluster.nodes] == [server.port]

    admin.delete_topics([topic])[topic].result(20)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, 20, "the topic is gone")
    with pytest.raises(KafkaException) as missing:
        admin.delete_topics([topic])[topic].result(20)
    assert missing.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "config", "error"),
    [
        ("no spaces", {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, {}, KafkaError.TOPIC_EXCEPTION),
        ("bad-value", {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
        ("bad-name", {"no.such.config": "1"}, KafkaError.INVALID_CONFIG),
        ("bad-policy", {"cleanup.policy": "burn"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_bad_topics_are_refused(server: Server, name: str, config: dict[str, str], error: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topic = NewTopic(name, num_partitions=1, replication_factor=1, config=config)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])[name].result(20)
    assert refused.value.args[0].code() == error
    named = next(iter(config.values())) if error == KafkaError.INVALID_CONFIG else name
    message = refused.value.args[0].str()
    assert named in message or next(iter(config), name) in message, message


def test_group_admin(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("group")
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    assert group in {listed.group_id for listed in admin.list_consumer_groups().result(20).valid}
    described = admin.describe_consumer_groups([group])[group].result(20)
    assert described.state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(20)
    with pytest.raises(KafkaException) as missing:
        admin.delete_consumer_groups([group])[group].result(20)
    assert missing.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
