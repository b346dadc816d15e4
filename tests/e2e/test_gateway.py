"""The gRPC gateway before a real server, with clients that grpc_tools generates from the .proto file."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import grpc
import pytest
from confluent_kafka import Consumer, TopicPartition
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, create_topic, unique_name
from tests.support.gateway import Gateway, Subscriber, generated, running_gateway

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

WAIT_S = 30.0
MESSAGE_BYTES_MAX = 1 << 20


class Clients(NamedTuple):
    """A channel to the gateway and its generated stubs."""

    messages: ModuleType
    publisher: Any
    subscriber: Any
    admin: Any
    channel: grpc.Channel

    def publish(self, topic: str, *values: bytes, **fields: Any) -> Any:
        records = [self.messages.Record(value=value, **fields) for value in values]
        return self.publisher.Publish(self.messages.PublishRequest(topic=topic, records=records), timeout=WAIT_S)

    def subscribe(self, *topics: str, **start: Any) -> Subscriber:
        return Subscriber(self.subscriber, self.messages, topics=topics, **start)


@pytest.fixture(scope="module")
def gateway(shared_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {
        "BMQ_GATEWAY_MESSAGE_BYTES_MAX": str(MESSAGE_BYTES_MAX),
        "BMQ_GATEWAY_WINDOW_BYTES_MAX": "16384",
        "BMQ_GATEWAY_CREDIT_MAX": "1000",
        "BMQ_GATEWAY_START_WAIT_MAX_MS": "5000",
    }
    with running_gateway(shared_server, tmp_path_factory.mktemp("gateway"), settings) as one:
        yield one


@pytest.fixture(scope="module")
def clients(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    messages, stubs = generated(tmp_path_factory.mktemp("stubs"))
    with grpc.insecure_channel(gateway.address) as channel:
        yield Clients(
            messages,
            stubs.PublisherStub(channel),
            stubs.SubscriberStub(channel),
            stubs.AdminStub(channel),
            channel,
        )


def refusal(call: Any) -> tuple[str, str, str]:
    """Status code, sentence and Kafka's error of a call that fails."""
    with pytest.raises(grpc.RpcError) as failed:
        call()
    error = failed.value
    trailing = dict(error.trailing_metadata() or ())
    return error.code().name, error.details(), trailing.get("kafka-error", "")


def open_subscribers(gateway: Gateway) -> int:
    with urllib.request.urlopen(f"http://{gateway.metrics}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith("bmq_gateway_subscribers "))))


def test_records_are_published_with_their_fields_and_stock_clients_read_them(
    server: Server, clients: Clients, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=3)
    header = clients.messages.Header
    answer = clients.publish(
        topic,
        b"a",
        b"b",
        key=b"k",
        partition=2,
        timestamp_ms=1234,
        headers=[header(name="h"), header(name="h", value=b"")],
    )
    assert (list(answer.partitions), list(answer.offsets), list(answer.failures)) == ([2, 2], [0, 1], [])
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": unique_name("g"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        found = eventually(lambda: consumer.consume(2, timeout=0.5), WAIT_S, "the records are read")
        assert (found[0].key(), found[0].value(), found[0].timestamp()[1]) == (b"k", b"a", 1234)
        assert found[0].headers() == [("h", None), ("h", b"")]
    finally:
        consumer.close()


def test_missing_and_empty_values_and_keys_stay_what_they_are(
    server: Server, clients: Clients, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    fields: list[dict[str, bytes]] = [{}, {"value": b""}, {"key": b""}, {"key": b"k"}, {"key": b"k", "value": b"v"}]
    records = [clients.messages.Record(**one) for one in fields]
    answer = clients.publisher.Publish(clients.messages.PublishRequest(topic=topic, records=records), timeout=WAIT_S)
    assert (list(answer.offsets), list(answer.failures)) == ([0, 1, 2, 3, 4], [])
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": unique_name("g")})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found = eventually(lambda: consumer.consume(5, timeout=0.5), WAIT_S, "the records are read")
        assert [(one.key(), one.value()) for one in found] == [(one.get("key"), one.get("value")) for one in fields]
    finally:
        consumer.close()


def test_a_stream_answers_in_order_and_goes_on_behind_a_wrong_request(clients: Clients, make_topic: TopicMaker) -> None:
    topic, messages = make_topic(), clients.messages

    def requests() -> Iterator[Any]:
        for number in range(200):
            name = "no-such-topic" if number == 100 else topic
            yield messages.PublishRequest(topic=name, records=[messages.Record(value=b"%d" % number)] * 3)

    answers = list(clients.publisher.PublishStream(requests(), timeout=WAIT_S))
    assert [list(one.offsets) for one in answers[:100]] == [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(100)]
    assert [(one.count, one.kafka_error) for one in answers[100].failures] == [(3, "UNKNOWN_TOPIC_OR_PARTITION")]
    assert [one.offsets[0] for one in answers[101:]] == [3 * n for n in range(100, 199)]


def test_a_subscriber_gets_its_credit_and_no_more(clients: Clients, make_topic: TopicMaker) -> None:
    topic = make_topic()
    clients.publish(topic, *[b"%d" % number for number in range(100)])
    one = clients.subscribe(topic, position=clients.messages.POSITION_EARLIEST, credit=10)
    one.started()
    assert [record.offset for record in one.take(10)] == list(range(10))
    one.credit(5)
    one.half_close()
    assert [record.offset for record in one.take(5)] == list(range(10, 15))
    assert list(one.call) == [], "after the half-close the stream ends when its credit is used up"


@pytest.mark.safety
def test_slow_and_fast_subscribers_get_every_record_in_order(clients: Clients, make_topic: TopicMaker) -> None:
    """The window holds 16 KiB: the slow one falls behind it, and reads from the cluster again."""
    topic = make_topic()
    slow, fast = clients.subscribe(topic), clients.subscribe(topic, credit=1000)
    slow.started()
    fast.started()
    sent = 0
    for _ in range(5):
        clients.publish(topic, *[b"%0200d" % number for number in range(sent, sent + 100)])
        sent += 100
    assert [int(record.value) for record in fast.take(sent)] == list(range(sent))
    found = []
    for _ in range(10):
        slow.credit(50)
        found += [int(record.value) for record in slow.take(50)]
    assert found == list(range(sent))
    clients.publish(topic, b"1000")
    slow.credit(1)
    assert slow.take(1)[0].value == b"1000"
    for one in (slow, fast):
        one.close()


def test_subscribers_begin_at_the_end_at_a_time_and_take_what_passes_their_filter(
    clients: Clients, make_topic: TopicMaker
) -> None:
    topic, header = make_topic(), clients.messages.Header
    for number in range(6):
        tag = header(name="bmq-tag", value=b"odd" if number % 2 else b"even")
        clients.publish(topic, b"%d" % number, timestamp_ms=1_000 * (number + 1), headers=[tag])
    by_time = clients.subscribe(topic, timestamp_ms=3_500, credit=10)
    assert [record.value for record in by_time.take(3)] == [b"3", b"4", b"5"]
    by_tag = clients.subscribe(topic, position=clients.messages.POSITION_EARLIEST, tags=["odd"], credit=10)
    assert [record.value for record in by_tag.take(3)] == [b"1", b"3", b"5"]
    at_end = clients.subscribe(topic, credit=10)
    at_end.started()
    clients.publish(topic, b"new")
    assert [record.value for record in at_end.take(1)] == [b"new"]
    for one in (by_time, by_tag, at_end):
        one.close()


@pytest.mark.safety
def test_a_share_group_settles_record_by_record(server: Server, clients: Clients, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("share")
    one = clients.subscribe(topic, group=group, credit=4)
    assert one.started().group_kind == clients.messages.GROUP_KIND_SHARE
    clients.publish(topic, *[b"%d" % number for number in range(10)])
    first = one.take(4)
    assert [(record.value, record.delivery_count) for record in first] == [(b"%d" % n, 1) for n in range(4)]
    one.acknowledge([1])
    one.release([2])
    one.reject([3])
    one.wait_settled(3)
    assert (sorted(one.settled), one.not_settled) == ([1, 2, 3], [])
    one.close()  # delivery 4 goes back to the group
    two = clients.subscribe(topic, group=group, credit=100)
    rest = two.take(8)
    assert sorted((int(record.value), record.delivery_count) for record in rest) == [
        (1, 2),
        (3, 2),
        *[(number, 1) for number in range(4, 10)],
    ]
    two.acknowledge([record.delivery_id for record in rest])
    two.half_close()
    two.wait_settled(8)
    assert list(two.call) == []


@pytest.mark.safety
def test_streams_of_a_consumer_group_share_records_and_commit_what_is_settled(
    server: Server, clients: Clients, make_topic: TopicMaker
) -> None:
    topic, group, messages = make_topic(partitions=2), unique_name("group"), clients.messages
    start = {"group": group, "group_kind": messages.GROUP_KIND_CONSUMER, "position": messages.POSITION_EARLIEST}
    one, two = clients.subscribe(topic, **start, credit=20), clients.subscribe(topic, **start, credit=20)
    one.started()
    two.started()
    for partition in range(2):
        clients.publish(topic, *[b"%d" % number for number in range(20)], partition=partition)
    held, more = one.take(20), two.take(20)
    places = {(record.partition, record.offset) for record in [*held, *more]}
    assert len(places) == 40, "no record went to both"
    two.acknowledge([record.delivery_id for record in more])
    two.wait_settled(20)
    one.close()  # what it held goes to the other one
    two.credit(20)
    again = two.take(20)
    assert {(record.partition, record.offset) for record in again} == {(r.partition, r.offset) for r in held}
    assert {record.delivery_count for record in again} == {2}
    two.acknowledge([record.delivery_id for record in again[:10]])
    two.reject([record.delivery_id for record in again[10:]])
    two.half_close()
    two.wait_settled(40)
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})
    try:
        wanted = [TopicPartition(topic, partition) for partition in range(2)]
        eventually(
            lambda: [place.offset for place in consumer.committed(wanted, timeout=WAIT_S)] == [20, 20],
            WAIT_S,
            "everything is committed",
        )
    finally:
        consumer.close()


def test_admin_basics(server: Server, clients: Clients) -> None:
    topic, messages, admin = unique_name("made"), clients.messages, clients.admin
    admin.CreateTopic(messages.CreateTopicRequest(topic=topic, validate_only=True), timeout=WAIT_S)
    admin.CreateTopic(
        messages.CreateTopicRequest(topic=topic, partitions=2, configs={"retention.ms": "1000000"}), timeout=WAIT_S
    )
    code, sentence, error = refusal(lambda: admin.CreateTopic(messages.CreateTopicRequest(topic=topic), timeout=WAIT_S))
    assert (code, error) == ("ALREADY_EXISTS", "TOPIC_ALREADY_EXISTS"), sentence
    clients.publish(topic, b"x", partition=1)
    described = admin.DescribeTopic(messages.DescribeTopicRequest(topic=topic), timeout=WAIT_S)
    assert [(one.earliest_offset, one.latest_offset) for one in described.partitions] == [(0, 0), (0, 1)]
    assert topic in admin.ListTopics(messages.ListTopicsRequest(), timeout=WAIT_S).topics
    share, consumer = unique_name("share"), unique_name("consumer")
    one = clients.subscribe(topic, group=share, credit=1)
    two = clients.subscribe(topic, group=consumer, group_kind=messages.GROUP_KIND_CONSUMER, credit=1)
    one.started()
    two.started()

    def kinds() -> list[tuple[str, str] | None]:
        listed = admin.ListGroups(messages.ListGroupsRequest(), timeout=WAIT_S).groups
        found = {group.group: (group.type, group.state) for group in listed}
        return [found.get(share), found.get(consumer)]

    eventually(lambda: kinds() == [("share", "stable"), ("classic", "stable")], WAIT_S, "both groups are stable")
    two.close()
    one.close()
    admin.DeleteTopic(messages.DeleteTopicRequest(topic=topic), timeout=WAIT_S)
    assert (
        refusal(lambda: admin.DescribeTopic(messages.DescribeTopicRequest(topic=topic), timeout=WAIT_S))[0]
        == "NOT_FOUND"
    )


def test_health_and_reflection_are_on(clients: Clients) -> None:
    health = health_pb2_grpc.HealthStub(clients.channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ("", "bmq.gateway.v1.Subscriber"):
        assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S).status == serving
    stub = reflection_pb2_grpc.ServerReflectionStub(clients.channel)
    asked = iter(
        [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="bmq.gateway.v1.Publisher"),
        ]
    )
    listed, described = stub.ServerReflectionInfo(asked, timeout=WAIT_S)
    names = {service.name for service in listed.list_services_response.service}
    assert {"bmq.gateway.v1.Publisher", "bmq.gateway.v1.Admin", "grpc.health.v1.Health"} <= names
    assert b"PublishStream" in described.file_descriptor_response.file_descriptor_proto[0]


def test_bad_calls_are_one_sentence_each(gateway: Gateway, clients: Clients, make_topic: TopicMaker) -> None:
    topic, messages = make_topic(), clients.messages
    unknown = clients.channel.unary_unary("/bmq.gateway.v1.Publisher/Forget")
    assert refusal(lambda: unknown(b"", timeout=WAIT_S))[0] == "UNIMPLEMENTED"
    publish = clients.channel.unary_unary("/bmq.gateway.v1.Publisher/Publish")
    code, sentence, _ = refusal(lambda: publish(bytes(100_000_000), timeout=WAIT_S))
    assert (code, "larger than max" in sentence) == ("RESOURCE_EXHAUSTED", True)
    cases = [
        (clients.subscribe(), "INVALID_ARGUMENT", "has no topic"),
        (clients.subscribe("no-such-topic"), "NOT_FOUND", "Unknown topic"),
        (clients.subscribe(topic, credit=1001), "RESOURCE_EXHAUSTED", "1001 records of credit"),
        (clients.subscribe(topic, filter="tag ="), "INVALID_ARGUMENT", ""),
    ]
    first = clients.subscribe(topic)
    first.started()
    first.send(start=messages.Start(topics=[topic]))
    cases.append((first, "INVALID_ARGUMENT", "Start came twice"))
    plain = clients.subscribe(topic)
    plain.acknowledge([1])
    cases.append((plain, "INVALID_ARGUMENT", "nothing to settle"))
    never = clients.subscribe(topic, group=unique_name("g"), group_kind=messages.GROUP_KIND_CONSUMER)
    never.acknowledge([17])
    cases.append((never, "INVALID_ARGUMENT", "delivery 17 was never made on this stream"))
    for subscriber, status, part in cases:
        error = subscriber.failure()
        assert (error.code().name, part in error.details()) == (status, True), error
        subscriber.half_close()
    assert clients.publish(topic, b"goes on").offsets[0] == 0
    eventually(lambda: open_subscribers(gateway) == 0, WAIT_S, "no subscription is left")


def test_a_stream_without_start_and_cancelled_ones_leave_nothing(
    gateway: Gateway, clients: Clients, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    silent = clients.subscriber.Subscribe(iter(list, None), timeout=WAIT_S)
    silent.cancel()
    many = [clients.subscribe(topic, credit=10) for _ in range(50)]
    many += [clients.subscribe(topic, group=unique_name("left"), credit=10) for _ in range(2)]
    for one in many:
        one.started()
    # Those of an earlier test, and the silent one, may still be leaving.
    eventually(lambda: open_subscribers(gateway) == 52, WAIT_S, "these subscriptions alone are open")
    for one in many:
        one.close()
    eventually(lambda: open_subscribers(gateway) == 0, WAIT_S, "no subscription is left")


def test_a_topic_that_is_deleted_ends_its_subscribers(server: Server, clients: Clients) -> None:
    topic = unique_name("deleted")
    create_topic(server, topic)
    one = clients.subscribe(topic, credit=10)
    one.started()
    clients.admin.DeleteTopic(clients.messages.DeleteTopicRequest(topic=topic), timeout=WAIT_S)
    error = one.failure()
    assert error.code().name == "NOT_FOUND", error


def test_a_cluster_that_is_away_is_unavailable(clients: Clients, tmp_path: Path, new_server: Any) -> None:
    server = new_server()
    server.start()
    create_topic(server, "t")
    settings = {"BMQ_GATEWAY_LOGIN_WAIT_MAX_MS": "1000"}
    with running_gateway(server, tmp_path / "gateway", settings) as gateway:
        server.kill()
        _, stubs = clients.messages, clients.admin
        with grpc.insecure_channel(gateway.address) as channel:
            admin = type(stubs)(channel)
            code, sentence, _ = refusal(lambda: admin.ListTopics(clients.messages.ListTopicsRequest(), timeout=WAIT_S))
        assert (code, sentence) == ("UNAVAILABLE", "the cluster does not answer; try again")
