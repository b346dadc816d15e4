"""Writes the dead letters of a retry topic's partition, when records that used up their attempts come due.

A dead letter is durable before the position of deliveries passes its record (docs/FENCING.md). So a dead letter may be written
twice, and is never missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.ownership import Ownership
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.retry_letters import DeadRetry
from bmq.log.timers.retrying import DeadBody, GivenUp, dead_body
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

NOT_WRITTEN = "this node does not write dead letters"


class DeadRetries:
    """The dead letters of one partition.

    `_written`: names (offsets) of the records of the present delivery whose dead letters are durable, while the delivery is not.
    A delivery that is tried again does not write them again.
    """

    def __init__(self, partition: OwnedPartition, ownership: Ownership) -> None:
        self._partition = partition
        self._ownership = ownership
        self._written: frozenset[int] = frozenset()

    def refusal(self, given_up: Sequence[GivenUp]) -> str | None:
        """Why no dead letters can be written for these records now; None: they can, or there are no records."""
        if not given_up:
            return None
        letters = self._partition.context.retry_letters
        if letters is None:
            return NOT_WRITTEN
        return letters.refusal(self._partition.topic_name, max(one.size_bytes for one in given_up))

    async def living(self, records: list[DueRecord]) -> list[DueRecord]:
        """The records that consumers are to get. The dead letters of all others are durable when this returns.

        Raises BmqError, StoreError.
        """
        if not self._partition.config.retry_levels_ms:
            return records
        living: list[DueRecord] = []
        dead: list[tuple[int, DeadBody]] = []
        for record in records:
            body = dead_body(record.body)
            if body is None:
                living.append(record)
            else:
                dead.append((record.offset, body))
        self._written &= frozenset(offset for offset, _ in dead)
        left = [one for one in dead if one[0] not in self._written]
        if left:
            await self._write(left)
        return living

    async def _write(self, dead: list[tuple[int, DeadBody]]) -> None:
        partition, letters = self._partition, self._partition.context.retry_letters
        if letters is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, NOT_WRITTEN)
        # An owner that was replaced must write none: the next owner writes the same dead letters.
        await self._ownership.prove()
        now_ms = partition.context.clock.now_ms()
        left = [DeadRetry(offset, body.attempts, body.record(now_ms)) for offset, body in dead]
        while left:
            count = await letters.write(partition.topic_name, partition.topic_partition.partition, left)
            self._written |= frozenset(one.offset for one in left[:count])
            left = left[count:]
