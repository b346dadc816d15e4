"""The benchmarks' client in C, against a real server: it counts what is answered, and fails loudly at anything else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.core.client import Client, Load
from bench.core.frames import Frames, fetch_frames, framed, produce_frames
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from testing.servers import BmqServer, bmq_with_topic
from testing.wire import LATEST_TIMESTAMP, WireClient

pytestmark = [pytest.mark.campaign("bench"), pytest.mark.timeout(120)]

TOPIC = "load"
PARTITIONS = 3
RECORDS = 10
SECONDS = 3  # a new server, on a machine that is busy, may take its first second for its first answer
TRIES = 5
WARM_S = 0.5


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BmqServer]:
    with bmq_with_topic(tmp_path / "server", TOPIC, PARTITIONS) as server:
        yield server


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "client", max(os.sched_getaffinity(0)))


def to_each_partition(topic: str = TOPIC) -> Frames:
    named = [[number] for number in range(PARTITIONS)]
    return produce_frames(topic, named, 100, RECORDS, timestamp_ms=int(time.time() * 1000))


def ends(server: BmqServer) -> list[int]:
    with WireClient(server.port) as wire:
        return [end for _, end in wire.list_offsets(TOPIC, range(PARTITIONS), LATEST_TIMESTAMP).values()]


def test_what_it_counts_is_in_the_log(server: BmqServer, client: Client) -> None:
    load = Load(to_each_partition(), connections=2, in_flight=3)
    found = client.put(server.port, {"bmq": server.pid}, load, warm_s=0, seconds=SECONDS)
    assert found["answers"] > 0
    # What was under way when the time was over is in the log and not counted.
    assert found["answers"] <= sum(ends(server)) / RECORDS <= found["answers"] + 2 * 3
    assert found["sent_bytes"] >= found["answers"] * RECORDS * 100
    assert 0 < found["latency_p50_us"] <= found["latency_p99_us"] <= found["latency_max_us"] < SECONDS * 1_000_000
    assert 0 < found["server_cpu_s"] < 10

    read = fetch_frames(TOPIC, PARTITIONS, [0, RECORDS])
    least = PARTITIONS * RECORDS * 100
    fetched = client.put(server.port, {"bmq": server.pid}, Load(read, 2, 1, 0, least), warm_s=0, seconds=SECONDS)
    assert fetched["received_bytes"] >= fetched["answers"] * least > 0


def put_until_kept(
    server: BmqServer, client: Client, load: Load, *, seconds: float, answers_min: int, not_sent_max: int
) -> list[dict[str, Any]]:
    """What was found in each try; the last one kept the rate. Others may have the processors in some."""
    tries = []
    for _ in range(TRIES):
        found = client.put(server.port, {"bmq": server.pid}, load, warm_s=WARM_S, seconds=seconds)
        tries.append(found)
        if found["not_sent"] <= not_sent_max and found["answers"] >= answers_min:
            return tries
    raise AssertionError(f"the rate was kept in none of {TRIES} tries: {tries}")


def test_a_rate_is_kept(server: BmqServer, client: Client) -> None:
    load = Load(to_each_partition(), connections=4, in_flight=5, rate_per_s=100)
    tries = put_until_kept(server, client, load, seconds=2, answers_min=195, not_sent_max=0)
    # Those that were due in the warm-up count as well where nobody had a processor for them until its end.
    assert max(found["answers"] for found in tries) <= 100 * (WARM_S + 2) + 1


def test_a_rate_is_kept_by_a_server_that_is_seldom_busy(server: BmqServer, client: Client) -> None:
    """The next request falls due while nothing is under way, so no answer wakes the client if it misses that."""
    asking = Frames(framed(ApiKey.API_VERSIONS, 0, 1, ApiVersionsRequest()), zero_at=4)
    load = Load(asking, connections=8, in_flight=1, rate_per_s=1_000)
    put_until_kept(server, client, load, seconds=4, answers_min=3_830, not_sent_max=100)


def test_an_error_code_is_no_answer(server: BmqServer, client: Client) -> None:
    load = Load(to_each_partition("another"), connections=1, in_flight=1)
    with pytest.raises(LoadFailed, match=r"error code 3$"):
        client.put(server.port, {"bmq": server.pid}, load, warm_s=0, seconds=1)


def test_an_answer_that_is_too_short_is_none(server: BmqServer, client: Client) -> None:
    load = Load(to_each_partition(), connections=1, in_flight=1, answer_bytes_min=1_000_000)
    with pytest.raises(LoadFailed, match=r"at least 1000000 were wanted$"):
        client.put(server.port, {"bmq": server.pid}, load, warm_s=0, seconds=1)


def test_a_connection_that_is_closed_is_told(server: BmqServer, client: Client) -> None:
    frames = to_each_partition()
    hostile = replace(frames, data=(20).to_bytes(4, "big") + bytes([0x7F] * 20))
    with pytest.raises(LoadFailed, match=r"closed a connection with 1 requests under way|Connection reset"):
        client.put(server.port, {"bmq": server.pid}, Load(hostile, 1, 1), warm_s=0, seconds=1)


def test_nobody_there(client: Client) -> None:
    with pytest.raises(LoadFailed, match=r"Connection refused$"):
        client.put(1, {}, Load(to_each_partition(), 1, 1), warm_s=0, seconds=1)
