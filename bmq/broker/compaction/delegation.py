"""Delegates a partition's compaction to a job outside of the servers, checks the job's files, and swaps them in.

A partition has one delegation at a time. The reservation is in memory only: a restart or a takeover forgets it, and the job
finds its plan refused. The log does not depend on it: a file counts only once a manifest names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog

from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.min_insync_tracker import shortage_of
from bmq.broker.owned_partition import OwnedPartition
from bmq.log.cleaned_files import checked_index
from bmq.log.compaction import CleaningPlan
from bmq.log.delegated_compaction import (
    DESCRIPTION_BYTES_MAX,
    TIME_LIMIT_MS_MAX,
    CleanedFile,
    DelegatedPlan,
    DelegationEnd,
    DelegationRefused,
    check_extents,
    check_files,
    check_reservation,
    descriptions,
)
from bmq.log.manifest import Extent
from bmq.log.names import delegated_name
from bmq.log.partition_files import PartitionFiles
from bmq.log.replacement import CleanedSegment, ExtentsChanged, Replacement
from bmq.log.store import CorruptFile, Durability, FencedWriter, FileMissing, StoreError
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError

_RESERVATION_BITS: Final = 64

_log = structlog.get_logger("bmq.broker")


class DelegatingLog(Protocol):
    """The log of a partition that this process owns or has owned, as a delegation needs it."""

    @property
    def is_being_compacted(self) -> bool:
        """By this process, right now."""

    def plan_compaction(self, now_ms: int, *, later_ms: int = 0) -> tuple[PartitionFiles, CleaningPlan] | None:
        """What may be cleaned now; None: nothing. `later_ms`: how much later delete horizons are to be."""


class DelegatedCompaction:
    """The delegation of one partition's compaction."""

    def __init__(self, partition: OwnedPartition, changes: ManifestChanges, log: DelegatingLog) -> None:
        self._context = partition.context
        self._partition = partition
        self._changes = changes
        self._log = log
        self._plan: DelegatedPlan | None = None
        self._swap: asyncio.Task[DelegationEnd] | None = None
        self._ended: tuple[str, DelegationEnd] | None = None

    @property
    def is_reserved(self) -> bool:
        """Whether this process has to leave the partition's compaction alone."""
        return self._plan is not None

    async def plan(self, job: str, time_limit_ms: int, *, is_dry_run: bool = False) -> DelegatedPlan | None:
        """Reserve the partition's compaction for a job; None: there is nothing to clean. The same job gets the same plan.

        Raises DelegationRefused, KafkaError.
        """
        now_ms = self._context.clock.now_ms()
        self.expire(now_ms)
        if not self._partition.is_owning:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned here")
        if (plan := self._plan) is not None:
            if plan.job != job:
                raise DelegationRefused(
                    f"the job {plan.job!r} has the compaction of this partition for {plan.deadline_ms - now_ms} ms more"
                )
            return plan
        if self._log.is_being_compacted and not is_dry_run:
            raise DelegationRefused("its owner compacts the partition right now; ask again when that is over")
        time_limit_ms = min(time_limit_ms, TIME_LIMIT_MS_MAX)
        found = self._log.plan_compaction(now_ms, later_ms=time_limit_ms)
        if found is None:
            return None
        files, cleaning = found
        deadline_ms = now_ms + time_limit_ms
        if is_dry_run:
            return DelegatedPlan("", job, self._partition.leader_epoch, deadline_ms, "", cleaning)
        reservation = f"{self._context.random.getrandbits(_RESERVATION_BITS):016x}"
        directory = f"{files.paths.own}/{delegated_name(reservation)}"
        replicas = self._context.store.replicas_wanted
        # Before anything is awaited: nobody else compacts it from here on.
        plan = self._plan = DelegatedPlan(
            reservation, job, self._partition.leader_epoch, deadline_ms, directory, cleaning, replicas
        )
        try:
            await self._context.store.make_directory(directory)
        except FileMissing as error:
            self._forget()
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{files.paths.own} is gone") from error
        except BaseException as error:
            self._forget()
            if isinstance(error, StoreError):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            raise
        _log.info(
            "compaction_delegated", **self._names(), job=job, reservation=reservation, groups=len(cleaning.groups)
        )
        return plan

    def release(self, reservation: str) -> None:
        """Release the job's reservation and remove its files. Without one it does nothing. Raises DelegationRefused during a swap."""
        if self._plan is not None and self._plan.reservation == reservation:
            if self._swap is not None:
                raise DelegationRefused(f"what {reservation} has cleaned is being swapped in")
            self._forget()

    def expire(self, now_ms: int) -> None:
        """Forget a reservation whose time is over, and remove its files; one that is being swapped in goes on."""
        if self._plan is not None and self._swap is None and now_ms > self._plan.deadline_ms:
            _log.warning("delegated_compaction_expired", **self._names(), reservation=self._plan.reservation)
            self._forget()

    async def swap(self, reservation: str, leader_epoch: int, pace: Callable[[int], Awaitable[None]]) -> DelegationEnd:
        """Swap in all files of the job, or none of them. May be repeated. Raises DelegationRefused, KafkaError.

        A refused reservation is over, and the broker compacts the partition itself again.
        """
        if self._ended is not None and self._ended[0] == reservation and leader_epoch == self._partition.leader_epoch:
            return self._ended[1]
        plan = check_reservation(
            self._plan,
            reservation,
            leader_epoch,
            own_epoch=self._partition.leader_epoch,
            now_ms=self._context.clock.now_ms(),
        )
        if self._swap is None:
            # A task of its own: the job may lose its connection, and then asks again.
            self._swap = asyncio.get_running_loop().create_task(self._swapped(plan, pace))
            self._swap.add_done_callback(_heard)
        return await asyncio.shield(self._swap)

    async def _swapped(self, plan: DelegatedPlan, pace: Callable[[int], Awaitable[None]]) -> DelegationEnd:
        try:
            self._ended = plan.reservation, await _Swap(self._partition, self._changes, plan, pace).run()
            return self._ended[1]
        except BmqError as error:
            _log.warning("delegated_compaction_refused", **self._names(), reason=str(error))
            raise
        finally:
            self._swap = None
            self._forget()

    def _forget(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            self._context.deferred_deletes.put((plan.directory,), 0)

    def _names(self) -> dict[str, Any]:
        return {"topic": self._partition.topic_name, "partition": self._partition.topic_partition.partition}


class _Swap:
    def __init__(
        self,
        partition: OwnedPartition,
        changes: ManifestChanges,
        plan: DelegatedPlan,
        pace: Callable[[int], Awaitable[None]],
    ) -> None:
        self._context = partition.context
        self._store = partition.context.store
        self._partition = partition
        self._changes = changes
        self._plan = plan
        self._pace = pace
        self._files: PartitionFiles
        self._moved: list[str] = []
        self._rolls: list[int] = []  # of what was moved

    async def run(self) -> DelegationEnd:
        """Raises DelegationRefused, KafkaError: then the log is as it was, unless the last manifest's fate is unknown."""
        plan = self._plan.cleaning
        await self._changes.apply(self._check_extents)
        try:
            described = await self._described()
            check_files(plan, described)
            replacements = [
                await self._take_in(file, group) for file, group in zip(described, plan.groups, strict=True)
            ]
            if self._context.clock.now_ms() > self._plan.deadline_ms:
                raise DelegationRefused(f"the reservation {self._plan.reservation} ended while its files were checked")
            self._require_owning()
        except StoreError as error:
            await self._discard()
            code = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if isinstance(error, FencedWriter) else ErrorCode.KAFKA_STORAGE_ERROR
            )
            raise KafkaError(code, str(error)) from error
        except BaseException:
            await self._discard()
            raise
        await self._swap_in(replacements)
        return self._end(described)

    async def _check_extents(self, files: PartitionFiles) -> tuple[str, ...]:
        self._files = files
        check_extents(self._plan.cleaning, files.extents)
        return ()

    async def _described(self) -> list[CleanedFile]:
        """In the order of the groups."""
        try:
            entries = await self._store.list_directory(self._plan.directory)
        except FileMissing as error:
            raise DelegationRefused(f"{self._plan.directory} is gone") from error
        found: list[CleanedFile] = []
        for group, name in sorted(descriptions(entries).items()):
            path = f"{self._plan.directory}/{name}"
            try:
                data = await self._store.read_file(path, length_bytes_max=DESCRIPTION_BYTES_MAX)
            except (FileMissing, CorruptFile) as error:
                raise DelegationRefused(str(error)) from error
            file = CleanedFile.decode(data)
            if file.group != group:
                raise DelegationRefused(f"{path} describes group {file.group}")
            found.append(file)
        return found

    async def _take_in(self, file: CleanedFile, group: tuple[Extent, ...]) -> Replacement:
        """Check the file, move it to where segments of this owner are, and write its index."""
        self._require_owning()
        source = f"{self._plan.directory}/{file.name}"
        index = await checked_index(
            self._store,
            source,
            file,
            leader_epoch=self._plan.leader_epoch,
            aborted=self._plan.cleaning.aborted,
            index_interval_bytes=self._plan.cleaning.index_interval_bytes,
            pace=self._pace,
        )
        roll, paths = self._files.next_rewritten_roll(is_merge=False), self._files.paths
        target = paths.segment(paths.leader_epoch, roll)
        self._moved.append(target)
        self._rolls.append(roll)
        try:
            await self._store.rename(source, target)
        except FileMissing as error:
            raise DelegationRefused(f"{source} is gone") from error
        status = await self._store.status(target)
        if status is None or (status.file_id, status.length_bytes) != (file.file_id, file.length_bytes):
            raise DelegationRefused(f"{source} was changed while it was taken")
        replicas = await self._store.count_replicas(target)
        if shortage := shortage_of(source, replicas, self._partition.config, self._store.replicas_wanted):
            raise DelegationRefused(shortage)
        if self._partition.config.durability is Durability.HSYNC:
            await self._store.take_over(
                target, previous_holder=self._context.holder, durability=self._partition.config.durability
            )
        summary = replace(
            index.summary,
            leader_epoch=paths.leader_epoch,
            roll=roll,
            file_id=file.file_id,
            epoch_starts=((paths.leader_epoch, index.summary.base_offset),),
        )
        cleaned = CleanedSegment(replace(index, summary=summary), file.dropped_aborts)
        try:
            return await self._files.prepare_replacement(group, cleaned)
        except ExtentsChanged as error:
            raise DelegationRefused(str(error)) from error

    async def _swap_in(self, replacements: list[Replacement]) -> None:
        end_offset = replacements[-1].extent.end_offset
        try:
            await self._changes.apply(lambda files: files.swap_in(replacements, first_dirty_offset=end_offset))
        except BaseException as error:
            if isinstance(error.__cause__, ExtentsChanged):
                await self._discard()
                raise DelegationRefused(str(error)) from error
            # A manifest may name the files, even one whose writing seems to have failed.
            self._changes.leave_behind((*self._moved, *self._indexes()))
            raise
        self._changes.compacted_below(end_offset)

    def _end(self, described: list[CleanedFile]) -> DelegationEnd:
        plan, counts = self._plan.cleaning, self._context.counts
        end = DelegationEnd(
            first_dirty_offset=described[-1].end_offset,
            records_read=sum(file.records_read for file in described),
            records_kept=sum(file.record_count for file in described),
            bytes_read=sum(extent.length for group in plan.groups for extent in group),
            bytes_kept=sum(file.length_bytes for file in described),
        )
        counts.compactions += 1
        counts.compacted_bytes += end.bytes_read
        _log.info(
            "compacted",
            topic=plan.topic,
            partition=plan.partition,
            job=self._plan.job,
            first_dirty_offset=end.first_dirty_offset,
            records_read=end.records_read,
            records_kept=end.records_kept,
            bytes_read=end.bytes_read,
            bytes_kept=end.bytes_kept,
        )
        return end

    def _require_owning(self) -> None:
        if not self._partition.is_owning:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned here any more")

    async def _discard(self) -> None:
        """Remove the moved files: they are not part of the log."""
        self._changes.leave_behind(self._indexes())
        for path in self._moved:
            try:
                await self._store.delete(path)
            except StoreError as error:
                _log.info("compacted_segment_not_removed", path=path, reason=str(error))
                self._changes.leave_behind((path,))

    def _indexes(self) -> list[str]:
        """The index paths of the moved files, whether the indexes were written or not."""
        paths = self._files.paths
        return [paths.index(paths.leader_epoch, roll, paths.leader_epoch) for roll in self._rolls]


def _heard(task: asyncio.Task[DelegationEnd]) -> None:
    """Retrieve the exception: the job may be gone, and the failure is logged already."""
    if not task.cancelled():
        task.exception()
