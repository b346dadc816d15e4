"""Transactions with stock clients: librdkafka, aiokafka, Kafka's own Java tools, and kafka-transactions."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kio.schema.errors import ErrorCode

from testing import topic_contents, wire
from testing.processes import eventually
from testing.servers import Server
from testing.topic_contents import Isolation, end_offsets
from testing.wire import WireClient
from tests.e2e.conftest import ServerMaker, TopicMaker, create_topic, unique_name
from tests.support.tool_runner import run_tool
from tests.support.transaction_client import TransactionClient

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
MESSAGE_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
LOG_FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
# Of transactions that stay open while tools run, some seconds each or many.
LONG_TIMEOUT_MS = 600_000
# Of those that are to be aborted, not before their records have come.
SHORT_TIMEOUT_MS = 15_000


def transactional(server: Server, transactional_id: str, **config: object) -> Producer:
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": transactional_id, "linger.ms": 0, **config}
    )
    producer.init_transactions(30)
    return producer


def send(producer: Producer, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
        producer.poll(0)


def values_of(server: Server, topic: str, isolation: Isolation) -> list[bytes]:
    """Everything that a consumer of this isolation level is shown of the only partition."""
    return topic_contents.values_of(server.bootstrap, topic, isolation=isolation)[0]


def _value_of(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value


def end_offset(server: Server, topic: str, isolation: Isolation) -> int:
    (offset,) = end_offsets(server.bootstrap, topic, 1, isolation)
    return offset


def test_a_committed_transaction_is_seen_and_an_aborted_one_is_not(server: Server, make_topic: TopicMaker) -> None:
    topics = [make_topic(), make_topic()]
    producer = transactional(server, unique_name("tx"))
    for number in range(6):
        producer.begin_transaction()
        for topic in topics:
            send(producer, topic, [b"%d-%d" % (number, each) for each in range(10)])
        # librdkafka aborts what it could not begin yet (CONCURRENT_TRANSACTIONS), which is INVALID_TXN_STATE: begin first.
        assert producer.flush(30) == 0
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    committed = [b"%d-%d" % (number, each) for number in (0, 2, 4) for each in range(10)]
    everything = {b"%d-%d" % (number, each) for number in range(6) for each in range(10)}
    for topic in topics:
        assert values_of(server, topic, "read_committed") == committed
        # An aborted record that never left the client's queue is not in the log: the others are.
        seen = values_of(server, topic, "read_uncommitted")
        assert [value for value in seen if value in committed] == committed
        assert set(seen) <= everything


def test_an_open_transaction_holds_the_last_stable_offset(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    plain = Producer({"bootstrap.servers": server.bootstrap})
    send(plain, topic, [b"before"])
    assert plain.flush(20) == 0
    producer = transactional(server, unique_name("tx"))
    producer.begin_transaction()
    send(producer, topic, [b"inside"])
    assert producer.flush(20) == 0
    send(plain, topic, [b"after"])
    assert plain.flush(20) == 0
    assert values_of(server, topic, "read_committed") == [b"before"]
    assert values_of(server, topic, "read_uncommitted") == [b"before", b"inside", b"after"]
    assert end_offset(server, topic, "read_committed") == 1
    assert end_offset(server, topic, "read_uncommitted") == 3
    producer.commit_transaction(30)
    eventually(lambda: end_offset(server, topic, "read_committed") == 4, 20, "the marker is seen")
    assert values_of(server, topic, "read_committed") == [b"before", b"inside", b"after"]


def test_a_second_producer_of_the_same_id_fences_the_first(server: Server, make_topic: TopicMaker) -> None:
    topic, transactional_id = make_topic(), unique_name("tx")
    first = transactional(server, transactional_id)
    first.begin_transaction()
    send(first, topic, [b"of the first"])
    assert first.flush(20) == 0
    second = transactional(server, transactional_id)
    with pytest.raises(KafkaException) as refused:
        send(first, topic, [b"of a zombie"])
        first.flush(20)
        first.commit_transaction(30)
    assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError._STATE)
    second.begin_transaction()
    send(second, topic, [b"of the second"])
    second.commit_transaction(30)
    assert values_of(server, topic, "read_committed") == [b"of the second"]


@pytest.mark.campaign("kills")
def test_a_transaction_that_takes_too_long_is_aborted(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    slow = transactional(server, unique_name("tx"), **{"transaction.timeout.ms": SHORT_TIMEOUT_MS})
    slow.begin_transaction()
    send(slow, topic, [b"late"])
    assert slow.flush(20) == 0
    eventually(lambda: end_offset(server, topic, "read_committed") == 2, 60, "the coordinator aborts")
    with pytest.raises(KafkaException):
        slow.commit_transaction(30)
    assert values_of(server, topic, "read_committed") == []


def test_what_is_read_and_what_is_written_commit_together(server: Server, make_topic: TopicMaker) -> None:
    source, target, group = make_topic(), make_topic(), unique_name("copier")
    plain = Producer({"bootstrap.servers": server.bootstrap})
    sent = [b"%d" % number for number in range(500)]
    send(plain, source, sent)
    assert plain.flush(20) == 0
    copied = 0
    for life in range(5):
        consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 30_000,
            }
        )
        consumer.subscribe([source])
        producer = transactional(server, f"{group}-tx")
        for batch_number in range(3):
            messages: list[Message] = []

            def enough(messages: list[Message] = messages, consumer: Consumer = consumer) -> bool:
                messages.extend(message for message in consumer.consume(50, timeout=0.5) if message.error() is None)
                return bool(messages)

            if copied == len(sent):
                break
            eventually(enough, 30, "records come")
            producer.begin_transaction()
            send(producer, target, [_value_of(message) for message in messages])
            position = consumer.position([TopicPartition(source, 0)])
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
            if batch_number == 2 and life < 4:
                producer.abort_transaction(30)  # and this life ends: the next one reads these records again
                break
            producer.commit_transaction(30)
            copied += len(messages)
        consumer.close()
    committed = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group}).committed(
        [TopicPartition(source, 0)], timeout=20
    )
    assert committed[0].offset == copied
    assert values_of(server, target, "read_committed") == sent[:copied]


@pytest.mark.campaign("kills")
def test_aborted_transactions_are_known_after_a_restart_and_over_segments(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    topic = unique_name("topic")
    create_topic(server, topic, config=SMALL_SEGMENTS)
    producer = transactional(server, unique_name("tx"), **{"compression.type": "none"})
    committed: list[bytes] = []
    for number in range(12):
        values = [b"%d-%d-" % (number, each) + b"x" * 2_000 for each in range(150)]
        producer.begin_transaction()
        send(producer, topic, values)
        assert producer.flush(30) == 0
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed += values
    producer.begin_transaction()
    send(producer, topic, [b"open"])
    assert producer.flush(30) == 0
    server.stop()
    server.start()
    assert values_of(server, topic, "read_committed") == committed
    producer.commit_transaction(60)
    eventually(lambda: values_of(server, topic, "read_committed")[-1:] == [b"open"], 30, "the last transaction is seen")
    assert len(values_of(server, topic, "read_uncommitted")) == 12 * 150 + 1


@pytest.mark.campaign("kills")
def test_a_transaction_left_open_is_aborted_after_a_restart_though_nobody_asks(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    topic = unique_name("topic")
    create_topic(server, topic)
    producer = transactional(server, unique_name("tx"), **{"transaction.timeout.ms": 5_000})
    producer.begin_transaction()
    send(producer, topic, [b"left open"])
    assert producer.flush(30) == 0
    server.kill()
    producer.purge()
    del producer  # it would ask for its coordinator
    server.start()
    eventually(lambda: end_offset(server, topic, "read_committed") == 2, 40, "the coordinator aborts")
    assert values_of(server, topic, "read_committed") == []


async def test_aiokafka_commits_aborts_and_sends_offsets(server: Server, make_topic: TopicMaker) -> None:
    topic, source, group = make_topic(), make_topic(), unique_name("aio")
    producer = AIOKafkaProducer(bootstrap_servers=server.bootstrap, transactional_id=unique_name("tx"))
    await producer.start()
    try:
        for number in range(4):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({AioTopicPartition(source, 0): number + 1}, group)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    finally:
        await producer.stop()
    assert values_of(server, topic, "read_committed") == [b"0", b"2"]
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})
    assert reader.committed([TopicPartition(source, 0)], timeout=20)[0].offset == 3
    reader.close()


def test_kafka_transactions_lists_describes_and_aborts(server: Server, make_topic: TopicMaker) -> None:
    topic, transactional_id = make_topic(), unique_name("tx")
    producer = transactional(server, transactional_id, **{"transaction.timeout.ms": LONG_TIMEOUT_MS})
    producer.begin_transaction()
    send(producer, topic, [b"hanging"])
    assert producer.flush(20) == 0

    listed = _tool(server, "list").out
    assert re.search(rf"^{transactional_id}\s+\d+\s+\d+\s+Ongoing", listed, re.MULTILINE), listed
    filtered = _tool(server, "list", "--transactional-id-pattern", f"{transactional_id[:-1]}.").out
    assert [line.split()[0] for line in filtered.splitlines()[1:]] == [transactional_id]
    described = _tool(server, "describe", "--transactional-id", transactional_id).out
    assert "Ongoing" in described and f"{topic}-0" in described, described
    producers = _tool(server, "describe-producers", "--topic", topic, "--partition", "0").out
    columns = producers.splitlines()[1].split()
    assert columns[-1] == "0", producers  # the open transaction's first offset

    _tool(server, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert values_of(server, topic, "read_committed") == []
    assert end_offset(server, topic, "read_committed") == 2
    assert "None" in _tool(server, "describe-producers", "--topic", topic, "--partition", "0").out


def test_no_transaction_hangs(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    producer = transactional(server, unique_name("tx"))
    producer.begin_transaction()
    send(producer, topic, [b"committed"])
    producer.commit_transaction(30)
    found = _tool(server, "find-hanging", "--topic", topic, "--partition", "0", "--max-transaction-timeout", "1").out
    assert len(found.splitlines()) <= 1, found


@pytest.mark.campaign("kills")
def test_a_hanging_transaction_is_found_and_aborted(new_server: ServerMaker) -> None:
    """What no coordinator knows of: records that came while owners of partitions did not ask, as of old brokers."""
    server = new_server()
    server.start()
    topic = unique_name("topic")
    create_topic(server, topic, partitions=2)
    with WireClient(server.port) as connection:
        client = TransactionClient(connection)
        known = client.begun("known", LONG_TIMEOUT_MS)
        assert client.produce("known", known, topic, 0, partition=1) == wire.NONE
        set_verification(server, "false")
        unknown = client.begun("unknown", LONG_TIMEOUT_MS)
        eventually(
            lambda: client.produce("unknown", unknown, topic, 0, version=11) == wire.NONE, 20, "nobody asks any more"
        )
        set_verification(server, "true")
        assert client.state("unknown") == "Empty"
        search = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
        hanging = [line.split() for line in _tool(server, *search).out.splitlines()[1:]]
        assert [row[:4] for row in hanging] == [[topic, "0", str(unknown.producer_id), str(unknown.epoch)]]
        coordinator_epoch, start_offset = hanging[0][4:6]
        assert start_offset == "0" and end_offsets(server.bootstrap, topic, 2, "read_committed") == [0, 0]
        _tool(
            server,
            *("abort", "--topic", topic, "--partition", "0", "--producer-id", str(unknown.producer_id)),
            *("--producer-epoch", str(unknown.epoch), "--coordinator-epoch", coordinator_epoch),
        )
        assert end_offsets(server.bootstrap, topic, 2, "read_committed") == [2, 0]
        assert len(_tool(server, *search, "--topic", topic).out.splitlines()) == 1
        assert client.ended("known", known) is ErrorCode.none
    assert end_offsets(server.bootstrap, topic, 2, "read_committed") == [2, 2]


def set_verification(server: Server, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    entry = ConfigEntry("transaction.partition.verification.enable", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=20)


def test_kafka_transactions_terminates_by_force(server: Server, make_topic: TopicMaker) -> None:
    topic, transactional_id = make_topic(), unique_name("tx")
    producer = transactional(server, transactional_id, **{"transaction.timeout.ms": LONG_TIMEOUT_MS})
    producer.begin_transaction()
    send(producer, topic, [b"of who does not answer"])
    assert producer.flush(20) == 0
    long = _tool(server, "list", "--duration-filter", "3600000").out
    assert transactional_id not in long
    _tool(server, "forceTerminateTransaction", "--transactionalId", transactional_id)
    eventually(lambda: end_offset(server, topic, "read_committed") == 2, 20, "the marker is seen")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(30)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    assert values_of(server, topic, "read_committed") == []


def _tool(server: Server, *arguments: str):  # type: ignore[no-untyped-def]
    return run_tool(TRANSACTIONS, "--bootstrap-server", server.bootstrap, *arguments)


def test_the_java_producer_and_its_performance_tool(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=3)
    run_tool(
        PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--transactional-id", unique_name("perf"), "--transaction-duration-ms", "50"),
        *("--producer-props", f"bootstrap.servers={server.bootstrap}"),
    )
    assert sum(map(len, topic_contents.values_of(server.bootstrap, topic, 3).values())) == 20_000


def test_the_message_copier_copies_exactly_once(server: Server, make_topic: TopicMaker) -> None:
    source, target, group = make_topic(), make_topic(), unique_name("copy")
    plain = Producer({"bootstrap.servers": server.bootstrap})
    sent = [b"%d" % number for number in range(2_000)]
    send(plain, source, sent)
    assert plain.flush(20) == 0
    run_tool(
        MESSAGE_COPIER,
        *("--broker-list", server.bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", target, "--transactional-id", unique_name("tx"), "--consumer-group", group),
        *("--transaction-size", "100", "--max-messages", "2000", "--enable-random-aborts", "--use-group-metadata"),
        timeout_s=100,
    )
    assert values_of(server, target, "read_committed") == sent


def test_the_transaction_log_is_kafkas(server: Server, make_topic: TopicMaker) -> None:
    topic, transactional_id = make_topic(), unique_name("tx")
    producer = transactional(server, transactional_id)
    producer.begin_transaction()
    send(producer, topic, [b"x"])
    producer.commit_transaction(30)

    def is_shown() -> bool:
        """Once it has heard nothing for 8 s the tool ends, however little it has read."""
        printed = run_tool(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", server.bootstrap, "--topic", "__transaction_state", "--from-beginning"),
            *("--formatter", LOG_FORMATTER, "--timeout-ms", "8000"),
            check=False,
        ).out
        print(printed[-4_000:])
        mine = [line for line in printed.splitlines() if transactional_id in line]
        is_begun = any(re.search(r"transactionStatus\W+1\b", line) and topic in line for line in mine)
        return is_begun and any(re.search(r"transactionStatus\W+4\b", line) for line in mine)

    eventually(is_shown, 100, "the transaction's beginning and end are shown")
