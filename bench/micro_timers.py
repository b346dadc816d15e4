"""Memory, log and takeover of a partition with many delayed records.

    python -m bench.micro_timers [--records N] [--bytes N] [--directory DIR] [--json]

One process owns the partition on an embedded store. Records of so many bytes, due at random over 30 days, are held; the log is
kept to 256 MiB by retention. Printed are, for each tenth of them: the process's memory above that before the first, runs and
bytes of log, the longest stall of the event loop, and records a second. In the end another owner takes the partition over
as if the first had died: the time until it serves, and until the first records of all runs that are due were delivered.
--json: what was found is the last line, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import structlog
import uvloop

from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.local_store.store import LocalStore
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import parsed_header

KEY: Final = TopicPartition(UUID(int=1), 0)
BATCH_RECORDS: Final = 100
TEMPLATES: Final = 200
"""Batches with other due times; they are sent again and again."""
HORIZON_MS: Final = 30 * 86_400_000
CONFIG: Final = LogConfig(
    is_delay_enabled=True,
    delay_max_ms=2 * HORIZON_MS,
    segment_bytes=64 * 1024 * 1024,
    retention_bytes=256 * 1024 * 1024,
    file_delete_delay_ms=1000,
)


class MovedClock:
    """The wall clock, set forward by `ahead_ms`."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return int(time.time() * 1000) + self.ahead_ms

    def elapsed_s(self) -> float:
        return time.monotonic()


class Stalls:
    """How late a timer of 10 ms was at most, since last asked."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.01)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s - 0.01)

    def take_ms(self) -> int:
        longest_s, self.longest_s = self.longest_s, 0.0
        return round(longest_s * 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1024)
    parser.add_argument("--directory", type=Path, default=None, help="for the store [a temporary one]")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="bmq-timers-", dir=chosen.directory) as directory:
        found = uvloop.run(_run(Path(directory), chosen.records, chosen.bytes))
    if chosen.json:
        print(json.dumps(found))


async def _run(directory: Path, count: int, size_bytes: int) -> dict[str, float]:
    store, clock, stalls = LocalStore(directory), MovedClock(), Stalls()
    settings = BrokerSettings(tail_cache_bytes_max=1024 * 1024, retention_check_interval_ms=5000, idle_starts_max=0)
    owner = PartitionManager(store, "owner-1", clock, Random(1), settings)
    log = await _log(owner, 1)
    batches = [_batch(clock.now_ms(), Random(seed), size_bytes) for seed in range(TEMPLATES)]
    await hold(log, batches[0])
    before_mib, began_s = _memory_mib(), time.monotonic()
    memories_mib, stalls_ms = [0.0], [0]
    for number in range(1, count // BATCH_RECORDS):
        await hold(log, batches[number % TEMPLATES])
        if number % (count // BATCH_RECORDS // 10) == 0:
            held = number * BATCH_RECORDS
            rate = held / (time.monotonic() - began_s)
            memories_mib.append(_memory_mib() - before_mib)
            stalls_ms.append(stalls.take_ms())
            print(f"{held} held: {_state(log, before_mib)}; stall {stalls_ms[-1]} ms; {rate:.0f}/s", flush=True)
    held_per_s = count / (time.monotonic() - began_s)
    await _settle(log)
    memories_mib.append(_memory_mib() - before_mib)
    stalls_ms.append(stalls.take_ms())
    print(f"all: {_state(log, before_mib)}; stall {stalls_ms[-1]} ms", flush=True)
    heir = PartitionManager(store, "owner-2", clock, Random(2), settings)
    began_s = time.monotonic()
    log = await _log(heir, 2)
    takeover_s = time.monotonic() - began_s
    print(f"takeover until it serves: {takeover_s:.3f} s; {_state(log, before_mib)}", flush=True)
    clock.ahead_ms = HORIZON_MS // 100
    began_s, start = time.monotonic(), log.log_end_offset
    due = count // 100
    while log.timers.order is not None and log.timers.order.delivered_count < due * 0.9:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    print(
        f"{due * 9 // 10} due at once delivered in {time.monotonic() - began_s:.1f} s: {_state(log, before_mib)}; "
        f"stall {stalls.take_ms()} ms; {log.log_end_offset - start} offsets"
    )
    await heir.close()
    await store.close()
    return {
        "records": count,
        "memory_mib": round(max(memories_mib), 1),
        "takeover_s": round(takeover_s, 4),
        "stall_ms": max(stalls_ms),
        "held_per_s": round(held_per_s),
    }


async def _log(manager: PartitionManager, leader_epoch: int) -> PartitionRuntime:
    manager.assign(KEY, leader_epoch, "timers", CONFIG)
    return await manager.leader_of(KEY)


def _batch(now_ms: int, random: Random, size_bytes: int) -> bytes:
    def record() -> Record:
        due_ms = now_ms + 60_000 + random.randrange(HORIZON_MS)
        return Record(b"", random.randbytes(size_bytes), (("bmq-deliver-at", b"%d" % due_ms),), timestamp_ms=now_ms)

    return bytes(encode_batch([record() for _ in range(BATCH_RECORDS)]))


async def hold(log: PartitionRuntime, batch: bytes) -> None:
    """Sent again while the window has no room, as a producer does."""
    while True:
        done: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        records = memoryview(bytearray(batch))
        log.append(ProducedBatch(LoneAppend(done.set_result), KEY, records, parsed_header(records)))
        code = (await done).error_code
        if code is ErrorCode.NONE:
            return
        assert code is ErrorCode.NOT_ENOUGH_REPLICAS, code
        await asyncio.sleep(0.1)


async def _settle(log: PartitionRuntime) -> None:
    """Merges end."""
    assert log.timers.lifecycle is not None
    runs, before = log.timers.lifecycle.runs, None
    while before != runs.references:
        before = runs.references
        await asyncio.sleep(3)


def _state(log: PartitionRuntime, before_mib: float) -> str:
    files, order = log.inspect().files, log.timers.order
    assert files is not None and order is not None and log.timers.lifecycle is not None
    runs = log.timers.lifecycle.runs.references
    tiers = ", ".join(
        f"{sum(run.tier == tier for run in runs)} runs of tier {tier}" for tier in sorted({run.tier for run in runs})
    )
    return (
        f"memory +{_memory_mib() - before_mib:.0f} MiB; {order.window_count} in memory, {tiers or 'no run'}; "
        f"log {files.size_bytes / 2**20:.0f} MiB"
    )


def _memory_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
