"""What a roll costs the appends around it: a real partition of the broker, over HDFS, under a steady load."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from bench.hdfs.figures import around_changes, latency_summary
from bench.micro_append import WallClock, batches_of
from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.hdfs.store import HdfsStore
from bmq.log.config import LogConfig
from bmq.log.names import partition_directory
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.protocol.error_codes import ErrorCode

BATCH_BYTES: Final = 16 * 1024
# The next segment is opened when three quarters of the current one are written: these 48 appends before a roll, like the
# 50 behind it, in which the old one is closed, count as "around a roll".
APPENDS_PER_SEGMENT: Final = 192
AROUND_APPENDS: Final = 50
INTERVAL_S: Final = 0.003
TIMER_RESOLUTION_S: Final = 0.0015  # of the event loop, whose timers are whole milliseconds
WARM_UP_APPENDS: Final = 2 * APPENDS_PER_SEGMENT
ANSWERS_TIMEOUT_S: Final = 30.0
_KEY: Final = TopicPartition(UUID(int=0xB3), 0)


class AppendRefused(Exception):
    """The partition did not take an append of the steady load."""


@dataclass(slots=True)
class Sent:
    """Latency of each append, and the segment that was written when it was acknowledged."""

    latencies_us: list[float] = field(default_factory=list)
    rolls: list[int] = field(default_factory=list)


async def measure(store: HdfsStore, rolls: int) -> dict[str, Any]:
    """Appends of 16 KiB every 3 ms over so many rolls. Raises AppendRefused."""
    manager = PartitionManager(store, "bench-broker", WallClock(), Random(1))
    template = bytes(batches_of(BATCH_BYTES, 1, is_idempotent=False)[0])
    try:
        await store.make_directories(partition_directory(_KEY))
        manager.assign(_KEY, 1, "bench", LogConfig(segment_bytes=APPENDS_PER_SEGMENT * len(template)))
        log = await manager.leader_of(_KEY)
        sent = await _SteadyLoad(log, template, WARM_UP_APPENDS + (rolls + 1) * APPENDS_PER_SEGMENT).run()
    finally:
        await manager.close()
    latencies, numbers = sent.latencies_us[WARM_UP_APPENDS:], sent.rolls[WARM_UP_APPENDS:]
    near = around_changes(numbers, AROUND_APPENDS)
    return {
        "rolls": numbers[-1] - numbers[0],
        "around": latency_summary([latencies[place] for place in sorted(near)]),
        "elsewhere": latency_summary([us for place, us in enumerate(latencies) if place not in near]),
    }


class _SteadyLoad:
    """Open loop: an append is due every so often, whether or not the one before it is through."""

    def __init__(self, log: PartitionRuntime, template: bytes, count: int) -> None:
        self._log = log
        self._template = template
        self._count = count
        self._left = count
        self._sent = Sent([0.0] * count, [0] * count)
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._began_s = time.perf_counter()

    async def run(self) -> Sent:
        self._append(0)
        async with asyncio.timeout(self._count * INTERVAL_S + ANSWERS_TIMEOUT_S):
            await self._over
        return self._sent

    def _append(self, place: int) -> None:
        if self._over.done():
            return
        now_s, due_s = time.perf_counter(), self._began_s + place * INTERVAL_S
        # An append that could not be sent when it was due, because the loop was busy, has waited since then.
        began_s = due_s if now_s - due_s > TIMER_RESOLUTION_S else now_s
        # The partition writes offsets into the buffer and keeps it: each append has its own.
        records = memoryview(bytearray(self._template))
        request = LoneAppend(partial(self._done, place, began_s))
        self._log.append(ProducedBatch(request, self._log.topic_partition, records, None))
        if place + 1 < self._count:
            wait_s = self._began_s + (place + 1) * INTERVAL_S - time.perf_counter()
            self._loop.call_later(max(0.0, wait_s), self._append, place + 1)

    def _done(self, place: int, began_s: float, result: AppendResult) -> None:
        if self._over.done():
            return
        if result.error_code is not ErrorCode.NONE:
            self._over.set_exception(AppendRefused(f"append {place}: {result.error_code.name} {result.message}"))
            return
        state = self._log.state
        self._sent.latencies_us[place] = (time.perf_counter() - began_s) * 1e6
        self._sent.rolls[place] = state.segment.roll if isinstance(state, Writing) else self._sent.rolls[place - 1]
        self._left -= 1
        if self._left == 0:
            self._over.set_result(None)
