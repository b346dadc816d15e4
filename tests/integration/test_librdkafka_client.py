"""The benchmarks' librdkafka client and its unwanted crowd, against a real server: what they count is what there is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.core.frames import fetch_frames
from bench.loads.client import Client
from bench.workloads import LoadFailed
from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from testing.servers import BmqServer, bmq_with_topic
from testing.wire import LATEST_TIMESTAMP, WireClient

pytestmark = [pytest.mark.campaign("bench"), pytest.mark.timeout(120)]

TOPIC = "load"
PARTITIONS = 3
RECORDS = 20_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BmqServer]:
    with bmq_with_topic(tmp_path / "server", TOPIC, PARTITIONS) as server:
        yield server


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "client")


def ends(server: BmqServer) -> list[int]:
    with WireClient(server.port) as wire:
        return [end for _, end in wire.list_offsets(TOPIC, range(PARTITIONS), LATEST_TIMESTAMP).values()]


def test_what_it_produced_is_in_the_log_of_all_partitions(server: BmqServer, client: Client) -> None:
    found = client.produce(server.bootstrap, [server.pid], TOPIC, PARTITIONS, record_bytes=100, warm_s=1, seconds=3)
    assert 0 < found["records"] <= found["produced"] == sum(ends(server))
    assert min(ends(server)) > found["produced"] / PARTITIONS / 2  # at random: about the same in each
    assert 0 < found["server_user_s"] <= found["server_cpu_s"]


def test_a_rate_is_kept_and_a_consumer_beside_it_gets_every_record(server: BmqServer, client: Client) -> None:
    found = client.produce(
        server.bootstrap,
        [server.pid],
        TOPIC,
        PARTITIONS,
        record_bytes=100,
        warm_s=0.5,
        seconds=2,
        rate_per_s=100,
        is_consuming=True,
    )
    acknowledged, consumed = found["acknowledged"], found["consumed"]
    # What is late at the end is not sent any more.
    assert 100 <= acknowledged["count"] <= 202
    assert consumed["count"] == acknowledged["count"]
    for latencies in (acknowledged, consumed):
        assert 0 < latencies["p50_us"] <= latencies["p99_us"] <= latencies["p999_us"] <= latencies["max_us"]


def test_an_unknown_partition_is_an_error(server: BmqServer, client: Client) -> None:
    with pytest.raises(LoadFailed, match="Unknown partition"):
        client.produce(server.bootstrap, [], TOPIC, PARTITIONS + 1, record_bytes=100, warm_s=0, seconds=2)


def test_a_crowd_stands_there_and_reads_slowly(server: BmqServer, client: Client, tmp_path: Path) -> None:
    client.produce(
        server.bootstrap, [server.pid], TOPIC, PARTITIONS, record_bytes=1_024, warm_s=0, seconds=60, records_max=RECORDS
    )
    fetches = tmp_path / "fetches"
    fetches.write_bytes(fetch_frames(TOPIC, PARTITIONS, [0]).data)
    command = [sys.executable, "-m", "bench.loads.crowd", str(fetches), "20", "2", server.bootstrap]
    crowd = subprocess.Popen(
        dying_with_us(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    try:
        assert crowd.stdout is not None and crowd.stdout.readline() == "there\n"
        found = client.produce(server.bootstrap, [], TOPIC, PARTITIONS, record_bytes=100, warm_s=1, seconds=3)
        assert found["records"] > 0
        out, _ = crowd.communicate("", timeout=Patience(30).limit_s)
    finally:
        crowd.kill()
        crowd.wait()
    said = json.loads(out)
    assert said["closed"] == 0
    assert said["read_bytes"] >= 2 * 64 * 1024
