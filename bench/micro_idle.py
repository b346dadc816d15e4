"""What idle consumers cost, by process: a cluster without them and with them, round after round.

    python -m bench.micro_idle [--server bmq|kafka] [--rounds N] [--consumers N] [--profile FILE]

Three nodes on HDFS, or three Kafka brokers, which have been under load before. Each consumer is a connection with a fetch
under way at the end of one partition's log, from a client in C, as in `bench.loads`. `--profile`: of the node that serves
them, by py-spy, as speedscope reads it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.cluster.admin import leaders
from bench.cluster.filling import fill
from bench.cluster.sides import Side
from bench.cluster.stage import Stage
from bench.core.client import Client as FrameClient
from bench.core.client import Load
from bench.core.frames import fetch_frames
from bench.criteria import BMQ, KAFKA
from bench.hdfs.commands import prepare_process
from bench.loads.client import Client
from bench.loads.loads import IDLE, PARTITIONS, RECORD_BYTES, make_topic
from bench.measure import cpu_times

TOPIC: Final = "warm"
WARM_UP_S: Final = 30.0
SECONDS: Final = 8.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=(BMQ, KAFKA), default=BMQ)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--consumers", type=int, default=1_000)
    parser.add_argument("--profile", type=Path)
    chosen = parser.parse_args()
    prepare_process()
    with TemporaryDirectory(prefix="bmq-idle-") as directory:
        stage = Stage(Path(directory))
        try:
            with stage.combined(chosen.server) as side:
                _warm_up(side, Client(Path(directory)))
                frames = FrameClient(Path(directory) / "frames", max(os.sched_getaffinity(0)))
                _measure(side, frames, chosen.consumers, chosen.rounds, chosen.profile)
        finally:
            stage.down()


def _warm_up(side: Side, client: Client) -> None:
    make_topic(side, TOPIC, PARTITIONS)
    make_topic(side, IDLE, 1)
    fill(side.bootstrap, IDLE, 1, RECORD_BYTES, RECORD_BYTES)
    client.produce(
        side.bootstrap, side.pids, TOPIC, PARTITIONS, record_bytes=RECORD_BYTES, warm_s=0.0, seconds=WARM_UP_S
    )


def _measure(side: Side, frames: FrameClient, consumers: int, rounds: int, profile: Path | None) -> None:
    leader = leaders(side.addresses, IDLE)[0]
    port = int(side.nodes[leader].kafka.rpartition(":")[2])
    load = Load(fetch_frames(IDLE, 1, [1]), consumers, 1)
    print(f"{side.name}: node {leader} serves them; user + system, % of a core")
    for number in range(rounds):
        before = _times(side)
        time.sleep(SECONDS)
        _tell(f"{number + 1}, nobody", before, _times(side), SECONDS)
        profiler = None
        if profile is not None and number == rounds - 1:
            command = ["py-spy", "record", "-p", str(side.nodes[leader].process.pid), "-d", str(int(SECONDS))]
            profiler = subprocess.Popen([*command, "-r", "200", "-f", "raw", "-o", str(profile)])
        before, began_s = _times(side), time.monotonic()
        found = frames.put(port, dict(side.processes), load, warm_s=2.0, seconds=SECONDS)
        _tell(f"{number + 1}, {consumers} consumers", before, _times(side), time.monotonic() - began_s)
        print(f"   as measured: {100 * found['server_cpu_s'] / SECONDS:.1f}%, {found['answers']} answers", flush=True)
        if profiler is not None:
            profiler.wait()


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
