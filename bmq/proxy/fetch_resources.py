"""The objects that all fetches of a process share: sessions, waits, deadlines, the read cache, budgets, background tasks."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from bmq.aio.deadlines import Deadlines
from bmq.log.store import SegmentStore
from bmq.proxy.batch_opener import BatchOpener, RunAside
from bmq.proxy.catch_up import CatchUp
from bmq.proxy.catch_up_throttle import CatchUpThrottle
from bmq.proxy.fetch_budget import ResponseBudget
from bmq.proxy.fetch_metrics import FetchCounts
from bmq.proxy.fetch_session import SessionCache
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetch_wake_ups import PartitionWaits, Wake
from bmq.proxy.filtered_batch_cache import FilteredBatchCache
from bmq.proxy.memory_reads import MemoryReads
from bmq.proxy.partition_starts import PartitionStarts
from bmq.proxy.read_cache import ReadCache
from bmq.proxy.stored_reads import StoredReads
from bmq.proxy.view_reads import ViewReads

_SESSION_ID_MAX: Final = 2**31 - 1


class FetchResources:
    """Shared by all fetches of a process; made on its event loop. `is_stopping`: fetches no longer wait for records.

    `random` draws session ids: a restarted server must not give the same ids again, or a consumer that did not notice the restart
    could continue another consumer's session. `elapsed_s`: Clock.elapsed_s, for the age of what is known of a file (rule 35); by
    default the event loop's clock. `run_aside`: runs the filters of views and lanes away from the event loop.
    """

    def __init__(
        self,
        store: SegmentStore,
        config: FetchSettings,
        random: Random,
        elapsed_s: Callable[[], float] | None = None,
        run_aside: RunAside = asyncio.to_thread,
    ) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.counts = FetchCounts()
        self._tasks: dict[Task[None], None] = {}  # `close` cancels in this order
        self.sessions = SessionCache(
            slots_max=config.fetch_session_slots_max,
            partitions_max=config.fetch_session_partitions_max,
            eviction_ms=config.fetch_session_eviction_ms,
            new_id=lambda: random.randint(1, _SESSION_ID_MAX),
        )
        self.waits = PartitionWaits()
        self.deadlines: Deadlines[Wake] = Deadlines(self.loop, lambda expire: expire())
        self.budget = ResponseBudget(config.fetch_response_bytes_max)
        self.read_cache = ReadCache(store, config, self.counts)
        self.elapsed_s = elapsed_s or self.loop.time
        self.catch_up = CatchUp(self.read_cache, config, self.elapsed_s, self.spawn)
        self.stored_reads = StoredReads(self.catch_up, config, self.elapsed_s)
        self.throttle = CatchUpThrottle(
            ratio_max=config.catch_up_slowdown_max,
            bytes_per_s_min=config.catch_up_bytes_per_s_min,
            slice_bytes=config.catch_up_slice_bytes,
        )
        self.memory_reads = MemoryReads(self.catch_up, self.throttle, self.budget, self.counts)
        self.filtered = FilteredBatchCache(config.view_cache_bytes_max // 4)
        self.view_reads = ViewReads(self.memory_reads, self.filtered, config, self.elapsed_s, run_aside)
        self.opener = BatchOpener(run_aside)
        self.starts = PartitionStarts(self.spawn)
        self.is_stopping = False

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that `close` cancels."""
        task = self.loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def stop_waiting(self) -> None:
        """Answer all waiting fetches with the records found so far, and let no fetch wait from now on."""
        self.is_stopping = True
        self.deadlines.expire_all()

    async def close(self) -> None:
        """Drop all waits and cancel all reads. Requests that wait are not answered."""
        self.deadlines.close()
        self.waits.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.read_cache.close()
