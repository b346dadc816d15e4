"""A server on a kerberized HDFS: librdkafka and Java write and read, it is killed, and the next one has every record.

And without a KDC: who runs does not notice, who starts waits for it. KDC_AWAY_MINUTES of the environment: for how long it is
away, beside what the test needs anyway.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from testing.hdfs import fresh_root, outside_any_loop
from testing.java import CONSOLE_CONSUMER, CONSOLE_PRODUCER
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import BmqServer
from tests.e2e.conftest import create_topic
from tests.support.hdfs_servers import server_on
from tests.support.secure_hdfs import SecureHdfs
from tests.support.secure_modes import secure_hdfs_of
from tests.support.spark import job_result, link_spark
from tests.support.tool_runner import run_tool

KDC_AWAY_S: Final = 60 * float(os.environ.get("KDC_AWAY_MINUTES", "0"))
START_WAIT_S: Final = KDC_AWAY_S + 120
SAID_AGAIN_S: Final = 60.0
TRY_MAX_S: Final = 15.0
PRODUCE_INTERVAL_S: Final = 1.0

pytestmark = [
    pytest.mark.campaign("hdfs-faults"),
    pytest.mark.bmq_only,
    pytest.mark.timeout(300 + KDC_AWAY_S),
]

TOPIC = "secured"
COUNT = 2_000
SEGMENT_BYTES = 1 << 20
READY_AFTER_S = 2.0
TROUBLES = {"namenode_left", "partition_start_waits", "segment_mended", "block_not_set_up", "handler_failed"}
# Elsewhere in the campaign, so that both parts end in time.
in_secure = pytest.mark.campaign("hdfs-secure")
MODES = (
    "authentication",
    "privacy",
    *(pytest.param(mode, marks=in_secure) for mode in ("integrity", "encrypted", "two-namenodes")),
)


@pytest.fixture(params=MODES)
def secure(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecureHdfs]:
    with secure_hdfs_of(request.param, tmp_path / "secure", datanodes=2) as cluster:
        yield cluster


def produced(bootstrap: str, lines: list[str], topic: str = TOPIC) -> None:
    """By librdkafka; every one is acknowledged."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    for line in lines:
        producer.produce(topic, line, on_delivery=lambda error, _: error and failed.append(error))  # type: ignore[func-returns-value]
    assert producer.flush(Patience(60).limit_s) == 0
    assert failed == []


def consumed(bootstrap: str, count: int) -> list[str]:
    """By Java's console consumer."""
    done = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", TOPIC, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "30000"),
    )
    return done.out.splitlines()


def test_clients_and_a_killed_server(secure: SecureHdfs, tmp_path: Path) -> None:
    root = fresh_root("server")
    by_librdkafka = [f"librdkafka {number}" for number in range(COUNT)]
    by_java = [f"java {number}" for number in range(COUNT)]
    first = server_on(secure.cluster, tmp_path / "first", root)
    first.start()
    try:
        produced(first.bootstrap, by_librdkafka)
        run_tool(
            CONSOLE_PRODUCER,
            *("--bootstrap-server", first.bootstrap, "--topic", TOPIC),
            stdin="".join(f"{line}\n" for line in by_java),
        )
        assert consumed(first.bootstrap, 2 * COUNT) == by_librdkafka + by_java
    finally:
        first.kill()
    second = server_on(secure.cluster, tmp_path / "second", root)
    second.start()
    try:
        assert consumed(second.bootstrap, 2 * COUNT) == by_librdkafka + by_java
        produced(second.bootstrap, ["after"])
        assert consumed(second.bootstrap, 2 * COUNT + 1)[-1] == "after"
        assert second.stop() == 0
    finally:
        second.close()


def test_executors_without_a_login_read_by_the_drivers_token(secure: SecureHdfs, tmp_path: Path) -> None:
    root = fresh_root("spark")
    server = server_on(secure.cluster, tmp_path / "server", root)
    server.start()
    try:
        create_topic(server, TOPIC, 1, {"segment.bytes": str(SEGMENT_BYTES)})
        for first in range(0, COUNT, COUNT // 10):
            produced(server.bootstrap, [f"value {number}".ljust(1_500) for number in range(first, first + COUNT // 10)])
        link_spark(tmp_path / "spark")
        told = tmp_path / "told.json"
        told.write_text(
            json.dumps(
                {
                    "bootstrap": server.bootstrap,
                    "topic": TOPIC,
                    "store": f"{secure.url}{root}",
                    "keytab": str(secure.keytab),
                }
            )
        )
        found = job_result(
            "tests.e2e.spark_token_job",
            told,
            tmp_path / "warehouse",
            HADOOP_CONF_DIR=str(secure.client_conf),
            SPARK_HOME=str(tmp_path / "spark"),
        )
        assert found.pop("pieces_of_files") > 0
        assert found == {
            "read": COUNT,
            "streamed": COUNT,
            "verified_records": COUNT,
            "findings": 0,
            "executors_keytab": "/nowhere",
        }
    finally:
        server.close()


def test_a_kdc_that_is_away(tmp_path: Path) -> None:
    with secure_hdfs_of("privacy", tmp_path / "secure", datanodes=2) as secure:
        running = server_on(secure.cluster, tmp_path / "running", fresh_root("running"))
        patient = {"BMQ_START_WAIT_MS": str(round(START_WAIT_S * 1000))}
        waiting = server_on(secure.cluster, tmp_path / "waiting", fresh_root("waiting"), patient)
        running.start()
        try:
            produced(running.bootstrap, ["before"])
            outside_any_loop(secure.kdc.daemon.stop())
            produced(running.bootstrap, [f"meanwhile {number}" for number in range(COUNT)])
            waiting.execute()
            waiting.process.wait_for_line("waiting_for_the_store", 30)
            # A new topic: files are made, and DataNodes connected to.
            produced(running.bootstrap, ["meanwhile"], "another")
            assert not waiting.get("/v1/health")[0]
            # The subject is time itself.
            began_s, more = time.monotonic(), 0
            while time.monotonic() < began_s + KDC_AWAY_S:
                produced(running.bootstrap, [f"later {more}"])
                more += 1
                time.sleep(PRODUCE_INTERVAL_S)
            assert not waiting.get("/v1/health")[0]
            outside_any_loop(secure.kdc.daemon.start())
            eventually(lambda: b"bmq ready" in waiting.log_file.read_bytes(), READY_AFTER_S, "it is ready")
            waiting.wait_until_ready()
            produced(waiting.bootstrap, ["after"])
            assert len(consumed(running.bootstrap, COUNT + 1 + more)) == COUNT + 1 + more
            assert [event for event in events(running) if event in TROUBLES] == []
            # At once, and with each try that is a minute behind the last line.
            lines = events(waiting).count("waiting_for_the_store")
            assert (
                1 + int(KDC_AWAY_S // (SAID_AGAIN_S + TRY_MAX_S)) <= lines <= 1 + math.ceil(KDC_AWAY_S / SAID_AGAIN_S)
            )
            assert (running.stop(), waiting.stop()) == (0, 0)
        finally:
            running.close()
            waiting.close()


def events(server: BmqServer) -> list[str]:
    lines = server.log_file.read_text().splitlines()
    return [json.loads(line)["event"] for line in lines if line.startswith("{")]
