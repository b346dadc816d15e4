"""What Prometheus scrapes from a real server under load: names that promtool accepts, and lag as Kafka's APIs tell it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from prometheus_client.parser import text_string_to_metric_families

from testing.patience import Patience
from testing.processes import eventually
from testing.servers import BmqServer, Server
from tests.e2e.conftest import TopicMaker

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(180)]

WAIT_S = 20.0


def sample(text: str, name: str, labels: Mapping[str, str]) -> float | None:
    """The value of one sample; None: there is none."""
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            if each.name == name and each.labels == labels:
                return each.value
    return None


def committed(server: Server, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def lag_by_kafkas_apis(server: Server, group: str, topic: str) -> int:
    """As kafka-consumer-groups.sh computes it: ListOffsets less OffsetFetch."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    offsets = {one.partition: one.offset for one in asked[group].result(WAIT_S).topic_partitions if one.topic == topic}
    ends = admin.list_offsets({TopicPartition(topic, partition): OffsetSpec.latest() for partition in offsets})
    return sum(end.result(WAIT_S).offset - offsets[place.partition] for place, end in ends.items())


def produced(server: Server, topic: str, counts: Mapping[int, int]) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, value=b"%d" % number, partition=partition)
    assert producer.flush(WAIT_S) == 0


def test_the_lag_is_what_kafkas_apis_tell(server: Server, make_topic: TopicMaker) -> None:
    assert isinstance(server, BmqServer)
    topic = make_topic(partitions=3)
    group = f"copier-of-{topic}"
    produced(server, topic, {0: 1_000, 1: 500, 2: 20})
    committed(server, group, topic, {0: 400, 1: 500, 2: 3})
    wanted = lag_by_kafkas_apis(server, group, topic)
    assert wanted == 617
    labels = {"group": group, "topic": topic}
    eventually(
        lambda: sample(server.metrics(), "bmq_group_lag_records", labels) == wanted, WAIT_S, "the lag is at /metrics"
    )
    produced(server, topic, {1: 83})
    wanted = lag_by_kafkas_apis(server, group, topic)
    eventually(
        lambda: sample(server.metrics(), "bmq_group_lag_records", labels) == wanted,
        WAIT_S,
        "the lag grows with the log",
    )
    text = server.metrics()
    assert sample(text, "bmq_group_committed_offset", labels) == 903
    behind_s = sample(text, "bmq_group_lag_seconds", labels)
    assert behind_s is not None and behind_s > 0
    committed(server, group, topic, {0: 1_000, 1: 583, 2: 20})
    eventually(
        lambda: sample(server.metrics(), "bmq_group_lag_seconds", labels) == 0, WAIT_S, "who is not behind has no lag"
    )


def test_traffic_and_size_of_a_topic(server: Server, make_topic: TopicMaker) -> None:
    assert isinstance(server, BmqServer)
    topic = make_topic(partitions=2)
    produced(server, topic, {0: 30, 1: 12})
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": f"g-{topic}", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert len(consumer.consume(30, WAIT_S)) == 30
    consumer.close()
    text = server.metrics()
    labels = {"topic": topic}
    assert sample(text, "bmq_topic_in_records_total", labels) == 42
    size = sample(text, "bmq_topic_log_bytes", labels)
    assert size == sample(text, "bmq_topic_in_bytes_total", labels)
    assert (sample(text, "bmq_topic_out_bytes_total", labels) or 0) > 0
    assert sample(text, "bmq_topic_owned_partitions", labels) == 2


def test_promtool_has_nothing_against_a_scrape(server: Server, make_topic: TopicMaker) -> None:
    assert isinstance(server, BmqServer)
    program = shutil.which("promtool")
    assert program, "promtool is missing: run deploy/dev/install-tools.sh promtool"
    topic = make_topic()
    produced(server, topic, {0: 10})
    committed(server, f"g-{topic}", topic, {0: 4})
    text = "".join(line for line in server.metrics().splitlines(keepends=True) if "python_" not in line)
    checked = subprocess.run(
        [program, "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_health_of_a_server_that_is_well(server: Server) -> None:
    assert isinstance(server, BmqServer)
    status, body = server.get("/v1/health/live")
    assert (status, json.loads(body)) == (200, {"live": True})
    status, body = server.get("/v1/health")
    health = json.loads(body)
    assert (status, health["ready"]) == (200, True)
    assert [why["code"] for why in health.get("why", []) if why["severity"] != "warning"] == []


def test_alerts_fire_on_recorded_faults() -> None:
    program = shutil.which("promtool")
    assert program, "promtool is missing: run deploy/dev/install-tools.sh promtool"
    rules = Path(__file__).parents[2] / "deploy" / "prometheus"
    for arguments in (["check", "rules", "bmq.rules.yml"], ["test", "rules", "bmq.rules_test.yml"]):
        ran = subprocess.run(
            [program, *arguments], cwd=rules, capture_output=True, text=True, timeout=Patience(120).limit_s, check=False
        )
        assert (ran.returncode, "SUCCESS" in ran.stdout) == (0, True), ran.stdout + ran.stderr
