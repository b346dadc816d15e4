"""Decides when which log of this process is compacted: one at a time, the dirtiest first. Then small segments are merged.

Source: Kafka's LogCleaner and LogCleanerManager.grabFilthiestCompactedLog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

import structlog

from bmq.broker.compaction.cpu_share import CleanerCpuShare
from bmq.broker.compaction.pacing import CompactionPacing
from bmq.broker.compaction.partition_compaction import PartitionCompaction
from bmq.broker.context import BrokerContext
from bmq.log.compaction import Cleanable, CleanerUnavailable, CleaningEnd, LogCleaning, Uncleanable, is_due
from bmq.protocol.errors import BmqError

UNAVAILABLE_REST_MAX_S: Final = 600.0
"""The longest rest after failures of the cleaner. Each doubles the usual one."""

_LOOKS_PER_TURN: Final = 50  # partitions, each of which may have many segments

_log = structlog.get_logger("bmq.broker")


class CompactionScheduler:
    """`partitions`: all of this process, whatever their state."""

    def __init__(
        self,
        context: BrokerContext,
        cleaning: LogCleaning,
        partitions: Callable[[], Iterable[PartitionCompaction]],
    ) -> None:
        self._context = context
        self._cleaning = cleaning
        self._pacing = CompactionPacing(context)
        self._share = CleanerCpuShare(context, cleaning)
        self._partitions = partitions
        self._refused: set[PartitionCompaction] = set()  # their logs cannot be decoded
        self._changed = asyncio.Event()
        self._unavailable = 0  # how often in a row the cleaning process has failed
        self.problem: str | None = None
        """Why no log is compacted, in one sentence, while the cleaner is unavailable."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop; a compaction under way is given up."""
        self._task.cancel()
        self._share.end()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._cleaning.close()

    async def _run(self) -> None:
        looked_s = asyncio.get_running_loop().time()
        while True:
            await self._rest(looked_s)
            looked_s = asyncio.get_running_loop().time()
            tried: set[PartitionCompaction] = set()
            while (partition := await self._next(tried)) is not None:
                tried.add(partition)
                self._share.begin()
                await self.compact(partition)
                if self.problem is not None:
                    break  # other logs would fare no better
            else:
                await self._merge_all()
            self._share.end()

    async def _merge_all(self) -> None:
        """Merge one group of each partition that has some, until none has. A partition whose merge fails is left for the next look."""
        left = [one for one in self._partitions() if one not in self._refused]
        while left:
            merged: list[PartitionCompaction] = []
            for count, partition in enumerate(left):
                if count % _LOOKS_PER_TURN == 0:
                    await asyncio.sleep(0)
                if await self._merge(partition):
                    merged.append(partition)
                if self.problem is not None:
                    return
            left = merged

    async def _merge(self, partition: PartitionCompaction) -> bool:
        """Whether segments were merged."""
        now_ms, counts = self._context.clock.now_ms(), self._context.counts
        try:
            group = await partition.mergeable(now_ms)
        except BmqError:
            return False  # the store is away, or the partition moved: another time
        if group is None:
            return False
        self._share.begin()
        began_s = asyncio.get_running_loop().time()
        end = await self._carried_out(partition, partition.merge(group, self._cleaning, now_ms, self._pacing.pace))
        if end is None:
            return False
        names = partition.names()
        counts.merges += 1
        counts.merged_segments += len(group)
        counts.merged_bytes += end.bytes_kept
        _log.info(
            "segments_merged",
            **names,
            segments=len(group),
            base_offset=group[0].base_offset,
            end_offset=group[-1].end_offset,
            bytes=end.bytes_kept,
            seconds=round(asyncio.get_running_loop().time() - began_s, 3),
        )
        return True

    def pace_changed(self) -> None:
        """A shorter interval takes effect at once."""
        self._changed.set()

    @property
    def _rest_s(self) -> float:
        """From one look to the next."""
        usual_s = self._context.compaction.check_interval_ms / 1000
        return max(usual_s, min(usual_s * float(1 << min(self._unavailable, 32)), UNAVAILABLE_REST_MAX_S))

    async def _rest(self, looked_s: float) -> None:
        """Until the next look is due. `looked_s`: when the last one began."""
        loop = asyncio.get_running_loop()
        while (left_s := looked_s + self._rest_s - loop.time()) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
        await asyncio.sleep(0)  # others have their turn even without an interval

    async def _next(self, tried: set[PartitionCompaction]) -> PartitionCompaction | None:
        """The partition to compact now: the one with the greatest share of dirty bytes; None when none is due."""
        now_ms = self._context.clock.now_ms()
        partitions = tuple(self._partitions())
        self._refused &= set(partitions)
        found: list[tuple[float, PartitionCompaction]] = []
        for partition in partitions:
            if partition in tried or partition in self._refused or partition.delegation.is_reserved:
                continue
            cleanable = partition.cleanable(now_ms)
            if cleanable is not None and await self._is_due(partition, cleanable, now_ms):
                found.append((cleanable.dirty_ratio, partition))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    async def _is_due(self, partition: PartitionCompaction, cleanable: Cleanable, now_ms: int) -> bool:
        if is_due(cleanable, partition.config, now_ms=now_ms, first_dirty_timestamp_ms=None):
            return True
        try:
            timestamp_ms = await partition.first_dirty_timestamp_ms(cleanable)
        except BmqError:
            return False  # the store is away, or the partition moved: another time
        return is_due(cleanable, partition.config, now_ms=now_ms, first_dirty_timestamp_ms=timestamp_ms)

    async def compact(self, partition: PartitionCompaction) -> None:
        """Compact one partition; log and count the outcome. Raises nothing."""
        now_ms, counts = self._context.clock.now_ms(), self._context.counts
        began_s = asyncio.get_running_loop().time()
        names = partition.names()
        end = await self._carried_out(partition, partition.run(self._cleaning, now_ms, self._pacing.pace))
        if end is None:
            return
        counts.compactions += 1
        counts.compacted_bytes += end.bytes_read
        _log.info(
            "compacted",
            **names,
            first_dirty_offset=end.first_dirty_offset,
            records_read=end.records_read,
            records_kept=end.records_kept,
            bytes_read=end.bytes_read,
            bytes_kept=end.bytes_kept,
            seconds=round(asyncio.get_running_loop().time() - began_s, 3),
        )

    async def _carried_out(
        self, partition: PartitionCompaction, work: Awaitable[CleaningEnd | None]
    ) -> CleaningEnd | None:
        """The end of a compaction or a merge; None if it did not begin, or failed, which is logged and counted."""
        counts = self._context.counts
        names = partition.names()
        try:
            end = await work
        except Uncleanable as error:
            self._refused.add(partition)
            counts.uncleanable += 1
            _log.error("compaction_refused", **names, reason=str(error))
        except CleanerUnavailable as error:
            self._unavailable += 1
            counts.cleaner_failures += 1
            self.problem = f"no log is compacted: {error}"
            _log.error("compaction_unavailable", **names, reason=str(error), next_try_s=self._rest_s)
        except BmqError as error:
            _log.warning("compaction_interrupted", **names, reason=str(error))
        except Exception:  # noqa: BLE001 any bug is answered or logged
            # The log is whole; what is wrong here must not end the compaction of others.
            self._refused.add(partition)
            counts.uncleanable += 1
            _log.exception("compaction_failed", **names)
        else:
            if end is not None:
                self._unavailable, self.problem = 0, None
            return end
        return None
