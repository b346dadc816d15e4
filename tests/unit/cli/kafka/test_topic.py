"""`bmq topic` over a cluster in memory: what is shown, what is asked first, and what is changed."""

from __future__ import annotations

import csv
import io

import pytest

from bmq.cli.kafka.model import Config, ConfigChange, ConfigKind
from tests.fakes.kafka_client import FakeKafka
from tests.unit.cli.kafka.conftest import Commands

pytestmark = pytest.mark.unit


def test_topics_are_listed_in_order_and_internal_ones_on_request(bmq: Commands) -> None:
    assert bmq.rows("topic", "list") == [["empty", "1", "2", "id-of-empty"], ["orders", "2", "2", "id-of-orders"]]
    assert [row[0] for row in bmq.rows("topic", "list", "--internal")] == ["__consumer_offsets", "empty", "orders"]
    assert [row["topic"] for row in bmq.document("topic", "list", "--pattern", "or.*s")] == ["orders"]
    assert bmq.run("topic", "list", "--pattern", "(").exit_code == 2
    assert bmq.run("topic", "list", "--json", "--csv").exit_code == 2


def test_a_topic_is_described_with_offsets_and_its_own_configs(bmq: Commands, kafka: FakeKafka) -> None:
    kafka.set_configs[ConfigKind.TOPIC, "orders"] = [Config("retention.ms", "1000", "topic")]
    kafka.without_leader("orders")
    text = bmq.shown("topic", "describe", "orders")
    assert "config retention.ms  1000" in text
    assert "cleanup.policy" not in text
    assert "offsets              1" in text
    assert "0          nobody  1 2       1    -      -    -" in text, "its leader would be waited for"
    (document,) = bmq.document("topic", "describe", "orders")
    assert document["configs"] == {"retention.ms": "1000"}
    assert [(each["start_offset"], each["end_offset"]) for each in document["partitions"]] == [(None, None), (0, 1)]
    rows = list(csv.DictReader(io.StringIO(bmq.shown("topic", "describe", "orders", "empty", "--csv"))))
    assert [(row["topic"], row["partition"], row["replicas"], row["leader"]) for row in rows] == [
        ("orders", "0", "1 2", ""),
        ("orders", "1", "1 2", "1"),
        ("empty", "0", "1 2", "1"),
    ]
    assert bmq.failure("topic", "describe", "orders", "gone") == "there is no topic 'gone'"


def test_topics_are_made(bmq: Commands, kafka: FakeKafka) -> None:
    assert bmq.shown("topic", "create", "new", "--dry-run") == "topic new can be made\n"
    assert kafka.calls == []
    bmq.shown("topic", "create", "new", "-p", "3", "-r", "2", "-c", "retention.ms=5")
    assert kafka.calls == [("create", "new", 3, 2, {"retention.ms": "5"})]
    assert "it is there" in bmq.failure("topic", "create", "new")
    assert bmq.shown("topic", "create", "new", "other", "--if-not-exists") == (
        "topic new is there already, with 3 partitions\ntopic other was made\n"
    )
    assert kafka.calls[1:] == [("create", "other", -1, -1, {})]
    assert bmq.run("topic", "create", "x", "-p", "0").exit_code == 2
    assert bmq.run("topic", "create", "x", "-c", "novalue").exit_code == 2


def test_an_alteration_shows_its_plan_and_is_checked_before_anything_changes(bmq: Commands, kafka: FakeKafka) -> None:
    wanted = ("topic", "alter", "orders", "-p", "4", "-c", "cleanup.policy+=compact", "--delete-config", "retention.ms")
    plan = bmq.shown(*wanted, "--dry-run")
    assert plan.splitlines() == [
        "topic orders",
        "  partitions: 2 -> 4; keys go to other partitions from then on",
        "  cleanup.policy: delete (default), and compact",
        "  retention.ms: 604800000 (default) -> what it is without this setting",
    ]
    assert kafka.calls == []
    assert bmq.shown(*wanted) == f"{plan}done\n"
    changes = (ConfigChange("cleanup.policy", "append", "compact"), ConfigChange("retention.ms", "delete", None))
    assert kafka.calls == [("configs", "topic", "orders", changes), ("partitions", "orders", 4)]
    del kafka.calls[:]
    assert "not be an increase" in bmq.failure("topic", "alter", "orders", "-p", "2", "-c", "retention.ms=1")
    assert "Unknown topic config" in bmq.failure("topic", "alter", "orders", "-p", "4", "-c", "unknown=1")
    assert kafka.calls == []
    assert bmq.run("topic", "alter", "orders").exit_code == 2


@pytest.mark.usefixtures("on_a_terminal")
def test_nothing_is_done_on_a_terminal_without_a_yes(bmq: Commands, kafka: FakeKafka) -> None:
    assert bmq.run("topic", "alter", "orders", "-p", "4", given="n\n").exit_code == 1
    assert bmq.run("topic", "delete", "orders", given="\n").exit_code == 1
    assert kafka.calls == []
    asked = bmq.run("topic", "delete", "orders", given="y\n")
    assert "topic orders: 2 partitions, 4 offsets" in asked.output
    assert "Delete 1 topic for good?" in asked.output
    bmq.shown("topic", "delete", "empty", "--yes")
    assert kafka.calls == [("delete", "orders"), ("delete", "empty")]


def test_topics_are_deleted_by_pattern_without_internal_ones(bmq: Commands, kafka: FakeKafka) -> None:
    assert bmq.run("topic", "delete").exit_code == 2
    assert bmq.failure("topic", "delete", "gone") == "there is no topic 'gone'"
    assert bmq.shown("topic", "delete", "gone", "--if-exists") == "no such topic is there\n"
    assert bmq.shown("topic", "delete", "--pattern", ".*", "--dry-run").splitlines() == [
        "topic empty: 1 partition, 0 offsets",
        "topic orders: 2 partitions, 4 offsets",
    ]
    assert kafka.calls == []
    bmq.shown("topic", "delete", "orders", "--pattern", ".*")
    assert kafka.calls == [("delete", "orders"), ("delete", "empty")]


def test_a_topic_is_described_when_offsets_cannot_be_had(bmq: Commands, kafka: FakeKafka) -> None:
    del kafka.logs["orders", 1], kafka.starts["orders", 1]
    described = bmq.run("topic", "describe", "orders")
    assert described.exit_code == 0
    assert described.stderr == "bmq: no offset of orders-1; offsets are left out\n"
    assert described.stdout.splitlines()[-1].split() == ["1", "1", "1", "2", "1", "-", "-", "-"]


def test_the_oldest_records_are_deleted(bmq: Commands, kafka: FakeKafka) -> None:
    plan = bmq.document("topic", "delete-records", "orders", "--before", "20", "--dry-run")
    assert [(row["partition"], row["new_start_offset"], row["offsets"]) for row in plan] == [(0, 1, 1), (1, 1, 1)]
    assert kafka.starts["orders", 0] == 0
    assert bmq.rows("topic", "delete-records", "orders", "-p", "0", "--before-offset", "2") == [
        ["orders", "0", "0", "2", "2"]
    ]
    assert (kafka.starts["orders", 0], kafka.starts["orders", 1]) == (2, 0)
    bmq.shown("topic", "delete-records", "orders", "--all")
    assert kafka.logs["orders", 0] == kafka.logs["orders", 1] == []
    assert bmq.document("topic", "delete-records", "orders", "--all") == []
    assert bmq.run("topic", "delete-records", "orders").exit_code == 2
    assert bmq.run("topic", "delete-records", "orders", "--all", "--before", "-1h").exit_code == 2
    assert "has no partition 9" in bmq.failure("topic", "delete-records", "orders", "--all", "-p", "9")
