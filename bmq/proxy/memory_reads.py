"""Reads whole batches into memory, also behind a log's tail, for code that opens batches. Catch-up reads take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bmq.log.partition_log import PartitionLog
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.catch_up import CatchUp, CatchUpResult
from bmq.proxy.catch_up_throttle import CatchUpThrottle
from bmq.proxy.fetch_budget import ResponseBudget
from bmq.proxy.fetch_metrics import FetchCounts


class MemoryReads:
    """Reads batches; a process has one, over the resources that its fetches share."""

    def __init__(
        self, catch_up: CatchUp, throttle: CatchUpThrottle, budget: ResponseBudget, counts: FetchCounts
    ) -> None:
        self._catch_up = catch_up
        self._throttle = throttle
        self._budget = budget
        self._counts = counts
        self._loop = asyncio.get_running_loop()

    def limit(self, length_bytes_max: int) -> int:
        """Most bytes that may be read now: the room in the budget of answers, up to `length_bytes_max`, and at least one byte."""
        return max(1, min(length_bytes_max, self._budget.room_bytes))

    async def read(self, log: PartitionLog, offset: int, limit: int, bound_offset: int) -> Sequence[memoryview]:
        """Batches from the one that has `offset` on, about `limit` bytes. Raises BmqError, StoreError."""
        found = await self._read(log, offset, await self._turn(limit), bound_offset)
        return [view for view in found.views if isinstance(view, memoryview)]

    async def read_parts(
        self, log: PartitionLog, offset: int, limit: int, bound_offset: int, *, memory_bytes_max: int | None = None
    ) -> CatchUpResult:
        """Read as `read` does, but as a part of a file if that needs no wait; else at most `memory_bytes_max` into memory."""
        limit = await self._turn(limit)
        found = self._catch_up.read_in_file(log, offset, limit, bound_offset)
        if found is None:
            limit = limit if memory_bytes_max is None else min(limit, memory_bytes_max)
            return await self._read(log, offset, limit, bound_offset)
        size_bytes = sum(map(len, found.views))
        self._throttle.settle(self._loop.time(), size_bytes)
        self._counts.catch_up_bytes += size_bytes
        return found

    async def _turn(self, limit: int) -> int:
        slice_bytes = self._throttle.slice_bytes_max
        if slice_bytes is not None:
            # Catch-up reads wait for their turn, so that they do not slow down produces.
            limit = max(1, min(limit, slice_bytes))
            now_s = self._loop.time()
            wait_s = self._throttle.turn(now_s) - now_s
            if wait_s > 0:
                await asyncio.sleep(wait_s)
        return limit

    async def _read(self, log: PartitionLog, offset: int, limit: int, bound_offset: int) -> CatchUpResult:
        found = self._catch_up.read_cached(log, offset, limit, bound_offset)
        if found is None:
            self._budget.reserve(limit)
            try:
                found = await self._catch_up.read(log, offset, limit, bound_offset)
            finally:
                self._budget.release(limit)
        size_bytes = sum(map(len, found.views))
        self._throttle.settle(self._loop.time(), size_bytes)
        if not all(isinstance(view, memoryview) for view in found.views):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "records that were to be in memory are in a file")
        self._counts.catch_up_bytes += size_bytes
        return found
