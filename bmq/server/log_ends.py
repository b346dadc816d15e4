"""Where logs end, for the lag of groups: at once for those that are owned here, by a bounded question for others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import NO_LEADER, MetadataImage
from bmq.protocol.errors import BmqError
from bmq.proxy.partitions import Partitions

QUESTIONS_MAX: Final = 16
"""Other nodes' partitions that are asked about at the same time."""
ASKED_MAX: Final = 1_000
"""Partitions of other nodes that one call asks about; it goes on with further ones at the next call."""


class OwnedLogEnds:
    """`own`: a log that is owned here and started. `others`: reaches logs of other nodes; None: there are none."""

    def __init__(
        self,
        own: Callable[[TopicPartition], PartitionLog | None],
        others: Partitions | None = None,
        image: Callable[[], MetadataImage] = MetadataImage,
        node_id: int = -1,
        wait_s: float = 1.0,
    ) -> None:
        self._own = own
        self._others = others
        self._image = image
        self._node_id = node_id
        self._wait_s = wait_s
        self._asked_before: set[TopicPartition] = set()

    async def of(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See LogEnds. A partition of this node that was not needed since the start is not started for this."""
        found = {key: log.high_watermark for key in partitions if (log := self._own(key)) is not None}
        if self._others is not None:
            await self._ask(self._others, [key for key in partitions if key not in found], found)
        return found

    async def _ask(
        self, others: Partitions, partitions: Collection[TopicPartition], found: dict[TopicPartition, int]
    ) -> None:
        elsewhere = [key for key in partitions if self._is_elsewhere(key)]
        waiting = [key for key in elsewhere if key not in self._asked_before]
        if not waiting:
            waiting, self._asked_before = elsewhere, set()
        waiting = waiting[:ASKED_MAX]
        self._asked_before.update(waiting)
        left = iter(waiting)

        async def ask() -> None:
            for key in left:
                try:
                    log = await others.leader_of(key)
                    await log.prove_ownership()
                    found[key] = log.high_watermark
                except BmqError:
                    continue  # its owner is away: the end stays unknown

        if not waiting:
            return
        asking = [asyncio.ensure_future(ask()) for _ in range(min(QUESTIONS_MAX, len(waiting)))]
        try:
            await asyncio.wait(asking, timeout=self._wait_s)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)
        for task in asking:
            if not task.cancelled():
                task.result()

    def _is_elsewhere(self, key: TopicPartition) -> bool:
        topic = self._image().topics_by_id.get(key.topic_id)
        partition = None if topic is None else topic.partition(key.partition)
        return partition is not None and partition.leader not in (self._node_id, NO_LEADER)
