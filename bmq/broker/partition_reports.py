"""What an operator reads about one partition: the log lines of its start and of its end, and why it is offline."""

from __future__ import annotations

import asyncio

import structlog

from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_offline import PartitionOffline
from bmq.broker.starting import Start
from bmq.log.damage import Damage, StateDamaged
from bmq.protocol.errors import BmqError

_log = structlog.get_logger("bmq.broker")


class PartitionReports:
    """`start`: how the partition started, once it has."""

    def __init__(self, partition: OwnedPartition, start: Start) -> None:
        self._partition = partition
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._began_s = 0.0
        self._offline_reason = ""
        self._offline_damage: Damage | None = None

    def begin(self) -> None:
        """The start begins."""
        self._began_s = self._loop.time()

    def started(self) -> None:
        """The partition is owned here."""
        recovered = self._start.recovered
        assert recovered is not None
        was_clean = not recovered.scanned_bytes and not self._start.open_files
        (_log.debug if was_clean else _log.info)(
            "partition_started",
            **self._partition.names(),
            end_offset=recovered.end_offset,
            scanned_bytes=recovered.scanned_bytes,
            files_closed=len(self._start.open_files),
            seconds=round(self._loop.time() - self._began_s, 4),
        )

    def offline(self, error: BaseException) -> None:
        """The partition goes offline for this error."""
        self._partition.context.counts.offline += 1
        self._offline_reason = str(error) if isinstance(error, BmqError) else f"{type(error).__name__}: {error}"
        self._offline_damage = error.damage if isinstance(error, StateDamaged) else None
        reason = f"{type(error).__name__}: {error}"
        _log.error("partition_offline", **self._partition.names(), reason=reason, exc_info=error)

    def offline_error(self) -> PartitionOffline:
        """The error for callers while the partition is offline."""
        return PartitionOffline(self._offline_reason, self._offline_damage)
