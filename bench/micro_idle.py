"""What idle consumers cost, by process: a cluster without them and with them, round after round.

    python -m bench.micro_idle [--server bmq|kafka] [--rounds N] [--consumers N]

Three nodes on HDFS, or three Kafka brokers, which have been under load before. Each consumer is a connection with a fetch
under way at the end of one partition's log, from a client in C, as in `bench.loads`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Final

from bench.cluster.admin import leaders
from bench.cluster.filling import fill
from bench.cluster.sides import Side
from bench.core.client import Client as FrameClient
from bench.core.client import Load
from bench.core.frames import fetch_frames
from bench.loads.client import Client
from bench.loads.loads import IDLE, RECORD_BYTES, make_topic
from bench.measure import cpu_times
from bench.micro_cluster import options, staged, warm_up

WARM_UP_S: Final = 30.0
SECONDS: Final = 8.0


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--consumers", type=int, default=1_000)
    chosen = parser.parse_args()
    with staged("idle") as stage, stage.combined(chosen.server) as side:
        make_topic(side, IDLE, 1)
        fill(side.bootstrap, IDLE, 1, RECORD_BYTES, RECORD_BYTES)
        warm_up(side, Client(stage.directory), WARM_UP_S)
        frames = FrameClient(stage.directory / "frames", max(os.sched_getaffinity(0)))
        _measure(side, frames, chosen.consumers, chosen.rounds)


def _measure(side: Side, frames: FrameClient, consumers: int, rounds: int) -> None:
    leader = leaders(side.addresses, IDLE)[0]
    port = int(side.nodes[leader].kafka.rpartition(":")[2])
    load = Load(fetch_frames(IDLE, 1, [1]), consumers, 1)
    print(f"{side.name}: node {leader} serves them; user + system, % of a core")
    for number in range(rounds):
        before = _times(side)
        time.sleep(SECONDS)
        _tell(f"{number + 1}, nobody", before, _times(side), SECONDS)
        before, began_s = _times(side), time.monotonic()
        found = frames.put(port, dict(side.processes), load, warm_s=2.0, seconds=SECONDS)
        _tell(f"{number + 1}, {consumers} consumers", before, _times(side), time.monotonic() - began_s)
        print(f"   as measured: {100 * found['server_cpu_s'] / SECONDS:.1f}%, {found['answers']} answers", flush=True)


def _times(side: Side) -> dict[str, tuple[float, float]]:
    return {name: cpu_times(pid) for name, pid in side.processes.items()}


def _tell(
    what: str, before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]], seconds: float
) -> None:
    shares = {name: [100 * (b - a) / seconds for a, b in zip(before[name], after[name], strict=True)] for name in after}
    parts = ", ".join(f"{name} {user:.1f} + {system:.1f}" for name, (user, system) in shares.items())
    print(f"{what}: {sum(map(sum, shares.values())):.1f}: {parts}", flush=True)


if __name__ == "__main__":
    main()
