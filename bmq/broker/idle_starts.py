"""Starts assigned partitions that nobody has asked for and that have files.

After a restart or a move a partition is started by whoever asks for it first. Some of the others are started soon after,
so that a node with few partitions has them ready: the first reader of six waited 0.3 s for them. The rest stays idle, since
a started partition makes a stop or the next move longer, until a round of retention: that and compaction look at started
ones only, and a topic that is no longer used must not keep its records for ever.

They are started one after the other and with rests, because each start costs the store some twenty calls and nobody waits
for it. One that nobody ever started has no files, and stays idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from bmq.aio.duty_pauses import pause_after
from bmq.log.names import EpochListing, partition_directory
from bmq.log.partition_log import PartitionStarting, TopicPartition
from bmq.log.store import FileMissing, SegmentStore, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

SHARE: Final = 1 / 8
SHARE_SOON: Final = 1 / 2
REST_MAX_S: Final = 5.0

_log = structlog.get_logger("bmq.broker")


class IdleStarts:
    """`start` returns once the partition is served, or raises KafkaError."""

    def __init__(self, store: SegmentStore, start: Callable[[TopicPartition], Awaitable[object]]) -> None:
        self._store = store
        self._start = start
        self._empty: set[tuple[TopicPartition, int]] = set()

    def is_empty(self, key: TopicPartition, leader_epoch: int) -> bool:
        """Whether a partition that is idle in this epoch of ours has no files, as far as we know: epochs begin with 0."""
        return not leader_epoch or (key, leader_epoch) in self._empty

    async def round(
        self, idle: Mapping[TopicPartition, int], *, starts_max: int | None = None, share: float = SHARE
    ) -> int:
        """Start those of these partitions, with our leader epoch of each, that have files; how many.

        At most `starts_max`, in this share of the time. One that cannot start now is reported, and the next round tries
        again. A store that is away ends the round: starts that wait for it would pile up.
        """
        self._empty &= idle.items()  # nobody but its owner writes to a partition
        loop = asyncio.get_running_loop()
        started = 0
        for key, leader_epoch in idle.items():
            if started == starts_max:
                break
            if self.is_empty(key, leader_epoch):
                continue
            began_s = loop.time()
            try:
                if await self._has_files(key):
                    await self._start(key)
                    started += 1
                else:
                    self._empty.add((key, leader_epoch))
            except BmqError as error:
                if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:  # else it has moved meanwhile
                    _log.warning("partition_not_started", partition=partition_directory(key), reason=str(error))
                if isinstance(error, PartitionStarting | StorageUnavailable):
                    return started
            except Exception:  # noqa: BLE001 a bug with one partition must not keep the others
                _log.exception("partition_not_started", partition=partition_directory(key))
            await asyncio.sleep(pause_after(loop.time() - began_s, share, REST_MAX_S))
        return started

    async def _has_files(self, key: TopicPartition) -> bool:
        try:
            listing = EpochListing.of(await self._store.list_directory(partition_directory(key)))
        except FileMissing:
            return False
        return bool(listing.open_epochs or listing.sealed_epochs)
