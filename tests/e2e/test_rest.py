"""The REST address of a running server: health and metrics. And the one line a script waits for."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import Producer

from tests.e2e.conftest import TopicMaker
from tests.support.processes import eventually
from tests.support.servers import READY_LINE, BmqServer, Server

pytestmark = [pytest.mark.e2e, pytest.mark.bmq_only, pytest.mark.timeout(60)]


def sum_of(metrics: str, name: str) -> float:
    """Sum of all samples of a metric, whatever their labels."""
    samples = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", metrics, re.MULTILINE)
    return sum(float(sample) for sample in samples)


def test_health_and_ready_line(server: Server) -> None:
    assert isinstance(server, BmqServer)
    assert server.get("/v1/health")[0] == 200
    assert len(re.findall(READY_LINE, server.process.log_of_this_run(), re.MULTILINE)) == 1


def test_metrics_count_what_was_produced(server: Server, make_topic: TopicMaker) -> None:
    assert isinstance(server, BmqServer)
    topic = make_topic()

    def counters() -> dict[str, float]:
        status, text = server.get("/metrics")
        assert status == 200
        names = set(re.findall(r"^# TYPE (bmq_\w+) counter$", text, re.MULTILINE))
        return {name: sum_of(text, name) for name in names}

    before = counters()
    assert before, "no counter of bmq is exported"
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(topic, bytes(500_000))
    assert producer.flush(20) == 0

    def bytes_were_counted() -> bool:
        after = counters()
        return any("bytes" in name and after[name] - before.get(name, 0) >= 500_000 for name in after)

    eventually(bytes_were_counted, 10, "a counter of bytes grew by what was produced")


def test_unknown_path_is_not_found(server: Server) -> None:
    assert isinstance(server, BmqServer)
    assert server.get("/v1/no-such-thing")[0] == 404
