"""Sequence numbers of batches that were refused a moment ago, so that later batches of the producer do not overtake them. Pure.

An owner accepts any first sequence number from an unknown producer, because it may have forgotten the producer. So if a
producer's first batch is refused and batches sent after it reach the next owner, they are written without it, and its retry is
out of order for good. In Kafka this can happen to requests in flight. Here requests also wait for partitions that start or move,
which makes it likelier. So proxies remember the batches that they refused. Owners do too: an owner may refuse one batch because
too few nodes hold its segment, open a segment on enough nodes, and then receive the next batch.

A batch that arrives more than `FORGOTTEN_S` seconds (of a running process) after the refusal may pass. One that came before the
refusal, and has waited here since, never does. An entry ends when its batch comes again, or when no batch can have waited longer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from bmq.log.partition_log import AppendResult
from bmq.protocol.error_codes import RETRIABLE, ErrorCode
from bmq.protocol.record_batch import producer_of

FORGOTTEN_S: Final = 2.0
"""Seconds after which the client has read the refusal, and sends no more batches that assume success."""
STEP_S_MAX: Final = 0.5
"""Most time that counts between two calls: after a stall, batches sent before the refusal may still be unread."""
PRODUCERS_MAX: Final = 10_000
WAITED_S_MAX: Final = 60.0
"""Longer than any produce waits for its partition's next owner."""
_SEQUENCES: Final = 2**31


_SENT_AGAIN: Final = RETRIABLE - {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}  # with that code the batch is in the log
BEHIND_A_REFUSED_ONE: Final = AppendResult(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, message="an earlier batch of the producer was refused"
)


class _Refused(NamedTuple):
    sequence: int
    refused_s: float
    until_age_s: float


class RefusedSequences:
    """Remembers refused batches.

    `entries`: read-only for callers, and almost always empty; while it is, no batch's header has to be parsed. `partition`: any
    key that is the same for all batches of a partition.
    """

    __slots__ = ("_age_s", "_aged_s", "_may_exist", "entries")

    def __init__(self, may_exist: Callable[[Hashable], bool] = lambda partition: True) -> None:
        self._may_exist = may_exist
        self._age_s = 0.0  # running time: advances with each call, by at most STEP_S_MAX
        self._aged_s = 0.0
        self.entries: dict[tuple[Hashable, int, int], _Refused] = {}

    def add(
        self,
        partition: Hashable,
        records: memoryview,
        now_s: float,
        error_code: ErrorCode,
    ) -> None:
        """Remember a batch refused with `error_code`, if clients retry after that code."""
        is_kept = error_code in _SENT_AGAIN and self._may_exist(partition)
        producer = producer_of(records) if is_kept else None
        if producer is None:
            return
        producer_id, producer_epoch, sequence = producer
        key = partition, producer_id, producer_epoch
        known = self.entries.pop(key, None)
        if known is not None and _is_behind(sequence, known.sequence):
            sequence = known.sequence
        self._forget(now_s)
        if len(self.entries) < PRODUCERS_MAX:
            self.entries[key] = _Refused(sequence, now_s, self._age_s + FORGOTTEN_S)

    def is_passed_by(
        self, partition: Hashable, records: memoryview, now_s: float, arrived_s: float | None = None
    ) -> bool:
        """Whether this batch would overtake a refused one. The refused batch itself may pass, and ends its entry.

        `arrived_s`: when the batch came; None for just now.
        """
        self._forget(now_s)
        producer = producer_of(records)
        if producer is None:
            return False
        producer_id, producer_epoch, sequence = producer
        key = partition, producer_id, producer_epoch
        known = self.entries.get(key)
        if known is None:
            return False
        if _is_behind(sequence, known.sequence):
            return known.until_age_s > self._age_s or (arrived_s is not None and arrived_s <= known.refused_s)
        del self.entries[key]
        return False

    def _forget(self, now_s: float) -> None:
        """Drop expired entries; the oldest come first."""
        self._age_s += min(max(0.0, now_s - self._aged_s), STEP_S_MAX)
        self._aged_s = now_s
        refused = self.entries
        while refused:
            key = next(iter(refused))
            first = refused[key]
            if first.until_age_s > self._age_s or first.refused_s + WAITED_S_MAX > now_s:
                return
            del refused[key]


def _is_behind(sequence: int, other: int) -> bool:
    """Whether `sequence` comes after `other`; sequences wrap to 0 after the greatest one."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
