"""The REST address of a running server: health, metrics and tables. And the one line a script waits for."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from testing.processes import eventually
from testing.servers import READY_LINE, BmqServer, Server, bmq_command
from tests.e2e.conftest import TopicMaker

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(180)]


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


def test_a_table_of_one_process(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Where the whole cluster is one process its tables are there, too, and outlive it."""
    assert isinstance(server, BmqServer)
    topic = make_topic()

    def table(*arguments: str) -> Any:
        rest = f"127.0.0.1:{server.rest_port}"
        command = [bmq_command(), "table", *arguments, "--rest", rest, "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    file = tmp_path / "lines.json"
    fields = [{"name": "line", "type": "string"}]
    file.write_text(json.dumps({"name": "lines", "topic": topic, "format": "raw", "fields": fields}), encoding="utf-8")
    made = table("create", str(file))["table"]
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for _ in range(3):
        producer.produce(topic, b"line", partition=0)
    assert producer.flush(20) == 0
    partition = table("status", "lines")["partitions"][0]
    assert partition == {"partition": 0, "offset": None, "end_offset": 3, "lag": 3}
    server.stop()
    server.start()
    assert table("describe", "lines") == made
    assert table("drop", "lines")["table"] is None
    assert table("list") == []
