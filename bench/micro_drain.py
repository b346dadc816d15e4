"""Eight consumers drain a backlog beside a producer of 1,000 records/s, round after round; see bench.cluster.drain.

    python -m bench.micro_drain [--server bmq|kafka] [--rounds N] [--windows N] [--mib N]

Three nodes on HDFS, or three Kafka brokers, warm. Each round has the consumers in the servers' session first, then apart:
in sessions that give way to all servers, as consumers on other machines would.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.cluster import drain
from bench.cluster.criteria import drain_ratio
from bench.cluster.sides import Side
from bench.cluster.stage import Stage
from bench.criteria import BMQ, KAFKA
from bench.hdfs.commands import prepare_process
from bench.loads.client import Client
from bench.loads.loads import PARTITIONS, RECORD_BYTES, WARM_UP, make_topic

MIB: Final = 1024 * 1024
WARM_UP_S: Final = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=(BMQ, KAFKA), default=BMQ)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--mib", type=int, default=768)
    chosen = parser.parse_args()
    prepare_process()
    with TemporaryDirectory(prefix="bmq-drain-") as directory:
        stage = Stage(Path(directory))
        try:
            with stage.combined(chosen.server) as side:
                _warm_up(side, Client(Path(directory)))
                drain.prepare(side, chosen.mib * MIB)
                for number in range(chosen.rounds):
                    for is_apart in (False, True):
                        _measure(side, number, chosen.windows, is_apart=is_apart)
        finally:
            stage.down()


def _warm_up(side: Side, client: Client) -> None:
    """For longer than the compiler of a JVM takes."""
    make_topic(side, WARM_UP, PARTITIONS)
    client.produce(
        side.bootstrap, side.pids, WARM_UP, PARTITIONS, record_bytes=RECORD_BYTES, warm_s=0.0, seconds=WARM_UP_S
    )


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
