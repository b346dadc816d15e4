"""CPU of what a broker does for all its partitions from time to time: `python -m bench.micro_retention`.

A node that owns `--partitions` started partitions, each with `--segments` closed segments, ten producers and an open
segment; the store is durable at once. Measured are a round of upkeep (every second), a look at backlog quotas (with it,
where topics have them) and a round of retention that finds nothing to drop (every five minutes), in CPU milliseconds, the
median of the repeats; and the most CPU that one turn of the event loop took. The share of a core is of all three at
their usual intervals.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

import structlog

from bench.micro_append import InstantStore, WallClock
from bmq.broker.context import BrokerSettings
from bmq.broker.manager import UPKEEP_PER_TURN_MAX, PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.log.store import Buffer, FileStatus
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import parsed_header

SHARE_BOUND: Final = 0.05
TURN_BOUND_MS: Final = 10.0
PARTITIONS_PER_TOPIC: Final = 100
PRODUCERS: Final = 10
SEGMENT_BYTES: Final = 100_000_000
CONFIGS: Final[Mapping[str, LogConfig]] = {
    "time": LogConfig(),
    "time_and_size": LogConfig(retention_bytes=2**50),
    "groups_and_quota": LogConfig(
        retention_bytes=2**50, retention_groups=("a", "b"), backlog_quota_bytes=2 * SEGMENT_BYTES
    ),
}


class ListingStore(InstantStore):
    """An InstantStore that finds a directory's entries without looking at all files."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, set[str]] = {}

    async def make_directory(self, path: str) -> None:
        await super().make_directory(path)
        self._note(path)

    async def make_directories(self, path: str) -> None:
        await super().make_directories(path)
        self._note(path)

    async def rename(self, source: str, target: str) -> None:
        await super().rename(source, target)
        self._note(target)

    async def write_file(self, path: str, data: Buffer, *, holder: str) -> None:
        await super().write_file(path, data, holder=holder)
        self._note(path)

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        names = sorted(name for name in self._entries.get(path, ()) if f"{path}/{name}" in self._files)
        return tuple(FileStatus(name, True, 0, 0, False) for name in names)

    def _note(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        self._entries.setdefault(parent, set()).add(name)


class CaughtUpGroups:
    """Implements CommittedOffsets: every group has consumed everything there is."""

    async def committed(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int]
    ) -> Mapping[int, Mapping[str, int]]:
        known = dict.fromkeys(group_ids, 2**40)
        return dict.fromkeys(partitions, known)


class Turns:
    """The most CPU between two turns of the event loop, while measured."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last_s = 0.0
        self.longest_s = 0.0
        self._handle: asyncio.Handle | None = None

    def __enter__(self) -> Turns:
        self._last_s = time.process_time()
        self._handle = self._loop.call_soon(self._turn)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._handle is not None
        self._handle.cancel()
        self._note()

    def _turn(self) -> None:
        self._note()
        self._handle = self._loop.call_soon(self._turn)

    def _note(self) -> None:
        now_s = time.process_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s


async def owner_of(
    partitions: int, segments: int, config: LogConfig
) -> tuple[PartitionManager, list[PartitionRuntime]]:
    """A manager with so many owned partitions, whose timers are off."""
    settings = BrokerSettings(upkeep_interval_s=1e9, retention_check_interval_ms=10**12, starts_max=64)
    manager = PartitionManager(ListingStore(), "bench", WallClock(), Random(1), settings)  # type: ignore[arg-type]
    manager.use_committed_offsets(CaughtUpGroups())
    keys = [
        TopicPartition(UUID(int=1 + number // PARTITIONS_PER_TOPIC), number % PARTITIONS_PER_TOPIC)
        for number in range(partitions)
    ]
    for key in keys:
        manager.assign(key, 1, f"topic-{key.topic_id.int}", config)
    await manager.start_all()
    logs = [await manager.leader_of(key) for key in keys]
    now_ms = WallClock().now_ms()
    for number, log in enumerate(logs):
        for producer_id in range(PRODUCERS):
            await _produce(log, producer_id, now_ms)
        files = log.inspect().files
        assert files is not None
        files.extents[:] = [_extent(roll, now_ms) for roll in range(segments)]
        if number % 1_000 == 0:
            await asyncio.sleep(0)
    return manager, logs


async def _produce(log: PartitionRuntime, producer_id: int, now_ms: int) -> None:
    answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
    record = Record(None, b"value", timestamp_ms=now_ms)
    batch = encode_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0)
    records = memoryview(batch)
    log.append(ProducedBatch(LoneAppend(answer.set_result), log.topic_partition, records, parsed_header(records)))
    assert (await answer).error_code is ErrorCode.NONE


def _extent(roll: int, now_ms: int) -> Extent:
    size = SEGMENT_BYTES
    return Extent(1, roll, 1, roll, size, 0, size, roll * 1_000, roll * 1_000 + 1_000, now_ms)


async def measure(partitions: int, segments: int, config: LogConfig, repeats: int) -> dict[str, float]:
    """Milliseconds of CPU by what was done, and the longest turn."""
    manager, _ = await owner_of(partitions, segments, config)
    turns = Turns()

    async def upkeep() -> None:
        manager._upkeep()
        manager._upkeep_timer.cancel()
        for _ in range(partitions // UPKEEP_PER_TURN_MAX + 1):
            await asyncio.sleep(0)

    async def retention() -> None:
        await manager.apply_retention()

    await upkeep()  # the first look asks about every partition with a quota
    while manager._backlogs._tasks:
        await asyncio.wait(tuple(manager._backlogs._tasks))
    with turns:
        measured = {
            "upkeep_ms": await _cpu_ms(upkeep, repeats),
            "retention_ms": await _cpu_ms(retention, repeats),
        }
    measured["longest_turn_ms"] = turns.longest_s * 1000
    measured["share_of_a_core"] = measured["upkeep_ms"] / 1_000 + measured["retention_ms"] / 300_000
    return measured


async def _cpu_ms(work: Callable[[], Any], repeats: int) -> float:
    samples = []
    for _ in range(repeats):
        began_s = time.process_time()
        await work()
        samples.append((time.process_time() - began_s) * 1000)
        await asyncio.sleep(0)
    return statistics.median(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=sorted(CONFIGS), action="append", help="topics with these configs alone")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    report: dict[str, Any] = {"partitions": options.partitions, "segments": options.segments, "medians": {}}
    for name, config in CONFIGS.items():
        if options.only and name not in options.only:
            continue
        measured = asyncio.run(measure(options.partitions, options.segments, config, options.repeats))
        report["medians"][name] = {key: round(value, 4) for key, value in measured.items()}
    criteria = (("share_of_a_core", SHARE_BOUND), ("longest_turn_ms", TURN_BOUND_MS))
    worst = {name: max(each[name] for each in report["medians"].values()) for name, _ in criteria}
    report["criteria"] = [
        {"id": name, "value": worst[name], "op": "<=", "bound": bound, "holds": worst[name] <= bound}
        for name, bound in criteria
    ]
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
