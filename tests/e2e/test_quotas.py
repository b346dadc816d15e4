"""Client quotas: set by kafka-configs, kept to by librdkafka and Kafka's own tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from testing.java import CONFIGS, TOPICS, ToolResult
from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

LIMIT = 50_000
VALUE = bytes(10_000)
VALUES_MIN = 66
"""More than a client may have at once, which is 11 s' worth."""
TOLD_WAIT_S = 60.0


def configs(server: Server, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(CONFIGS, "--bootstrap-server", server.bootstrap, *arguments, check=check)


SetQuota = Callable[..., None]


@pytest.fixture
def set_quota(server: Server) -> Iterator[SetQuota]:
    """Sets quotas of an entity, as kafka-configs names it; all are removed at the end."""
    entities: list[tuple[tuple[str, ...], list[str]]] = []

    def set_one(*entity: str, **limits: float) -> None:
        entities.append((entity, list(limits)))
        text = ",".join(f"{key}={value}" for key, value in limits.items())
        done = configs(server, "--alter", *entity, "--add-config", text)
        assert "Completed updating config for" in done.out, done.text

    yield set_one
    for entity, keys in entities:
        configs(server, "--alter", *entity, "--delete-config", ",".join(keys))


@pytest.mark.parametrize(
    ("entity", "limits", "told"),
    [
        (("--entity-type", "users", "--entity-name", "{name}"), {"producer_byte_rate": 1024.0}, "user-principal"),
        (("--entity-type", "clients", "--entity-name", "{name}"), {"request_percentage": 12.5}, "client-id"),
        (("--entity-type", "ips", "--entity-name", "10.99.0.1"), {"connection_creation_rate": 5.0}, "ip"),
        (
            ("--entity-type", "users", "--entity-name", "{name}", "--entity-type", "clients", "--entity-default"),
            {"consumer_byte_rate": 2048.0, "controller_mutation_rate": 0.5},
            "user-principal",
        ),
    ],
)
def test_the_tool_sets_shows_and_removes_them(
    server: Server, set_quota: SetQuota, entity: tuple[str, ...], limits: dict[str, float], told: str
) -> None:
    named = tuple(part.format(name=unique_name("entity")) for part in entity)
    set_quota(*named, **limits)

    def shown() -> str:
        out = configs(server, "--describe", *named).out
        return out if all(f"{key}={value}" in out for key, value in limits.items()) else ""

    assert told in eventually(shown, timeout_s=20, what="the quotas are described")


def test_a_quota_that_would_let_nothing_through_is_refused(server: Server) -> None:
    entity = ("--entity-type", "clients", "--entity-name", unique_name("none"))
    done = configs(server, "--alter", *entity, "--add-config", "producer_byte_rate=0", check=False)
    assert done.code
    assert "Quota producer_byte_rate must be greater than 0" in done.text
    assert "producer_byte_rate" not in configs(server, "--describe", *entity).out


def test_librdkafka_is_told_to_wait_and_loses_nothing(
    server: Server, make_topic: TopicMaker, set_quota: SetQuota
) -> None:
    topic, client_id = make_topic(), unique_name("limited")
    entity = ("--entity-type", "clients", "--entity-name", client_id)
    set_quota(*entity, producer_byte_rate=LIMIT, consumer_byte_rate=LIMIT)
    told: list[tuple[str, float]] = []
    delivered: list[int] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered.append(message.offset())

    def noted(kind: str) -> dict[str, object]:
        return {
            "bootstrap.servers": server.bootstrap,
            "client.id": client_id,
            "throttle_cb": lambda event: told.append((kind, event.throttle_time)),
        }

    producer = Producer({**noted("produce"), "batch.size": 60_000, "linger.ms": 50})
    sent = 0

    def write(count: int) -> bool:
        """Whether the producer was told to wait by then."""
        nonlocal sent
        for _ in range(count):
            producer.produce(topic, VALUE, partition=0, on_delivery=on_delivery)
        sent += count
        assert producer.flush(60) == 0
        return any(kind == "produce" and time > 0 for kind, time in told)

    # A machine that is slow to write them gets more than a burst, and has to write more.
    if not write(VALUES_MIN):
        eventually(lambda: write(10), TOLD_WAIT_S, "the producer is told to wait", interval_s=0)
    assert sorted(delivered) == list(range(sent))

    consumer = Consumer({**noted("fetch"), "group.id": unique_name("group"), "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[int] = []

    def read_all() -> bool:
        seen.extend(message.offset() for message in consumer.consume(100, timeout=0.5) if not message.error())
        return len(seen) >= sent and any(kind == "fetch" for kind, _ in told)

    eventually(read_all, timeout_s=60, what="all is read, and a fetch was throttled")
    consumer.close()
    assert seen == list(range(sent))


def test_kafka_topics_is_refused_until_it_may_create_more_partitions(server: Server, set_quota: SetQuota) -> None:
    set_quota("--entity-type", "users", "--entity-name", "ANONYMOUS", controller_mutation_rate=2)

    def create(topic: str, partitions: int) -> ToolResult:
        asked = ("--create", "--topic", topic, "--partitions", str(partitions))
        return run_tool(TOPICS, "--bootstrap-server", server.bootstrap, *asked, check=False)

    # 22 may be made at once, and the request may pass that. After 15 s, which a slow machine may take, so many are allowed again.
    assert "Created topic" in create(unique_name("many"), 30).out
    eventually(
        lambda: "The throttling quota has been exceeded." in create(unique_name("many"), 30).text,
        timeout_s=30,
        what="the quota allows no more",
    )
    topic = unique_name("more")
    eventually(lambda: create(topic, 1).code == 0, timeout_s=30, what="the quota allows another partition")
