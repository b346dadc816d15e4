"""Eight consumers drain a backlog beside a producer of 1,000 records/s, round after round; see bench.cluster.drain.

    python -m bench.micro_drain [--server bmq|kafka] [--rounds N] [--windows N] [--mib N]

Three nodes on HDFS, or three Kafka brokers, warm. Each round has the consumers in the servers' session first, then apart:
in sessions that give way to all servers, as consumers on other machines would.
"""

from __future__ import annotations

import statistics
from typing import Final

from bench.cluster import drain
from bench.cluster.criteria import drain_ratio
from bench.cluster.sides import Side
from bench.loads.client import Client
from bench.micro_cluster import options, staged, warm_up

MIB: Final = 1024 * 1024
WARM_UP_S: Final = 60.0


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--mib", type=int, default=768)
    chosen = parser.parse_args()
    with staged("drain") as stage, stage.combined(chosen.server) as side:
        warm_up(side, Client(stage.directory), WARM_UP_S)
        drain.prepare(side, chosen.mib * MIB)
        for number in range(chosen.rounds):
            for is_apart in (False, True):
                _measure(side, number, chosen.windows, is_apart=is_apart)


def _measure(side: Side, number: int, windows: int, *, is_apart: bool) -> None:
    found = drain.measure(side, windows, 6.0, is_apart=is_apart)
    calm, draining = ([one[kind]["p99_ms"] for one in found["rounds"]] for kind in ("calm", "draining"))
    print(
        f"{side.name} {number + 1}, consumers {'apart' if is_apart else 'beside the servers'}:"
        f" {found['drained_mb_per_s']} MB/s, p99 {statistics.median(calm):.1f} ms calm,"
        f" {statistics.median(draining):.1f} ms while drained, ratio {drain_ratio(found):.2f}; all {calm} | {draining}",
        flush=True,
    )


if __name__ == "__main__":
    main()
