"""A topic of many partitions, filled and then written to at random: its rate, and whether living nodes are fenced meanwhile.

    python -m bench.micro_many [--server bmq|kafka] [--separate] [--partitions N] [--rounds N]

Three nodes on HDFS, three proxies and three brokers (`--separate`), or three Kafka brokers. Prints the time until each
partition has its first record, the loads of 8 s behind a warm-up of 5 with the CPU of all servers, and of bmq how often its
servers say that a node was fenced or a controller given up.
"""

from __future__ import annotations

import time
from typing import Any, Final

from bench.cluster.filling import fill
from bench.cluster.sides import PROXIES_AND_BROKERS, Side
from bench.criteria import BMQ
from bench.loads.client import Client
from bench.loads.loads import SMALL_BYTES, make_topic
from bench.micro_cluster import options, staged, warm_up

TOPIC: Final = "many"
WARM_UP_S: Final = 20.0
LOAD_WARM_S: Final = 5.0
LOAD_S: Final = 8.0
FENCED: Final = ('"event": "node_fenced"', '"event": "controller_silent"')


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--separate", action="store_true", help="three proxies and three brokers; bmq only")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.separate and chosen.server != BMQ:
        parser.error("--separate is for bmq")
    with (
        staged("many") as stage,
        stage.bmq(PROXIES_AND_BROKERS) if chosen.separate else stage.combined(chosen.server) as side,
    ):
        client = Client(stage.directory)
        warm_up(side, client, WARM_UP_S)
        make_topic(side, TOPIC, chosen.partitions)
        began_s = time.monotonic()
        fill(side.bootstrap, TOPIC, chosen.partitions, chosen.partitions * SMALL_BYTES, SMALL_BYTES)
        print(
            f"{side.name}: {chosen.partitions} partitions in use after {time.monotonic() - began_s:.1f} s", flush=True
        )
        for number in range(chosen.rounds):
            _load(side, client, chosen.partitions, number)
        if chosen.server == BMQ:
            fenced = sum(_fenced(node.process.log_file.read_text()) for node in side.nodes.values())
            print(f"{side.name}: {fenced} lines of a node fenced or a controller given up")


def _load(side: Side, client: Client, partitions: int, number: int) -> None:
    began_s = time.monotonic()
    found: dict[str, Any] = client.produce(
        side.bootstrap, side.pids, TOPIC, partitions,
        record_bytes=SMALL_BYTES, warm_s=LOAD_WARM_S, seconds=LOAD_S,
    )  # fmt: skip
    print(
        f"{side.name} {number + 1}: {found['records'] / LOAD_S:,.0f} records/s,"
        f" half acknowledged within {found['acknowledged']['p50_us'] / 1e6:.1f} s,"
        f" all after {time.monotonic() - began_s:.1f} s, servers' CPU in the window {found['server_cpu_s']:.1f} s",
        flush=True,
    )


def _fenced(log: str) -> int:
    return sum(any(event in line for event in FENCED) for line in log.splitlines())


if __name__ == "__main__":
    main()
