"""A server with many partitions: how soon it serves them all, what it costs while nothing happens; and an empty one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.measure import cpu_percent, memory_mib
from testing.servers import Server
from testing.wire import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NONE, WireClient

TOPIC = "many"
RECORDS_PER_PARTITION = 20
START_TIMEOUT_S = 120.0
POLL_S = 0.01
SETTLE_S = 5.0


def measure(
    make: Callable[[Path], Server], directory: Path, partitions: int, starts: int, idle_s: float
) -> dict[str, Any]:
    """`starts` clean restarts and one after kill -9, each until ListOffsets answers for every partition; then idle."""
    server = make(directory)
    server.start()
    try:
        _fill(server, partitions)
        started_s = []
        for _ in range(starts):
            server.stop()
            started_s.append(_start(server, partitions))
        server.kill()
        after_kill_s = _start(server, partitions)
        time.sleep(SETTLE_S)
        idle_percent = cpu_percent(server.pid, idle_s)
        memory = memory_mib(server.pid)
    finally:
        server.close()
    return {
        "partitions": partitions,
        "records_per_partition": RECORDS_PER_PARTITION,
        "start_s": started_s,
        "start_after_kill_s": after_kill_s,
        "idle_cpu_percent": idle_percent,
        "idle_measured_s": idle_s,
        **memory,
    }


def ready_times(make: Callable[[Path], Server], directory: Path, starts: int) -> list[float]:
    """Seconds from executing a server on a new directory until it is ready."""
    times = []
    for number in range(starts):
        server = make(directory / str(number))
        try:
            server.start()
            times.append(time.monotonic() - server.process.started_at)
        finally:
            server.close()
    return times


def _fill(server: Server, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(TOPIC, num_partitions=partitions, replication_factor=1)])[TOPIC].result(120)
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 50})
    for number in range(partitions * RECORDS_PER_PARTITION):
        producer.produce(TOPIC, bytes(200), partition=number % partitions)
        if number % 1_000 == 0:
            producer.poll(0)
    if producer.flush(120) != 0:
        raise RuntimeError(f"{server.name} did not take {RECORDS_PER_PARTITION} records for each partition")


def _start(server: Server, partitions: int) -> float:
    """Seconds from executing the process to one complete ListOffsets answer without an error."""
    server.execute()
    began = server.process.started_at
    while not _all_answer(server.port, partitions):
        if not server.is_running or time.monotonic() - began > START_TIMEOUT_S:
            raise RuntimeError(f"{server.name} does not serve its partitions{server.process}")
        time.sleep(POLL_S)
    seconds = time.monotonic() - began
    server.wait_until_ready()
    return seconds


def _all_answer(port: int, partitions: int) -> bool:
    try:
        with WireClient(port, timeout_s=30) as client:
            ends = client.list_offsets(TOPIC, range(partitions), LATEST_TIMESTAMP)
            begins = client.list_offsets(TOPIC, range(partitions), EARLIEST_TIMESTAMP)
    except OSError:
        return False
    expected = dict.fromkeys(range(partitions), (NONE, RECORDS_PER_PARTITION))
    return ends == expected and set(begins.values()) == {(NONE, 0)}
