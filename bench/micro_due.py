"""Delayed records of one process that come due in one second, beside a producer of another partition.

    python -m bench.micro_due [--records N] [--bytes N] [--partitions N] [--batch N] [--directory DIR] [--profile FILE] [--json]

One process owns the partitions on an embedded store. As many records of so many bytes are held in batches of `--batch`, each of them
due at another millisecond of one second, in turn: so each millisecond has records of all batches. Printed are how long their
deliveries take from when the first is due, records a second, time of the processor for each, the longest stall of the event loop, and the latency of a produce to
another partition each 5 ms, before and meanwhile. --profile: cProfile's statistics of that time.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import json
import logging
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import structlog
import uvloop

from bench.micro_timers import MovedClock, Stalls, hold
from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.local_store.store import LocalStore
from bmq.log.config import LogConfig
from bmq.log.partition_log import TopicPartition
from bmq.protocol.batch_records import Record, encode_batch

TOPIC: Final = UUID(int=1)
OTHER: Final = TopicPartition(UUID(int=2), 0)
AHEAD_MS: Final = 3_600_000
CALM_S: Final = 2.0
PAUSE_S: Final = 0.005
LIMIT_S: Final = 600.0
DELAYED: Final = LogConfig(is_delay_enabled=True, delay_max_ms=10 * AHEAD_MS, segment_bytes=64 * 1024 * 1024)


@dataclass(slots=True)
class Produces:
    """To another partition. `latencies_s`: since last taken."""

    log: PartitionRuntime
    latencies_s: list[float] = field(default_factory=list)
    is_ended: bool = False

    async def run(self) -> None:
        batch = bytes(encode_batch([Record(b"", b"." * 1024)]))
        while not self.is_ended:
            began_s = time.perf_counter()
            await hold(self.log, batch)
            self.latencies_s.append(time.perf_counter() - began_s)
            await asyncio.sleep(PAUSE_S)

    def take_ms(self) -> dict[str, float]:
        ordered, self.latencies_s = sorted(self.latencies_s), []
        parts = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
        return {
            name: round(ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000, 2)
            for name, part in parts.items()
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--batch", type=int, default=300)
    parser.add_argument("--directory", type=Path, default=None, help="for the store [a temporary one]")
    parser.add_argument("--profile", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    gc.set_threshold(100_000, 20, 100)  # as a server has it
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="bmq-due-", dir=chosen.directory) as directory:
        found = uvloop.run(_run(Path(directory), chosen))
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))


async def _run(directory: Path, chosen: argparse.Namespace) -> dict[str, object]:
    store, clock, stalls = LocalStore(directory), MovedClock(), Stalls()
    owner = PartitionManager(store, "owner-1", clock, Random(1), BrokerSettings(idle_starts_max=0))
    keys = [TopicPartition(TOPIC, number) for number in range(chosen.partitions)]
    for key in keys:
        owner.assign(key, 1, "timers", DELAYED)
    owner.assign(OTHER, 1, "other", LogConfig())
    logs = [await owner.leader_of(key) for key in keys]
    due_ms, began_s = clock.now_ms() + AHEAD_MS, time.monotonic()
    count = await _hold_all(logs, chosen, due_ms)
    held_per_s = count / (time.monotonic() - began_s)
    produces = Produces(await owner.leader_of(OTHER))
    beside = asyncio.create_task(produces.run())
    await asyncio.sleep(CALM_S)
    calm, _ = produces.take_ms(), stalls.take_ms()
    profile = cProfile.Profile() if chosen.profile else None
    if profile is not None:
        profile.enable()
    clock.ahead_ms = due_ms - clock.now_ms()
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    while (left := count - sum(map(_delivered, logs))) and time.monotonic() - began_s < LIMIT_S:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    seconds, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    if profile is not None:
        profile.disable()
        profile.dump_stats(chosen.profile)
    busy, stall_ms = produces.take_ms(), stalls.take_ms()
    produces.is_ended = True
    await beside
    await owner.close()
    await store.close()
    return {
        "records": count,
        "held_per_s": round(held_per_s),
        "left": left,
        "seconds": round(seconds, 2),
        "delivered_per_s": round((count - left) / seconds),
        "cpu_us_per_record": round(cpu_s / (count - left) * 1e6, 2),
        "calm": calm,
        "busy": busy,
        "stall_ms": stall_ms,
    }


def _delivered(log: PartitionRuntime) -> int:
    return 0 if log.timers.order is None else log.timers.order.delivered_count


async def _hold_all(logs: list[PartitionRuntime], chosen: argparse.Namespace, due_ms: int) -> int:
    """How many."""

    async def fill(log: PartitionRuntime) -> int:
        count = 0
        padding = Random(3).randbytes(chosen.bytes)
        while count < chosen.records // chosen.partitions:
            numbers = range(count, count + chosen.batch)
            batch = [
                Record(b"", padding, (("bmq-deliver-at", b"%d" % (due_ms + number % 1000)),), timestamp_ms=due_ms)
                for number in numbers
            ]
            await hold(log, bytes(encode_batch(batch)))
            count += chosen.batch
        return count

    return sum(await asyncio.gather(*map(fill, logs)))


if __name__ == "__main__":
    main()
