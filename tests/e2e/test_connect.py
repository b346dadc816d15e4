"""Kafka Connect with an exactly-once source: the worker is killed in the middle of its work and started again."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from testing.java import compile_program, program_command
from testing.patience import Patience
from testing.processes import ManagedProcess, ProcessFailed, eventually, free_port
from testing.servers import Server
from testing.topic_contents import values_of
from tests.e2e.conftest import TopicMaker, unique_name

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(240), pytest.mark.safety]

PROGRAMS = Path(__file__).parent.parent / "support" / "java_programs"
COUNT = 6_000
# A worker that starts reads its offsets up to the high watermark, so it waits for the end of a transaction that the killed
# one left open; a minute by default.
TRANSACTION_TIMEOUT_MS = 5_000


def numbers_in(server: Server, topic: str) -> list[int]:
    """What is committed by now, in order."""
    return [int(value) for value in values_of(server.bootstrap, topic)[0]]


def worker_settings(server: Server, group: str, port: int) -> str:
    settings = {
        "bootstrap.servers": server.bootstrap,
        "group.id": group,
        "listeners": f"HTTP://127.0.0.1:{port}",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "plugin.discovery": "only_scan",
        "scheduled.rebalance.max.delay.ms": "500",  # else who is killed keeps its tasks for five minutes
    }
    for what in ("config", "offset", "status"):
        settings[f"{what}.storage.topic"] = f"{group}-{what}"
        settings[f"{what}.storage.replication.factor"] = "1"
    settings["offset.storage.partitions"] = settings["status.storage.partitions"] = "1"
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def ask(port: int, path: str, body: object = None) -> object:
    """The worker's answer, None while it does not give one."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method="PUT" if data else "GET"
    )
    try:
        with urllib.request.urlopen(request, timeout=Patience(20).limit_s) as answer:
            return json.load(answer)
    except (OSError, urllib.error.HTTPError):
        return None


def make_connector(port: int, settings: dict[str, str]) -> bool:
    """Whether it is there; each further request would make the worker begin anew."""
    if ask(port, "/connectors") is None:
        return False
    return ask(port, "/connectors/numbers") is not None or ask(port, "/connectors/numbers/config", settings) is not None


def test_every_number_arrives_once_over_kills(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic, group, port = make_topic(), unique_name("connect"), free_port()
    compile_program(PROGRAMS / "CountingSource.java", "kafka", tmp_path / "classes")
    settings = tmp_path / "worker.properties"
    settings.write_text(worker_settings(server, group, port))
    command = program_command(
        "org.apache.kafka.connect.cli.ConnectDistributed", "kafka", tmp_path / "classes", [str(settings)]
    )
    worker = ManagedProcess("connect", command, tmp_path / "connect.log")
    connector = {
        "connector.class": "CountingSource",
        "tasks.max": "1",
        "topic": topic,
        "count": str(COUNT),
        "producer.override.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
    }
    try:
        worker.start()
        eventually(lambda: make_connector(port, connector), 90, "the connector is made")
        for life in range(2):
            seen = len(numbers_in(server, topic))
            eventually(lambda seen=seen: len(numbers_in(server, topic)) > seen, 60, "numbers come")  # type: ignore[misc]
            worker.kill()
            assert len(numbers_in(server, topic)) < COUNT, f"life {life} was not killed in the middle of its work"
            worker.start()
        eventually(lambda: len(numbers_in(server, topic)) >= COUNT, 120, "all numbers are there")
    except AssertionError as error:
        raise ProcessFailed(f"{error}{worker}") from error
    finally:
        if worker.is_running:
            worker.kill()
    assert numbers_in(server, topic) == list(range(COUNT))
