"""Where logs end, for the lag of groups: at once for those that are owned here, by a bounded question for others."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import NO_LEADER, MetadataImage
from bmq.protocol.errors import BmqError

QUESTIONS_MAX: Final = 16
"""Other nodes' partitions that are asked about at the same time."""
ASKED_MAX: Final = 1_000
"""Partitions of other nodes that one round asks about; the next one goes on with further ones."""
ROUND_S: Final = 15.0
"""Time from one round of questions to the next, at least."""
_PARTITIONS_PER_TURN: Final = 2_000


class OtherLogs(Protocol):
    """Reaches logs of other nodes."""

    async def glance(self, topic_partition: TopicPartition) -> int:
        """The high watermark; starts and proves nothing. Raises BmqError: it is idle, or its owner is away."""


class OwnedLogEnds:
    """`own`: a log that is owned here and started. `others`: None: there are no other nodes. `now_s`: a clock that does not
    go back.
    """

    def __init__(
        self,
        own: Callable[[TopicPartition], PartitionLog | None],
        others: OtherLogs | None = None,
        image: Callable[[], MetadataImage] = MetadataImage,
        node_id: int = -1,
        wait_s: float = 1.0,
        now_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._own = own
        self._others = others
        self._image = image
        self._node_id = node_id
        self._wait_s = wait_s
        self._now_s = now_s
        self._asked_before: set[TopicPartition] = set()
        self._asked_s = -math.inf

    async def of(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See LogEnds. A partition that was not needed since its owner's start is not started for this, here or elsewhere.
        Between two rounds other nodes are not asked, and their ends are left out.
        """
        is_round = self._others is not None and self._now_s() - self._asked_s >= ROUND_S
        found: dict[TopicPartition, int] = {}
        elsewhere: list[TopicPartition] = []
        for number, key in enumerate(partitions, 1):
            if (log := self._own(key)) is not None:
                found[key] = log.high_watermark
            elif is_round and self._is_elsewhere(key):
                elsewhere.append(key)
            if number % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        if self._others is not None and elsewhere:
            self._asked_s = self._now_s()
            await self._ask(self._others, elsewhere, found)
        return found

    async def _ask(
        self, others: OtherLogs, elsewhere: Collection[TopicPartition], found: dict[TopicPartition, int]
    ) -> None:
        waiting = [key for key in elsewhere if key not in self._asked_before]
        if not waiting:
            waiting, self._asked_before = list(elsewhere), set()
        waiting = waiting[:ASKED_MAX]
        self._asked_before.update(waiting)
        left = iter(waiting)

        async def ask() -> None:
            for key in left:
                try:
                    found[key] = await others.glance(key)
                except BmqError:
                    continue  # it is idle, or its owner is away: the end stays unknown

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
