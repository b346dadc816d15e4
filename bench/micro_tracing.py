"""Produces on a server that traces 1 % of them, beside a server without traces: `python -m bench.micro_tracing [--smoke]`.

Both servers run on one processor, the client in C on another, and a collector that takes the traces. Short loads alternate: requests of
one record that fall due at a fixed rate, whose p99 is compared round by round. Prints JSON, and writes
.cache/bench-rough/micro_tracing.json. The bound: `p99_ratio`, the median of all rounds, at most 1.05.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import time
from contextlib import ExitStack
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from bench.core.client import Client, Load, pinned_to
from bench.core.frames import produce_frames
from bench.runner import show_rough
from testing.otlp_collector import OtlpCollector
from testing.processes import REPOSITORY
from testing.servers import BmqServer

DATA: Final = REPOSITORY / ".cache" / "bench-tracing"
TOPIC: Final = "traced"
PARTITIONS: Final = 6
RECORD_BYTES: Final = 100
CONNECTIONS: Final = 16
RATE_PER_S: Final = 2_000
SAMPLE_RATIO: Final = 0.01
WARM_S: Final = 0.5
BOUNDS: Final = {"p99_ratio": 1.05}
WITH: Final = "with"
WITHOUT: Final = "without"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--smoke", action="store_true", help="two short rounds: does it run?")
    chosen = parser.parse_args()
    rounds, seconds = (2, 1.0) if chosen.smoke else (chosen.rounds, chosen.seconds)
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        collector = OtlpCollector()
        stack.callback(collector.close)
        tracing = {
            **collector.environment(),
            "BMQ_TRACING__SAMPLE_RATIO": str(SAMPLE_RATIO),
            "BMQ_TRACING__TRACES_PER_S_MAX": "100000",
        }
        servers = {}
        for name, environment in ((WITHOUT, {}), (WITH, tracing)):
            server = servers[name] = BmqServer(DATA / name, environment, has_extras=True)
            stack.callback(server.close)
            with pinned_to(cores[:1]):
                server.start()
            admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        client = Client(DATA / "client", cores[-1])
        found = [one_round(client, servers, number, seconds) for number in range(rounds)]
        time.sleep(1)
        traces = len(collector.traces("produce"))
    result = {"rounds": found, "traces": traces, "figures": figures(found), "bounds": BOUNDS}
    show_rough("micro_tracing", result)


def one_round(client: Client, servers: dict[str, BmqServer], number: int, seconds: float) -> dict[str, Any]:
    """Both servers under the same load, one after the other; who comes first changes."""
    partitions = [[partition] for partition in range(PARTITIONS)]
    frames = produce_frames(TOPIC, partitions, RECORD_BYTES, 1, int(time.time() * 1000))
    load = Load(frames, CONNECTIONS, 1, RATE_PER_S)
    found: dict[str, Any] = {}
    for name in (WITHOUT, WITH)[:: 1 if number % 2 == 0 else -1]:
        server = servers[name]
        found[name] = client.put(server.port, {name: server.pid}, load, warm_s=WARM_S, seconds=seconds)
    return found


def figures(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Ratios of the server with traces to the one without: the median of all rounds."""

    def ratio(figure: str) -> float:
        return statistics.median(one[WITH][figure] / one[WITHOUT][figure] for one in rounds)

    return {
        "p99_ratio": ratio("latency_p99_us"),
        "p50_ratio": ratio("latency_p50_us"),
        "cpu_ratio": ratio("server_cpu_s"),
    }


if __name__ == "__main__":
    main()
