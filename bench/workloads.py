"""The loads a server or a cluster is put under, each by a stock client and each behind its own warm-up."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from bench.criteria import KAFKA, Ratio, Samples
from bench.measure import total_cpu_seconds, usage
from bench.warm_up import warm_up
from testing.java import (
    CONSUMER_PERFORMANCE,
    PERFORMANCE_JVM_OPTIONS,
    PRODUCER_PERFORMANCE,
    java_command,
    run_tool,
)
from testing.processes import REPOSITORY, dying_with_us

LOAD_TIMEOUT_S: Final = 180
TOPICS: Final = ("warm-up", "produce-1k", "produce-100b", "produce-10k-rps")
RATE: Final = 10_000
LATENCY_CLIENT: Final = Path(__file__).with_name("Latency.java")

_STEADY: Final = re.compile(
    r"^(\d+) steady state records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\.",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each workload sends; the records of a load's own warm-up are sent in front and not measured.

    `warming_1k`: what a new server is given again and again until its rate stops improving, `warm_ups_max` times at most.
    """

    warming_1k: int
    warm_ups_max: int
    warm_up_1k: int
    measured_1k: int
    warm_up_100b: int
    measured_100b: int
    warm_up_10k_rps: int
    measured_10k_rps: int
    consume_passes: int


class Target(Protocol):
    """What a load needs of a server or a cluster: `processes` are all of it, by name, for what they use."""

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def processes(self) -> Mapping[str, int]: ...


class LoadFailed(Exception):
    """A client did not do its load; the message is its output."""


def run_all(target: Target, sizes: Sizes, make_topic: Callable[[str], None], raw: dict[str, Any]) -> None:
    """Every workload against one fresh target; the figures are put into `raw` as they come.

    `moments`: processor time so far and memory of all its processes, at the same moments whatever the target is.
    """
    moments: dict[str, Any] = {"ready": usage(target.processes)}
    raw["moments"] = moments
    for topic in TOPICS:
        make_topic(topic)
    # Servers warm up too: a JVM compiles what runs often, and all open their files.
    raw["warm_up"] = warm_up(
        lambda: produce(target, "warm-up", 1_024, sizes.warming_1k, sizes.warming_1k // 5)["mib_per_s"],
        sizes.warm_ups_max,
    )
    moments["warm"] = usage(target.processes)
    raw["produce_1k"] = produce(target, "produce-1k", 1_024, sizes.measured_1k, sizes.warm_up_1k)
    moments["after_produce"] = usage(target.processes)
    records = sizes.measured_1k + sizes.warm_up_1k
    raw["consume"] = consume(target, "produce-1k", records, 1_024, sizes.consume_passes)
    raw["python_consume"] = python_consume(target, "produce-1k", 1_024, sizes.consume_passes)
    raw["java_consume"] = java_consume(target, "produce-1k", records, sizes.consume_passes)
    moments["after_consume"] = usage(target.processes)
    raw["produce_100b"] = produce(target, "produce-100b", 100, sizes.measured_100b, sizes.warm_up_100b)
    raw["produce_10k_rps"] = latency(target, "produce-10k-rps", 1_024, sizes.measured_10k_rps, sizes.warm_up_10k_rps)
    moments["at_end"] = usage(target.processes)


# -- Producers -----------------------------------------------------------------------------------------------------------


def produce(target: Target, topic: str, record_bytes: int, measured: int, warm_up_records: int) -> dict[str, float]:
    """Kafka's ProducerPerformance with acks=all and the producer's defaults otherwise. Rates are of the steady state;
    the processor time is that of the whole run, warm-up included, for all of its bytes.
    """
    settle()
    used = total_cpu_seconds(target.processes.values())
    done = run_tool(
        PRODUCER_PERFORMANCE,
        *("--bootstrap-server", target.bootstrap, "--topic", topic, "--record-size", str(record_bytes)),
        *("--num-records", str(measured + warm_up_records), "--warmup-records", str(warm_up_records)),
        *("--throughput", "-1", "--command-property", "acks=all"),
        jvm_options=PERFORMANCE_JVM_OPTIONS,
        timeout_s=LOAD_TIMEOUT_S,
    )
    used = total_cpu_seconds(target.processes.values()) - used
    found = _STEADY.search(done.out)
    if found is None or "Exception" in done.text:
        raise LoadFailed(f"producer-perf on {target.name}: {done.text[-2_000:]}")
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
        "gb": (measured + warm_up_records) * record_bytes / 1e9,
    }


def latency(target: Target, topic: str, record_bytes: int, measured: int, warm_up_records: int) -> dict[str, Any]:
    """Kafka's Java producer at a steady rate, acks=all, without linger: microseconds from send() to the callback."""
    settle()
    used = total_cpu_seconds(target.processes.values())
    command = java_command(
        str(LATENCY_CLIENT),
        [
            target.bootstrap,
            topic,
            *map(str, (record_bytes, RATE, warm_up_records, measured)),
            "acks=all",
            "linger.ms=0",
        ],
        PERFORMANCE_JVM_OPTIONS,
    )
    done = subprocess.run(
        dying_with_us(command), capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False, cwd=REPOSITORY
    )
    used = total_cpu_seconds(target.processes.values()) - used
    if done.returncode != 0:
        raise LoadFailed(f"steady producer on {target.name}: {done.stdout[-500:]}{done.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return {**found, "server_cpu_s": used, "gb": (measured + warm_up_records) * record_bytes / 1e9}


# -- Consumers -----------------------------------------------------------------------------------------------------------


def consume(target: Target, topic: str, records: int, record_bytes: int, passes: int) -> dict[str, Any]:
    """librdkafka with its default settings, partitions assigned by hand: kcat, which costs little beside the library.

    Each pass is a process that reads so many records from offset 0 on and ends.
    """
    settle()
    command = ["kcat", "-C", "-b", target.bootstrap, "-t", topic, "-o", "beginning", "-c", str(records), "-q", "-f", ""]
    used = total_cpu_seconds(target.processes.values())
    seconds = []
    for _ in range(passes):
        began = time.perf_counter()
        done = subprocess.run(
            dying_with_us(command), capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False
        )
        seconds.append(time.perf_counter() - began)
        if done.returncode != 0:
            raise LoadFailed(f"kcat on {target.name}: {done.stderr[-2_000:]}")
    used = total_cpu_seconds(target.processes.values()) - used
    read_bytes = records * record_bytes
    return {
        **pass_rates(seconds, read_bytes),
        "records": records,
        "server_cpu_s": used,
        "gb": read_bytes * passes / 1e9,
    }


def pass_rates(seconds: Sequence[float], read_bytes: int) -> dict[str, Any]:
    """`first_mb_per_s`: of the first pass; `mb_per_s`: of all later ones together. Pure."""
    return {
        "seconds": list(seconds),
        "bytes": read_bytes,
        "first_mb_per_s": read_bytes / seconds[0] / 1e6,
        "mb_per_s": read_bytes * (len(seconds) - 1) / sum(seconds[1:]) / 1e6,
    }


def python_consume(
    target: Target, topic: str, record_bytes: int, passes: int, properties: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """confluent-kafka with large queues: a Python object for each record, so the client is most of what is measured.

    `properties`: of librdkafka.
    """
    settle()
    used = total_cpu_seconds(target.processes.values())
    given = [f"{name}={value}" for name, value in (properties or {}).items()]
    command = [sys.executable, "-m", "bench.consume", target.bootstrap, topic, str(record_bytes), str(passes), *given]
    done = subprocess.run(
        dying_with_us(command), capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False, cwd=REPOSITORY
    )
    used = total_cpu_seconds(target.processes.values()) - used
    if done.returncode != 0:
        raise LoadFailed(f"consumer on {target.name}: {done.stderr[-2_000:]}")
    result = json.loads(done.stdout)
    rates = pass_rates(result["seconds"], result["bytes"])
    return {**result, **rates, "server_cpu_s": used, "gb": result["bytes"] * passes / 1e9}


def java_consume(target: Target, topic: str, records: int, passes: int) -> dict[str, Any]:
    """Kafka's ConsumerPerformance, in a group; its own figure without the time of joining the group. A new process each
    pass, with the client's compiler in it; the median of all passes.
    """
    settle()
    rates = []
    for _ in range(passes):
        done = run_tool(
            CONSUMER_PERFORMANCE,
            *("--bootstrap-server", target.bootstrap, "--topic", topic, "--num-records", str(records), "--hide-header"),
            *("--timeout", "30000"),
            jvm_options=PERFORMANCE_JVM_OPTIONS,
            timeout_s=LOAD_TIMEOUT_S,
        )
        columns = done.out.strip().splitlines()[-1].split(", ")
        if len(columns) != 10 or int(columns[4]) < records:
            raise LoadFailed(f"consumer-perf on {target.name}: {done.text[-2_000:]}")
        rates.append(float(columns[8]))
    return {"records": records, "mib_per_s_of_passes": rates, "mib_per_s": statistics.median(rates)}


def settle() -> None:
    """Dirty pages of the load before are not this one's to write."""
    os.sync()
    time.sleep(0.5)


# -- What is judged ------------------------------------------------------------------------------------------------------


def _cpu_per_gb(raw: Samples) -> float:
    """Server seconds to take a gigabyte in and to give a gigabyte out, together."""
    return sum(float(raw[load]["server_cpu_s"]) / float(raw[load]["gb"]) for load in ("produce_1k", "consume"))


def _cpu_at_end(raw: Samples) -> float:
    return float(raw["moments"]["at_end"]["cpu_s"]) - float(raw["moments"]["ready"]["cpu_s"])


# id: what, unit, figure. The same figures are judged of a server and of a cluster.
FIGURES: Final[Mapping[str, tuple[str, str, Callable[[Samples], float]]]] = {
    "produce_1k_ratio": ("produce 1 KiB", "MiB/s", lambda raw: raw["produce_1k"]["mib_per_s"]),
    "produce_100b_ratio": ("produce 100 B", "records/s", lambda raw: raw["produce_100b"]["records_per_s"]),
    "p99_10k_rps_ratio": ("p99 at 10,000 records/s", "us", lambda raw: raw["produce_10k_rps"]["latency_p99_us"]),
    "consume_ratio": ("consume a backlog again, kcat", "MB/s", lambda raw: raw["consume"]["mb_per_s"]),
    "memory_ratio": ("memory (PSS) after producing", "MiB", lambda raw: raw["moments"]["after_produce"]["pss_mib"]),
    "cpu_per_gb_ratio": ("server CPU per GB in + out", "s", _cpu_per_gb),
    "python_consume_ratio": (
        "consume it again, confluent-kafka", "MB/s", lambda raw: raw["python_consume"]["mb_per_s"],
    ),
    "java_consume_ratio": ("consume it again, Java consumer", "MiB/s", lambda raw: raw["java_consume"]["mib_per_s"]),
    "consume_first_ratio": (
        "consume it the first time, kcat", "MB/s", lambda raw: raw["consume"]["first_mb_per_s"],
    ),
    "p50_10k_rps_ratio": ("p50 at 10,000 records/s", "us", lambda raw: raw["produce_10k_rps"]["latency_p50_us"]),
    "p999_10k_rps_ratio": ("p99.9 at 10,000 records/s", "us", lambda raw: raw["produce_10k_rps"]["latency_p999_us"]),
    "memory_at_end_ratio": ("memory (PSS) at the end", "MiB", lambda raw: raw["moments"]["at_end"]["pss_mib"]),
    "cpu_at_end_ratio": ("server CPU of the whole run", "s", _cpu_at_end),
}  # fmt: skip


def ratios(
    part: str,
    bounds: Mapping[str, tuple[str, float]],
    ours: str,
    theirs: str = KAFKA,
    *,
    prefix: str = "",
    where: str = "",
) -> tuple[Ratio, ...]:
    """Every figure as a ratio of `ours` to `theirs` in the pairs of a part; judged where it has a bound.

    `prefix` of their ids, and `where` behind what they say, when they are not the usual ones.
    """
    return tuple(
        Ratio(f"{prefix}{name}", part, f"{what}{where}", unit, *bounds.get(name, ("", 0)), of, (ours,), (theirs,))
        for name, (what, unit, of) in FIGURES.items()
    )
