"""What locks of share groups take in memory: `python -m bench.queues.locks PARTITIONS RECORDS EACH` prints MiB.

The shards of a process over logs that remember nothing: what is left are share partitions and their locks. The process's
resident size is read before and after members lock RECORDS in each of PARTITIONS share partitions, EACH at a time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from bmq.coordinator.config import ShareConfig
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.share_state.coordinator import ShareStateCoordinator
from bmq.coordinator.topics import CurrentTopics
from bmq.log.partition_log import AppendResult, ProducedBatch, ReplayableLog, TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader
from bmq.protocol.share_state_messages import (
    AcquirePartition,
    InitializePartition,
    NamedPartition,
    OffsetRange,
    PartitionSummary,
    ShareAcquireRequest,
    ShareInitializeRequest,
    ShareSummaryRequest,
)
from bmq.server.process import SystemClock, trim_memory
from testing.processes import REPOSITORY, dying_with_us

SHARDS: Final = 50
MEMBERS: Final = 200
TOPIC_ID: Final = UUID(int=1)
GROUP: Final = "group"
LOCKS_MAX: Final = 10_000
LOCK_MS: Final = 3_600_000
WAIT_S: Final = 900.0
PARTITIONS: Final = 1_000
RECORDS: Final = 1_000
"""Locked in each partition."""
RUN_RECORDS: Final = 500


class ForgetfulLog:
    """Every append is durable at once, and nothing is kept."""

    leader_epoch: Final = 1
    log_start_offset: Final = 0

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.high_watermark = 0

    async def latest_snapshot(self) -> None:
        return None

    async def prove_ownership(self) -> None:
        return None

    async def save_snapshot(self, snapshot: object) -> None:
        """It is read by nobody."""

    def append(self, batch: ProducedBatch) -> None:
        offset = self.high_watermark
        self.high_watermark += BatchHeader.parse(batch.records).last_offset_delta + 1
        asyncio.get_running_loop().call_soon(batch.complete, AppendResult(ErrorCode.NONE, offset))


class Shards:
    """All of them are here."""

    def partition_count(self) -> int:
        return SHARDS

    def owned(self) -> Sequence[int]:
        return range(SHARDS)

    def inherited(self) -> Sequence[int]:
        return ()

    async def open(self, shard: int, *, is_awaited: bool) -> ReplayableLog:
        return cast(ReplayableLog, ForgetfulLog(TopicPartition(UUID(int=2), shard)))

    def ask(self, shard: int) -> None:
        """Opening a shard takes no turn here."""


class Topics:
    """No group has configs of its own."""

    group_configs: Final[Mapping[str, Mapping[str, str]]] = {}


async def resident_growth_mib(partitions: int, records: int, each: int) -> float:
    """Of this process, by locking."""
    topics = cast(CurrentTopics, Topics)
    config = ShareConfig(
        record_lock_duration_ms=LOCK_MS,
        max_record_lock_duration_ms=LOCK_MS,
        partition_max_record_locks=LOCKS_MAX,
        max_partition_max_record_locks=LOCKS_MAX,
    )
    states = ShareStateCoordinator(
        Shards(), SystemClock(), ShareStateConfig(), topics, lambda: config, lambda *_: False
    )
    named = [InitializePartition(topic_id=TOPIC_ID, partition=number, start_offset=0) for number in range(partitions)]
    await states.initialize(ShareInitializeRequest(group_id=GROUP, state_epoch=1, partitions=named))
    before = _resident_mib()
    for first in range(0, records, each):
        # As a proxy's: the member's id comes out of a request of its own.
        member_id = b"member-%029d" % (first // each % MEMBERS)
        for begin in range(0, partitions, MEMBERS):
            asked = [
                AcquirePartition(
                    topic_id=TOPIC_ID,
                    partition=number,
                    records_max=each,
                    batch_size=each,
                    batches=[OffsetRange(first=first, last=first + each - 1)],
                )
                for number in range(begin, min(begin + MEMBERS, partitions))
            ]
            request = ShareAcquireRequest(
                group_id=GROUP, member_id=member_id.decode(), node_id=1, node_epoch=2**40, session=1, partitions=asked
            )
            await states.acquire(request)
    locked = sum(one.locked_count for one in await _summaries(states, partitions))
    if locked != partitions * records:
        raise AssertionError(f"{locked} of {partitions * records} records were locked")
    return _resident_mib() - before


async def _summaries(states: ShareStateCoordinator, partitions: int) -> Sequence[PartitionSummary]:
    named = [NamedPartition(topic_id=TOPIC_ID, partition=number) for number in range(partitions)]
    return (await states.summarize(ShareSummaryRequest(group_id=GROUP, partitions=named))).partitions


def _resident_mib() -> float:
    gc.collect()
    trim_memory()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def memory() -> dict[str, Any]:
    """What all records take when each is locked by itself, and what when many are locked at a time."""
    single = measured(PARTITIONS, RECORDS, 1)
    runs = measured(PARTITIONS, RECORDS, RUN_RECORDS)
    return {**single, **{f"run_{name}": value for name, value in runs.items()}}


def measured(partitions: int, records: int, each: int) -> dict[str, Any]:
    """In a process of its own."""
    command = [sys.executable, "-m", "bench.queues.locks", *map(str, (partitions, records, each))]
    done = subprocess.run(
        dying_with_us(command), capture_output=True, text=True, timeout=WAIT_S, check=True, cwd=REPOSITORY
    )
    return cast(dict[str, Any], json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    import structlog

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    print(json.dumps({"memory_mib": round(asyncio.run(resident_growth_mib(*map(int, sys.argv[1:4]))), 1)}))
