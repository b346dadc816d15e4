"""What a steady load waits for: every long pause of a cluster under part of its full rate, and who stood still in it.

    python -m bench.micro_pauses [--minutes N] [--share S] [--pause-ms MS] [--server bmq|kafka]

Three nodes on HDFS, or three Kafka brokers, under `--share` of the rate that saturates them, from a client in C. Beside it
a probe sends 200 records a second; each of them that waits longer than `--pause-ms` is part of a pause. A sampler reads
what the kernel's scheduler counts (/proc/PID/schedstat) for the event loop of each node and for the client: on a processor,
or runnable and waiting for one. What is neither is the store (of Kafka: the broker, whose threads are not told apart).
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from bench.cluster.sides import Side
from bench.cluster.steady import SteadyLoad
from bench.loads.client import Client
from bench.loads.loads import PARTITIONS, RECORD_BYTES, make_topic
from bench.micro_cluster import options, staged

TOPIC: Final = "paused"
PROBES_PER_S: Final = 200.0
PROBE_BYTES: Final = 100
SATURATED_S: Final = 8.0
WARM_UP_S: Final = 60.0
SAMPLE_INTERVAL_S: Final = 0.005
SHARE_OF_A_CAUSE: Final = 0.5
JOINED_WITHIN_S: Final = 0.02
CLIENT: Final = "client"
# Ten minutes are more than a disk takes: older segments go meanwhile, as they would with any user.
RETENTION: Final = {"log.retention.check.interval.ms": "10000"}
KEPT: Final = {
    "retention.bytes": str(256 * 1024 * 1024),
    "segment.bytes": str(128 * 1024 * 1024),
    "file.delete.delay.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Pause:
    """Records to the partitions of one node that waited at the same time; seconds."""

    node: str
    began_s: float
    ended_s: float

    @property
    def length_s(self) -> float:
        return self.ended_s - self.began_s


class Schedule:
    """What one thread or process had used at each sample: seconds on a processor, and runnable without one."""

    def __init__(self, times_s: Sequence[float], running_s: Sequence[float], waiting_s: Sequence[float]) -> None:
        self._times_s = times_s
        self._running_s = running_s
        self._waiting_s = waiting_s

    def between(self, began_s: float, ended_s: float) -> tuple[float, float]:
        """Running and waiting between the last sample before and the first one behind."""
        last = len(self._times_s) - 1
        first = max(bisect_left(self._times_s, began_s) - 1, 0)
        behind = min(bisect_left(self._times_s, ended_s), last)
        return (
            self._running_s[behind] - self._running_s[first],
            self._waiting_s[behind] - self._waiting_s[first],
        )


def pauses_of(waits: Iterable[tuple[str, float, float]]) -> list[Pause]:
    """Waits (node, from, to) of one node that overlap, or nearly, are one pause."""
    found: list[Pause] = []
    for node, began_s, ended_s in sorted(waits):
        last = found[-1] if found else None
        if last is not None and last.node == node and began_s <= last.ended_s + JOINED_WITHIN_S:
            found[-1] = Pause(node, last.began_s, max(last.ended_s, ended_s))
        else:
            found.append(Pause(node, began_s, ended_s))
    return sorted(found, key=lambda pause: pause.began_s)


def cause_of(pause: Pause, schedules: Mapping[str, Schedule]) -> str:
    """Who took at least half of it."""
    for name in (pause.node, CLIENT):
        schedule = schedules.get(name)
        if schedule is None:
            continue
        running_s, waiting_s = schedule.between(pause.began_s, pause.ended_s)
        who = "the client" if name == CLIENT else "the node"
        if waiting_s >= SHARE_OF_A_CAUSE * pause.length_s:
            return f"{who} waited for a processor"
        if running_s >= SHARE_OF_A_CAUSE * pause.length_s:
            return f"{who} computed"
        if running_s + waiting_s >= SHARE_OF_A_CAUSE * pause.length_s:
            return f"{who} computed and waited for a processor"
    return "the store"


# --- sampling


def _sample(tasks: Mapping[str, Sequence[str]], asked: Connection) -> None:
    """Until asked to end; then send the samples. Of each name the sum over its files."""
    files = {name: [os.open(path, os.O_RDONLY) for path in paths] for name, paths in tasks.items()}
    times_s = array("d")
    found = {name: (array("d"), array("d")) for name in files}
    while not asked.poll(SAMPLE_INTERVAL_S):
        times_s.append(time.monotonic())
        for name, descriptors in files.items():
            running_ns = waiting_ns = 0
            for descriptor in descriptors:
                with suppress(ProcessLookupError):  # a thread that has ended
                    counts = os.pread(descriptor, 100, 0).split()
                    running_ns, waiting_ns = running_ns + int(counts[0]), waiting_ns + int(counts[1])
            found[name][0].append(running_ns / 1e9)
            found[name][1].append(waiting_ns / 1e9)
    asked.recv()
    asked.send((times_s, found))


@contextmanager
def sampled(side: Side) -> Iterator[dict[str, Schedule]]:
    """The schedules of the nodes' main threads and of this process, filled at the end."""
    own = [f"{task}/schedstat" for task in Path("/proc/self/task").resolve().iterdir()]
    tasks = {name: [f"/proc/{pid}/schedstat"] for name, pid in side.processes.items() if name.startswith("node ")}
    schedules: dict[str, Schedule] = {}
    here, there = multiprocessing.Pipe()
    sampler = multiprocessing.get_context("spawn").Process(
        target=_sample, args=({**tasks, CLIENT: own}, there), daemon=True
    )
    sampler.start()
    try:
        yield schedules
        here.send(None)
        times_s, found = here.recv()
        schedules.update((name, Schedule(times_s, *used)) for name, used in found.items())
    finally:
        sampler.kill()
        sampler.join()


# --- the run


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--pause-ms", type=float, default=20.0)
    chosen = parser.parse_args()
    with staged("pauses") as stage, stage.combined(chosen.server, RETENTION) as side:
        client = Client(stage.directory)
        report(*_measure(side, client, chosen.minutes * 60, chosen.share), chosen.pause_ms / 1000)


def _measure(
    side: Side, client: Client, seconds: float, share: float
) -> tuple[SteadyLoad, float, Mapping[int, int], Mapping[str, Schedule]]:
    """The probe, from when on it counts, the nodes by partition, and who did what."""
    make_topic(side, TOPIC, PARTITIONS, configs=KEPT)

    def produce(seconds: float, rate_per_s: float) -> dict[str, Any]:
        return client.produce(
            side.bootstrap, side.pids, TOPIC, PARTITIONS,
            record_bytes=RECORD_BYTES, warm_s=2.0, seconds=seconds, rate_per_s=rate_per_s,
        )  # fmt: skip

    produce(WARM_UP_S, 0)
    full_per_s = produce(SATURATED_S, 0)["records"] / SATURATED_S
    rate_per_s = share * full_per_s
    print(
        f"{side.name}: {rate_per_s:,.0f} records/s of {RECORD_BYTES} bytes, {share:g} of {full_per_s:,.0f}", flush=True
    )
    load = threading.Thread(target=produce, args=(seconds, rate_per_s))
    with SteadyLoad(side.bootstrap, TOPIC, PARTITIONS, PROBES_PER_S, PROBE_BYTES, **{"linger.ms": 0}) as probe:
        load.start()
        probe.wait_until_flowing()
        with sampled(side) as schedules:
            time.sleep(5.0)
            since_s = time.monotonic()
            load.join()
            owners = side.owners(TOPIC)
        probe.finish()
    return probe, since_s, owners, schedules


def report(
    probe: SteadyLoad, since_s: float, owners: Mapping[int, int], schedules: Mapping[str, Schedule], pause_s: float
) -> None:
    found = probe.seen.latencies(since_s, time.monotonic())
    print("the probe, ms: " + ", ".join(f"{name} {found[f'{name}_ms']:.1f}" for name in ("p50", "p90", "p99", "max")))
    pauses = pauses_of(
        (f"node {owners[partition]}", began_s, ended_s)
        for partition, began_s, ended_s in probe.seen.waits(since_s)
        if ended_s - began_s >= pause_s
    )
    causes: defaultdict[str, list[Pause]] = defaultdict(list)
    for pause in pauses:
        causes[cause_of(pause, schedules)].append(pause)
    for cause, some in sorted(causes.items(), key=lambda pair: -len(pair[1])):
        lengths_ms = sorted(1000 * pause.length_s for pause in some)
        print(f"{cause}: {len(some)} pauses, median {lengths_ms[len(some) // 2]:.0f}, longest {lengths_ms[-1]:.0f} ms")
    for pause in sorted(pauses, key=lambda pause: -pause.length_s)[:10]:
        used = {name: schedule.between(pause.began_s, pause.ended_s) for name, schedule in schedules.items()}
        each = ", ".join(f"{name} {1000 * runs:.0f} + {1000 * waits:.0f}" for name, (runs, waits) in used.items())
        print(
            f"  {pause.node} at {pause.began_s - since_s:.1f} s for {1000 * pause.length_s:.0f} ms: "
            f"{cause_of(pause, schedules)} (running + waiting, ms: {each})"
        )


if __name__ == "__main__":
    main()
