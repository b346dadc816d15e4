"""The loads a server is put under, each by a stock client and each behind its own warm-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.measure import memory_mib, total_cpu_seconds
from tests.support.java import CONSUMER_PERFORMANCE, PERFORMANCE_JVM_OPTIONS, PRODUCER_PERFORMANCE, TOPICS, run_tool
from tests.support.processes import REPOSITORY, dying_with_us
from tests.support.servers import Server

LOAD_TIMEOUT_S = 180
PARTITIONS = 6

_STEADY = re.compile(
    r"^(\d+) steady state records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\.",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each workload sends; the warm-up records are sent in front and not measured."""

    warm_up_1k: int
    measured_1k: int
    warm_up_100b: int
    measured_100b: int
    warm_up_10k_rps: int
    measured_10k_rps: int
    consume_passes: int


FULL = Sizes(200_000, 1_000_000, 1_000_000, 4_000_000, 50_000, 150_000, consume_passes=3)
QUICK = Sizes(50_000, 200_000, 200_000, 600_000, 20_000, 50_000, consume_passes=2)


class Target(Protocol):
    """What a load needs of a server or a cluster: `pids` are all its processes, for their processor time."""

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def pids(self) -> Sequence[int]: ...


class LoadFailed(Exception):
    """A client did not do its load; the message is its output."""


def run_all(server: Server, sizes: Sizes) -> dict[str, Any]:
    """Every workload against one fresh server; the raw figures."""
    for topic in ("produce-1k", "produce-100b", "produce-10k-rps", "warm-up"):
        run_tool(
            TOPICS,
            *("--bootstrap-server", server.bootstrap, "--create", "--topic", topic),
            *("--partitions", str(PARTITIONS), "--replication-factor", "1"),
        )
    # The server warms up too: a JVM compiles what runs often, and both open their files.
    produce(server, "warm-up", 1_024, sizes.warm_up_1k, sizes.warm_up_1k // 2)
    raw: dict[str, Any] = {}
    raw["produce_1k"] = produce(server, "produce-1k", 1_024, sizes.measured_1k, sizes.warm_up_1k)
    raw["memory_after_produce"] = memory_mib(server.pid)
    records = sizes.measured_1k + sizes.warm_up_1k
    raw["consume"] = consume(server, "produce-1k", records, 1_024, sizes.consume_passes)
    raw["python_consume"] = python_consume(server, "produce-1k", 1_024, sizes.consume_passes)
    raw["java_consume"] = java_consume(server, "produce-1k", records)
    raw["produce_100b"] = produce(server, "produce-100b", 100, sizes.measured_100b, sizes.warm_up_100b)
    raw["produce_10k_rps"] = produce(
        server, "produce-10k-rps", 1_024, sizes.measured_10k_rps, sizes.warm_up_10k_rps, throughput=10_000, linger_ms=0
    )
    raw["memory_at_end"] = memory_mib(server.pid)
    return raw


def produce(
    server: Target,
    topic: str,
    record_bytes: int,
    measured: int,
    warm_up: int,
    throughput: int = -1,
    linger_ms: int | None = None,
) -> dict[str, float]:
    """Kafka's ProducerPerformance with acks=all and the producer's defaults otherwise. Rates are of the steady state;
    the processor time is that of the whole run, warm-up included, for all of its bytes.
    """
    _settle()
    linger = [] if linger_ms is None else [f"linger.ms={linger_ms}"]
    used = total_cpu_seconds(server.pids)
    done = run_tool(
        PRODUCER_PERFORMANCE,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--record-size", str(record_bytes)),
        *("--num-records", str(measured + warm_up), "--warmup-records", str(warm_up)),
        *("--throughput", str(throughput), "--command-property", "acks=all", *linger),
        jvm_options=PERFORMANCE_JVM_OPTIONS,
        timeout_s=LOAD_TIMEOUT_S,
    )
    used = total_cpu_seconds(server.pids) - used
    found = _STEADY.search(done.out)
    if found is None or "Exception" in done.text:
        raise LoadFailed(f"producer-perf on {server.name}: {done.text[-2_000:]}")
    rate, mib_rate, average, longest, p50, p95, p99, p999 = (float(found[index]) for index in range(2, 10))
    return {
        "records": float(found[1]),
        "records_per_s": rate,
        "mib_per_s": mib_rate,
        "latency_avg_ms": average,
        "latency_max_ms": longest,
        "latency_p50_ms": p50,
        "latency_p95_ms": p95,
        "latency_p99_ms": p99,
        "latency_p999_ms": p999,
        "server_cpu_s": used,
        "gb": (measured + warm_up) * record_bytes / 1e9,
    }


def consume(server: Target, topic: str, records: int, record_bytes: int, passes: int) -> dict[str, Any]:
    """librdkafka with its default settings, partitions assigned by hand: kcat, which costs little beside the library.

    Each pass is a process that reads so many records from offset 0 on and ends; the first is the warm-up.
    """
    _settle()
    command = ["kcat", "-C", "-b", server.bootstrap, "-t", topic, "-o", "beginning", "-c", str(records), "-q", "-f", ""]
    used = total_cpu_seconds(server.pids)
    seconds = []
    for _ in range(passes):
        began = time.perf_counter()
        done = subprocess.run(
            dying_with_us(command), capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False
        )
        seconds.append(time.perf_counter() - began)
        if done.returncode != 0:
            raise LoadFailed(f"kcat on {server.name}: {done.stderr[-2_000:]}")
    used = total_cpu_seconds(server.pids) - used
    read_bytes = records * record_bytes
    return {
        "seconds": seconds,
        "records": records,
        "bytes": read_bytes,
        "mb_per_s": read_bytes * (passes - 1) / sum(seconds[1:]) / 1e6,
        "server_cpu_s": used,
        "gb": read_bytes * passes / 1e9,
    }


def python_consume(server: Target, topic: str, record_bytes: int, passes: int) -> dict[str, Any]:
    """confluent-kafka with large queues: a Python object for each record, so the client is most of what is measured."""
    _settle()
    used = total_cpu_seconds(server.pids)
    command = [sys.executable, "-m", "bench.consume", server.bootstrap, topic, str(record_bytes), str(passes)]
    done = subprocess.run(
        dying_with_us(command), capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False, cwd=REPOSITORY
    )
    used = total_cpu_seconds(server.pids) - used
    if done.returncode != 0:
        raise LoadFailed(f"consumer on {server.name}: {done.stderr[-2_000:]}")
    result = json.loads(done.stdout)
    measured = result["seconds"][1:]
    return {
        **result,
        "mb_per_s": result["bytes"] * len(measured) / sum(measured) / 1e6,
        "server_cpu_s": used,
        "gb": result["bytes"] * passes / 1e9,
    }


def java_consume(server: Target, topic: str, records: int) -> dict[str, float]:
    """Kafka's ConsumerPerformance, in a group; its own figure without the time of joining the group."""
    _settle()
    done = run_tool(
        CONSUMER_PERFORMANCE,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--num-records", str(records), "--hide-header"),
        *("--timeout", "30000"),
        jvm_options=PERFORMANCE_JVM_OPTIONS,
        timeout_s=LOAD_TIMEOUT_S,
    )
    columns = done.out.strip().splitlines()[-1].split(", ")
    if len(columns) != 10 or int(columns[4]) < records:
        raise LoadFailed(f"consumer-perf on {server.name}: {done.text[-2_000:]}")
    return {"records": float(columns[4]), "mib_per_s": float(columns[8]), "records_per_s": float(columns[9])}


def _settle() -> None:
    """Dirty pages of the load before are not this one's to write."""
    os.sync()
    time.sleep(0.5)
