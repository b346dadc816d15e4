"""What TLS between nodes costs: produces through a proxy to a broker of its own process, in plaintext and by TLS.

    python -m bench.micro_internode [--pairs N] [--seconds N]

Two clusters of one proxy and one broker on one HDFS, loaded in turns with records of 1 KiB; the topic has all its partitions at
the broker, so that each record crosses the link. Prints records/s and the CPU of both servers for each round, and the ratios
of the medians. Needs the extra `ca`.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

from bench.cluster.sides import Side
from bench.loads.client import Client
from bench.loads.loads import PARTITIONS, RECORD_BYTES, make_topic
from bench.micro_cluster import staged
from bmq.cli.node_authority import CERTIFICATE, issue, make_authority

LAYOUT: Final = ("proxy", "broker,coordinator,controller")
TOPIC: Final = "internode"
PLAINTEXT, TLS = "plaintext", "tls"
WARM_UP_S: Final = 4.0
WARM_S: Final = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    with staged("internode") as stage:
        encrypted = _settings(stage.directory / "ca")
        with stage.bmq(LAYOUT) as plain, stage.bmq(LAYOUT, environment=encrypted) as secured:
            client = Client(stage.directory)
            sides = {PLAINTEXT: plain, TLS: secured}
            for side in sides.values():
                make_topic(side, TOPIC, PARTITIONS, replication=1)
                _round(side, client, WARM_UP_S)
            rates: dict[str, list[float]] = {name: [] for name in sides}
            cpu: dict[str, list[float]] = {name: [] for name in sides}
            for pair in range(chosen.pairs):
                for name in (PLAINTEXT, TLS) if pair % 2 == 0 else (TLS, PLAINTEXT):
                    rate, cpu_us = _round(sides[name], client, chosen.seconds)
                    rates[name].append(rate)
                    cpu[name].append(cpu_us)
                    print(f"{name:9} {rate:9,.0f} records/s, {cpu_us:5.2f} us of CPU each", flush=True)
    print(f"rate by TLS: {median(rates[TLS]) / median(rates[PLAINTEXT]):.2f} times that in plaintext")
    print(f"CPU by TLS: {median(cpu[TLS]) / median(cpu[PLAINTEXT]):.2f} times that in plaintext")


def _settings(directory: Path) -> Mapping[str, str]:
    now = datetime.datetime.now(datetime.UTC)
    make_authority(directory, "bench", 2, now)
    certificate = issue(directory, "node", ("127.0.0.1",), 1, now).path
    prefix = "BMQ_INTERNODE_SECURITY__"
    return {f"{prefix}CERTIFICATE_FILE": str(certificate), f"{prefix}CA_FILE": str(directory / CERTIFICATE)}


def _round(side: Side, client: Client, seconds: float) -> tuple[float, float]:
    """Records per second, and microseconds of the servers' CPU for each."""
    found = client.produce(
        side.bootstrap, side.pids, TOPIC, PARTITIONS, record_bytes=RECORD_BYTES, warm_s=WARM_S, seconds=seconds
    )
    return found["records"] / seconds, found["server_cpu_s"] * 1e6 / found["records"]


if __name__ == "__main__":
    main()
