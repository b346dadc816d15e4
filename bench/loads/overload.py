"""Too many clients at once, and a DataNode that stands still: what a well-behaved producer sees, and the servers' memory.

Thousands of connections that only stand there, consumers that hardly read what they asked for, and producers that send as
fast as they are answered; beside them a librdkafka producer at a modest rate.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.cluster.admin import leaders
from bench.cluster.filling import fill
from bench.cluster.sides import Side
from bench.core.client import Client as FrameClient
from bench.core.client import Load
from bench.core.frames import fetch_frames, produce_frames
from bench.core.loads import BATCH_1K, IN_FLIGHT
from bench.loads.client import Client
from bench.loads.loads import PARTITIONS, RECORD_BYTES, make_topic
from bench.loads.plan import Plan
from bench.measure import usage
from bench.workloads import LoadFailed, settle
from testing.processes import REPOSITORY, dying_with_us

BACKLOG: Final = "backlog"
FAST: Final = "fast"
LIVE: Final = "live"
RATE_PER_S: Final = 1_000
SAMPLE_S: Final = 0.5
THERE_WAIT_S: Final = 60.0
STALLED_SHARE: Final = 0.3
"""Of the window in which it happens."""

Stall = Callable[[float], None]
"""Let something that the servers stand on stand still for so many seconds."""


def measure(side: Side, client: Client, plan: Plan, directory: Path, stall: Stall | None) -> dict[str, Any]:
    """The producer's latencies alone, in the crowd, and (with `stall`) in the crowd while that happens.

    Raises LoadFailed, AdminFailed, FillFailed.
    """
    for topic in (BACKLOG, FAST, LIVE):
        make_topic(side, topic, PARTITIONS)
    fill(side.bootstrap, BACKLOG, PARTITIONS, plan.overload_backlog_bytes, RECORD_BYTES)

    def steady() -> dict[str, Any]:
        settle()
        found = client.produce(
            side.bootstrap, side.pids, LIVE, PARTITIONS, record_bytes=RECORD_BYTES,
            warm_s=plan.warm_s, seconds=plan.overload_s, rate_per_s=RATE_PER_S,
        )  # fmt: skip
        return {**found["acknowledged"], "server_cpu_s": found["server_cpu_s"]}

    # A new JVM compiles, and all open their files.
    client.produce(
        side.bootstrap,
        side.pids,
        FAST,
        PARTITIONS,
        record_bytes=RECORD_BYTES,
        warm_s=plan.warm_s,
        seconds=2 * plan.seconds,
    )
    found: dict[str, Any] = {"calm": steady(), "memory_calm": usage(side.processes)}
    with _crowd(side, plan, directory) as left, _memory(side.processes) as samples:
        found["crowded"] = _beside_producers(side, plan, directory, steady)
        if stall is not None:
            held_s = plan.overload_s * STALLED_SHARE
            timer = threading.Timer(plan.warm_s + plan.overload_s / 2, stall, [held_s])
            timer.start()
            found["stalled"] = _beside_producers(side, plan, directory, steady)
            timer.join()
    found["crowd"] = left
    found["memory_pss_mib"] = samples
    return found


def _beside_producers(side: Side, plan: Plan, directory: Path, steady: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """`fast_mb_per_s`: what the producers got through."""
    by_leader: dict[int, list[int]] = defaultdict(list)
    for partition, leader in leaders(side.live_addresses, FAST).items():
        by_leader[leader].append(partition)
    now_ms = int(time.time() * 1000)
    each = plan.fast_producers // len(by_leader)
    seconds = 2 * plan.warm_s + plan.overload_s
    with ThreadPoolExecutor(len(by_leader)) as threads:
        under_way = []
        for leader, partitions in by_leader.items():
            frames = produce_frames(FAST, [partitions], RECORD_BYTES, BATCH_1K, now_ms)
            port = int(side.nodes[leader].kafka.rpartition(":")[2])
            fast = FrameClient(directory / f"fast-{leader}", None)
            under_way.append(
                (threads.submit(fast.put, port, {}, Load(frames, each, IN_FLIGHT), warm_s=0, seconds=seconds), frames)
            )
        found = steady()
        produced = sum(one.result()["answers"] * frames.records * RECORD_BYTES for one, frames in under_way)
    return {**found, "fast_mb_per_s": produced / seconds / 1e6}


@contextmanager
def _crowd(side: Side, plan: Plan, directory: Path) -> Iterator[dict[str, Any]]:
    """What it says at its end is put into what this gives. Raises LoadFailed."""
    leader = leaders(side.live_addresses, BACKLOG)
    address = side.nodes[leader[0]].kafka
    fetches = directory / "fetches"
    # Of partitions that this node leads: one, from its beginning on.
    fetches.write_bytes(fetch_frames(BACKLOG, 1, [0]).data)
    command = [sys.executable, "-m", "bench.loads.crowd", str(fetches)]
    addresses = side.live_addresses
    places = [plan.idle_connections * number // len(addresses) for number in range(len(addresses) + 1)]
    said: dict[str, Any] = {}
    # Slow consumers all read from one node. The connections that only stand there go to all, those to each from a process of
    # its own: a process may not have so many descriptors.
    commands = [
        *(
            [*command, str(end - begin), "0", one]
            for begin, end, one in zip(places, places[1:], addresses, strict=False)
        ),
        [*command, "0", str(plan.slow_consumers), address],
    ]
    crowds = [
        subprocess.Popen(
            dying_with_us(one), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=REPOSITORY,
        )
        for one in commands
    ]  # fmt: skip
    try:
        for crowd in crowds:
            assert crowd.stdout is not None
            timer = threading.Timer(THERE_WAIT_S, crowd.kill)
            timer.start()
            line = crowd.stdout.readline()
            timer.cancel()
            if line.strip() != "there":
                raise LoadFailed(f"the crowd did not get in: {crowd.communicate()[1][-1_000:]}")
        yield said
        *said["idle"], said["slow"] = [json.loads(crowd.communicate("", timeout=THERE_WAIT_S)[0]) for crowd in crowds]
    finally:
        for crowd in crowds:
            crowd.kill()
            crowd.wait()


@contextmanager
def _memory(processes: Mapping[str, int]) -> Iterator[list[dict[str, float]]]:
    """Samples of each process's memory (PSS, MiB), until the block ends."""
    samples: list[dict[str, float]] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(SAMPLE_S):
            samples.append(usage(processes)["pss_mib_by_process"])

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()
