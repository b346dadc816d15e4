"""Performs the effects of a partition's start until each ends in an event: retries what the store did not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from bmq.broker import partition_events as ev
from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.own_directory import OwnDirectory
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.segment_files import SegmentLifecycle
from bmq.broker.starting import Start
from bmq.broker.timers.partition_timers import PartitionTimers
from bmq.log.store import CorruptFile, FencedWriter, StoreError

_log = structlog.get_logger("bmq.broker")


class StartEffects:
    """`floor`: rule 5, the highest high watermark ever reported."""

    def __init__(
        self,
        partition: OwnedPartition,
        start: Start,
        directory: OwnDirectory,
        lifecycle: SegmentLifecycle,
        changes: ManifestChanges,
        timers: PartitionTimers,
        floor: int,
    ) -> None:
        self._partition = partition
        self._start = start
        self._directory = directory
        self._lifecycle = lifecycle
        self._changes = changes
        self._timers = timers
        self._floor = floor

    async def persist(self, action: Callable[[], Awaitable[ev.Event | None]]) -> None:
        """Perform an effect of the start, retrying with growing pauses until it ends in an event or we are fenced."""
        effect = object()
        try:
            await self._persist(action, effect)
        finally:
            self._partition.context.start_waits.ended(effect)

    async def _persist(self, action: Callable[[], Awaitable[ev.Event | None]], effect: object) -> None:
        partition = self._partition
        names, backoff = partition.names(), partition.context.backoff()
        while not partition.state.is_final:
            try:
                event: ev.Event | None = await action()
            except FencedWriter:
                event = ev.OwnershipLost()
            except CorruptFile:
                raise
            except StoreError as error:
                # Retry unknown store errors too: a partition that keeps trying can still recover.
                reason = f"{type(error).__name__}: {error}"
                if backoff.failures == 0:
                    _log.warning("partition_start_waits", **partition.names(), reason=reason)
                partition.context.start_waits.failed(effect, f"{names['topic']}-{names['partition']}", reason)
                await backoff.pause()
                if await self._is_directory_lost():
                    partition.machine.feed(ev.OwnershipLost())
                continue
            if event is not None:
                partition.machine.feed(event)
            return

    async def _is_directory_lost(self) -> bool:
        if self._directory.file_id is None:
            return False  # not claimed yet
        try:
            await self._lifecycle.verify_claim()
        except FencedWriter:
            return True
        except StoreError:
            return False
        return False

    async def walk(self) -> ev.Event:
        """If a newer owner exists, missing files mean we are fenced, not damaged: raises FencedWriter then."""
        try:
            event = await self._start.walk()
        except CorruptFile:
            await self._lifecycle.verify_claim()
            raise
        if event.end_offset < self._floor:
            await self._lifecycle.verify_claim()
        files = self._start.files
        assert files is not None
        self._lifecycle.files = files
        self._partition.producers = files.producers
        return event

    async def record(self) -> ev.Event:
        files = self._lifecycle.files
        assert files is not None
        self._timers.before_manifest(files)
        event = await self._start.record()
        await self._timers.recover(files)
        self._partition.files = files
        recovered = self._start.recovered
        if recovered is not None and recovered.unnamed_directories:
            self._changes.remove_later(recovered.unnamed_directories)
        self._changes.remove_later(self._start.orphans)
        return event
