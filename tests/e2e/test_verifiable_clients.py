"""kafka-verifiable-producer, and kafka-verifiable-consumer by both group protocols, ended and started again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.java import java_command, run_tool
from testing.processes import ManagedProcess, eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(180)]

VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
COUNT = 1_000
PARTITIONS = 2


def events(text: str) -> Iterator[dict[str, object]]:
    """What these tools print: a JSON object a line, the last one perhaps cut short by a kill."""
    for line in text.splitlines():
        if line.startswith("{") and line.endswith("}"):
            yield json.loads(line)


def produced(server: Server, topic: str, prefix: int) -> set[str]:
    # In a JVM of its own: this tool closes its producer, which waits for all acknowledgements, as its JVM ends.
    out = run_tool(
        VERIFIABLE_PRODUCER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--max-messages", str(COUNT)),
        *("--value-prefix", str(prefix), "--acks", "-1"),
    ).out
    acknowledged = {str(event["value"]) for event in events(out) if event["name"] == "producer_send_success"}
    assert acknowledged == {f"{prefix}.{number}" for number in range(COUNT)}
    return acknowledged


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_was_acknowledged_is_consumed_over_a_restart(
    server: Server, make_topic: TopicMaker, tmp_path: Path, protocol: str
) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("verifiable")
    sent = produced(server, topic, 1)
    arguments = ["--bootstrap-server", server.bootstrap, "--topic", topic, "--group-id", group]
    arguments += ["--group-protocol", protocol, "--reset-policy", "earliest", "--verbose"]
    # A static member of the classic protocol takes the place of its killed self. By the other protocol it would be told to
    # wait for the end of a session of 45 s: that one leaves.
    arguments += ["--group-instance-id", "one", "--session-timeout", "30000"] if protocol == "classic" else []
    consumer = ManagedProcess("verifiable-consumer", java_command(VERIFIABLE_CONSUMER, arguments), tmp_path / "out.log")

    def seen() -> list[dict[str, object]]:
        return [event for event in events(consumer.log_file.read_text()) if event["name"] == "record_data"]

    def values() -> set[str]:
        return {str(event["value"]) for event in seen()}

    try:
        consumer.start()
        eventually(lambda: values() == sent, 60, "everything is consumed")
        eventually(lambda: '"offsets_committed"' in consumer.log_file.read_text(), 20, "and committed")
        if protocol == "classic":
            consumer.kill()
        else:
            consumer.stop(30)
        sent |= produced(server, topic, 2)
        consumer.start()
        eventually(lambda: values() == sent, 90, "what came since is consumed too")
    finally:
        if consumer.is_running:
            consumer.kill()
    places = [(event["partition"], event["offset"]) for event in seen()]
    assert {number for number, _ in places} <= set(range(PARTITIONS))
    committed = [event for event in events(consumer.log_file.read_text()) if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in committed)
