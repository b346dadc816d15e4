"""`bmq log segments` looks at the store beside a running server, and without one."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from confluent_kafka import Producer

from testing.patience import Patience
from testing.processes import dying_with_us
from testing.servers import Server, bmq_command
from tests.e2e.conftest import ServerMaker, TopicMaker, create_topic

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(60)]

RECORDS = 300
PARTITIONS = 2


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        dying_with_us([bmq_command(), "log", "segments", *arguments]),
        capture_output=True,
        text=True,
        timeout=Patience(30).limit_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def segments(server: Server, topic: str, *more: str) -> list[dict[str, Any]]:
    done = run(topic, "--data", str(server.directory), "--json", *more)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def produce(server: Server, topic: str) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, "batch.num.messages": 10})
    for number in range(RECORDS):
        producer.produce(topic, value=bytes(5_000), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def test_segments_of_a_running_and_of_a_stopped_server(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    create_topic(server, "spread", PARTITIONS, {"segment.bytes": "1048576"})
    produce(server, "spread")
    for is_running in (True, False):
        if not is_running:
            server.stop()
        rows = segments(server, "spread")
        assert {row["partition"] for row in rows} == set(range(PARTITIONS))
        for partition in range(PARTITIONS):
            own = [row for row in rows if row["partition"] == partition and row["valid_bytes"]]
            assert own[0]["base_offset"] == 0
            assert all(row["valid_bytes"] <= row["file_bytes"] <= 1_048_576 for row in own)
            ends = [row["end_offset"] for row in own if not row["is_open"]]
            assert [row["base_offset"] for row in own[1:]] == ends[: len(own) - 1]
            assert any(row["is_open"] for row in rows) is is_running
            if not is_running:
                assert own[-1]["end_offset"] == RECORDS // PARTITIONS
        assert sum(row["valid_bytes"] for row in rows) > RECORDS * 5_000


def test_one_partition_as_a_table(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(PARTITIONS)
    produce(server, topic)
    done = run(topic, "--partition", "1", "--data", str(server.directory))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["partition", "epoch", "roll", "offsets", "bytes", "state", "DataNodes"]
    assert lines[1].split()[:4] == ["1", "0", "0", "[0,"] and "open" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "there is no topic 'nothing'"),
        (["{topic}", "--partition", "7"], "has no partition 7"),
        (["{topic}", "--data", "/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["{topic}", "--store", "s3://bucket/x"], "there is no store for 's3' URLs"),
        (["{topic}", "--store", "hdfs://nn"], "an HDFS store is written"),
    ],
)
def test_bad_input_is_one_sentence(server: Server, make_topic: TopicMaker, arguments: list[str], sentence: str) -> None:
    topic = make_topic()
    filled = [argument.format(topic=topic) for argument in arguments]
    done = run(*filled, *([] if {"--data", "--store"} & set(filled) else ["--data", str(server.directory)]))
    assert done.returncode == 1
    assert sentence in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
