"""`bmq view` over a cluster in memory: what it makes, and what it says of a record."""

from __future__ import annotations

import pytest

from bmq.cli.kafka.model import Config, ConfigKind
from tests.fakes.kafka_client import FakeKafka
from tests.unit.cli.kafka.conftest import Commands

pytestmark = pytest.mark.unit


def test_a_view_is_made_by_its_two_configs(bmq: Commands, kafka: FakeKafka) -> None:
    said = bmq.shown("view", "create", "paid", "--of", "orders", "--tag", "paid", "--tag", "it's")
    assert said == "view paid of orders was made, with tag IN ('paid', 'it''s')\n"
    configs = {"bmq.view.of": "orders", "bmq.view.filter": "tag IN ('paid', 'it''s')"}
    assert kafka.calls == [("create", "paid", -1, -1, configs)]
    assert "can be made" in bmq.shown("view", "create", "eu", "--of", "orders", "-f", "key = 'x'", "--dry-run")
    assert len(kafka.calls) == 1


def test_a_filter_is_refused_before_the_cluster_is_asked(bmq: Commands, kafka: FakeKafka) -> None:
    assert "does not look at the value" in bmq.failure("view", "create", "v", "--of", "orders", "-f", "value = 'x'")
    assert bmq.run("view", "create", "v", "--of", "orders").exit_code == 2
    assert bmq.run("view", "create", "v", "--of", "orders", "-f", "TRUE", "--tag", "a").exit_code == 2
    assert not kafka.calls


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (("-H", "bmq-tag=paid", "--key", "7", "--time", "1700000000000"), "passes"),
        (("-H", "bmq-tag=sent"), "does not pass"),
        (("--key", "7"), "does not pass: the condition is unknown for it"),
    ],
)
def test_what_a_filter_does_with_a_record(bmq: Commands, kafka: FakeKafka, record: tuple[str, ...], said: str) -> None:
    text = "tag = 'paid' AND (key = '7' OR timestamp > 5)"
    expected = f"filter  {text}\nrecord  {said}\n"
    assert bmq.shown("view", "explain", "--filter", text, *record) == expected
    kafka.add("v", [])
    kafka.set_configs[ConfigKind.TOPIC, "v"] = [Config("bmq.view.filter", text, "topic")]
    assert bmq.shown("view", "explain", "v", *record) == expected
    assert "is not a view" in bmq.run("view", "explain", "orders", *record).output
